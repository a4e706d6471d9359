# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of GPU packages with their keys, and the values of apt's files for them and for pins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from . import stack_table
from .resolve import Stack
from .stack_model import ARCHITECTURES, StackOrigin

MIRROR = "mirror"
_OURS, _NEVER = 1001, -1


@dataclass(frozen=True)
class PackageRepository:
    """A repository as apt or dnf gets it. A suite that ends with / is a flat one, without components.

    `key` is an armored public key, or the path of a keyring on the machine. `unsigned_rpms`: only the list of its rpms is signed.
    """

    name: str
    url: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    key: str
    unsigned_rpms: bool = False


def of_stack(stack: Stack, system: str, source: str) -> list[StackOrigin]:
    """Return the repositories that have the packages of a set: of its source, and of single parts."""
    parts = {package.part for package in stack.packages}
    rows = [row for row in stack_table.default().repositories if system in row.systems]
    return [row for row in rows if row.source == source or row.part in parts]


def located(
    row: StackOrigin, system: str, url: str = "", key: str = "", architecture: str = ARCHITECTURES[0]
) -> PackageRepository:
    """Return a repository for a system, at `url` and signed by `key` where these are given."""
    table, called = stack_table.default(), row.systems[system]
    suites = tuple(suite.format(system=called) for suite in row.suites)
    arch = table.architectures[architecture][table.systems[system].family]
    place = url or row.urls.get(architecture, row.url).format(system=called, arch=arch)
    return PackageRepository(row.name, place, suites, row.components, key or row.keyring, row.unsigned_rpms)


def mirrored(system: str, architecture: str) -> str:
    """Return what a mirror calls its repository of a system: one for each architecture.

    >>> mirrored("debian-13", "x86_64"), mirrored("debian-13", "arm64")
    ('debian-13', 'debian-13-arm64')
    """
    return system if architecture == ARCHITECTURES[0] else f"{system}-{architecture}"


def source_values(repository: PackageRepository) -> dict[str, Any]:
    """Return the values of node_os/apt.sources.j2: name, url, suites, components, and keyring (a path) or key_lines.

    >>> source_values(PackageRepository("x", "http://m.example.org/gpu", ("./",), (), "/k.gpg"))["keyring"]
    '/k.gpg'
    """
    is_path = repository.key.startswith("/")
    return {
        "name": repository.name,
        "url": repository.url,
        "suites": " ".join(repository.suites),
        "components": " ".join(repository.components),
        "keyring": repository.key if is_path else "",
        # A blank line would end the paragraph.
        "key_lines": [] if is_path else [line or "." for line in repository.key.strip().splitlines()],
    }


def pin_values(
    about: str,
    pinned: Mapping[str, str],
    never: Iterable[str] = (),
    foreign: Mapping[str, Iterable[str]] | None = None,
) -> dict[str, Any]:
    """Return the values of node_os/apt.pref.j2: no other version of the pinned packages is installed, by upgrade or by downgrade.

    `pinned` is name -> version or pattern, `never` are patterns of packages that must not be installed, `foreign` is the name that
    another repository gives itself -> packages of which it has others than these.
    """
    # apt takes the first paragraph that names a package: what other repositories have is out before versions are looked at.
    pins = [_pin(sorted(names), f"release o={origin}", _NEVER) for origin, names in (foreign or {}).items()]
    by_version = groupby(sorted(pinned.items(), key=lambda row: (row[1], row[0])), key=lambda row: row[1])
    pins += [_pin([name for name, _unused in rows], f"version {version}", _OURS) for version, rows in by_version]
    patterns = [name for name in never if name not in pinned]
    if patterns:
        pins.append(_pin(patterns, "version *", _NEVER))
    return {"about": about, "pins": pins}


def _pin(names: Iterable[str], pin: str, priority: int) -> dict[str, Any]:
    return {"packages": " ".join(names), "pin": pin, "priority": priority}
