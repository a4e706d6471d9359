# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the packages of two snapshots, by the newest version of each name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...gpu_lock.version_order import compare_deb, compare_rpm, newest_first
from .snapshot_model import Snapshot

ADDED, REMOVED, NEWER, OLDER = "added", "removed", "newer", "older"
SECURITY = "security"


@dataclass(frozen=True, order=True)
class PackageChange:
    """A package that differs: its system, how, name and architecture, both versions ("" for none), and whether it is a security update."""

    system: str
    how: str
    name: str
    architecture: str
    before: str
    after: str
    is_security: bool

    def __str__(self) -> str:
        versions = " -> ".join(one for one in (self.before, self.after) if one)
        return f"{self.system}: {self.how}{' (security)' if self.is_security else ''}: {self.name} {versions}"


def differences(before: Snapshot | None, after: Snapshot) -> list[PackageChange]:
    """Return the differences; without a snapshot before, none."""
    if before is None:
        return []
    found: list[PackageChange] = []
    for system in sorted({*before.systems, *after.systems}):
        old, new = _newest(before, system), _newest(after, system)
        for key in sorted({*old, *new}):
            found += _changes(system, key, old.get(key), new.get(key))
    return sorted(found)


def counted(changes: list[PackageChange]) -> str:
    """Return how many packages differ, in a line.

    >>> counted([])
    'no package differs'
    """
    counts = {how: sum(one.how == how for one in changes) for how in (NEWER, OLDER, ADDED, REMOVED)}
    said = [f"{number} {how}" for how, number in counts.items() if number]
    urgent = sum(one.is_security for one in changes)
    return f"{', '.join(said)}; security updates: {urgent}" if said else "no package differs"


@dataclass(frozen=True)
class _Newest:
    version: str
    kinds: tuple[str, ...]
    family: str


def _newest(snapshot: Snapshot, system: str) -> dict[tuple[str, str], _Newest]:
    """Return name and architecture -> the newest version of a system."""
    family = ""
    versions: dict[tuple[str, str], dict[str, list[str]]] = {}
    for repository in snapshot.repositories:
        if repository.system == system:
            family = repository.family
            for one in repository.packages:
                kinds = versions.setdefault((one.name, one.architecture), {}).setdefault(one.version, [])
                kinds.append(repository.kind)
    found = {}
    for key, listed in versions.items():
        newest = next(iter(newest_first(family, listed)))
        found[key] = _Newest(newest, tuple(listed[newest]), family)
    return found


def _changes(system: str, key: tuple[str, str], old: _Newest | None, new: _Newest | None) -> Iterator[PackageChange]:
    name, architecture = key
    if old and new:
        order = (compare_rpm if new.family == "rpm" else compare_deb)(new.version, old.version)
        if order:
            is_security = order > 0 and SECURITY in new.kinds
            yield PackageChange(
                system, NEWER if order > 0 else OLDER, name, architecture, old.version, new.version, is_security
            )
    elif new:
        yield PackageChange(system, ADDED, name, architecture, "", new.version, SECURITY in new.kinds)
    elif old:
        yield PackageChange(system, REMOVED, name, architecture, old.version, "", False)
