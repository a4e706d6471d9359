# SPDX-License-Identifier: GPL-3.0-or-later
"""Find missing packages in rpm's records, write version specifications for dnf, and read its versionlock."""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...common.text import matches_any
from ...common.versions import matches, without_epoch
from .dpkg import MissingPackages, followed, name_of, strayed

Run = Callable[[list[str]], Outcome]
LOCKS = "/etc/dnf/plugins/versionlock.list"
LOCKS_PLUGIN = "python3-dnf-plugin-versionlock"
"""Package with versionlock's file; it depends on the core plugins, which contain `dnf download`."""
NONE = "!"
"""Marker instead of a version: dnf must not install any version."""
LOCKS_CONFIGURATION = Path("/etc/dnf/plugins/versionlock.conf")
_FORMAT = "%{NAME}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n"


class RpmError(Exception):
    """rpm's records cannot be read."""


def spec(name: str, version: str = "*") -> str:
    """Return dnf's specification of a version, which may be a pattern; without an epoch, any epoch matches.

    >>> spec("libnvidia-ml", "3:1.2-*"), spec("cuda-toolkit", "12.9.*"), spec("nvlsm")
    ('libnvidia-ml-3:1.2-*', 'cuda-toolkit-12.9.*-*', 'nvlsm')
    """
    if version in ("", "*"):
        return name
    return f"{name}-{version}" if "-" in version else f"{name}-{version}-*"


def lock(name: str, version: str) -> str:
    """Return the versionlock line that allows only this version of a package, on every architecture.

    >>> lock("kernel-core", "5.14.0-1.el9")
    'kernel-core-5.14.0-1.el9.*'
    """
    return f"{spec(name, version)}.*"


def is_version(installed: str, asked: str) -> bool:
    """Return whether epoch:version-release matches the request; without an epoch, any epoch matches; a final * matches any rest.

    >>> [is_version("3:1.2-1.el9", one) for one in ("", "3:1.2-*", "1.2-1.el9", "2:1.2-*", "1.2.*")]
    [True, True, True, False, False]
    """
    if asked in ("", "*"):
        return True
    there = installed if ":" in asked else without_epoch(installed)
    if "-" not in asked and not asked.endswith("*"):
        return there.rpartition("-")[0] == asked
    return matches(there, asked)


def installed(names: Sequence[str], run: Run = command.run) -> dict[str, list[str]]:
    """Return name -> epoch:version-release of all installed packages that match names or patterns, by one call.

    Raises RpmError if rpm or its records are missing.
    """
    found: dict[str, list[str]] = {}
    if not names:
        return found
    # rpm accepts patterns only with --all, and in a syntax of its own, in which a set of characters means something else.
    patterns = any(set(name) & set("*?[") for name in names)
    asked = ["--all", *(re.sub(r"\[[^]]*\]", "*", name) for name in names)] if patterns else ["--", *names]
    said = run(["rpm", "-q", "--queryformat", _FORMAT, *asked])
    if said.code in (None, 127) or "error:" in said.stderr:
        raise RpmError(
            f"rpm -q: {said.text or 'no output'}. The cluster file states a system with dnf for this machine. If it has another system, "
            "state that one in the cluster file (gpu_stack.os)"
        )
    for line in said.stdout.splitlines():
        name, tab, version = line.partition("\t")
        if tab and matches_any(name, names):
            found.setdefault(name, []).append(version)
    return found


def missing_packages(wanted: Sequence[str], run: Run = command.run) -> MissingPackages:
    """Return the packages, as name or name=version, that are not installed as requested. rpm has no automatic packages."""
    parsed = _parsed(wanted)
    there = installed([*parsed], run)
    return MissingPackages(
        [
            _joined(name, version)
            for name, version in parsed.items()
            if not any(is_version(one, version) for one in there.get(name, ()))
        ],
        [],
    )


def mismatched(followers: Sequence[str], run: Run = command.run) -> list[str]:
    """Return name=version of installed followers in another version; a follower without a version never mismatches."""
    return strayed(followed(followers, installed([*map(name_of, followers)], run)), is_version)


def installed_names(followers: Sequence[str], run: Run = command.run) -> list[str]:
    """Return the names of the installed followers, in any version."""
    there = followed(followers, installed([*map(name_of, followers)], run))
    return [name for versions in there.values() for name in versions]


def of_other_versions(patterns: Sequence[str], version: str, run: Run = command.run) -> dict[str, str]:
    """Return name -> version of the installed packages that match a pattern and have another version, ignoring epochs."""
    return {
        name: without_epoch(one)
        for name, versions in installed(patterns, run).items()
        for one in versions
        if not matches(without_epoch(one), version)
    }


def followers_locks(followers: Sequence[str], run: Run = command.run) -> list[str]:
    """Return the lines that lock the installed versions of followers without a stated version.

    Followers with a stated version are locked by the caller, before they are installed.
    """
    there = followed(followers, installed([*map(name_of, followers)], run))
    return [
        lock(name, version)
        for entry, found in there.items()
        if "=" not in entry
        for name, versions in found.items()
        for version in versions
    ]


def specs(packages: Sequence[str]) -> list[str]:
    """Return dnf's specifications of packages.

    >>> specs(["dkms", "libnvidia-ml=3:1.2-*"])
    ['dkms', 'libnvidia-ml-3:1.2-*']
    """
    return [spec(name, version) for name, version in _parsed(packages).items()]


def expire_lists(run: Run = command.run) -> None:
    """Make dnf read its repositories again at its next start: the site may just have added a version."""
    run(["dnf", "--quiet", "clean", "expire-cache"])


def locks(configuration: Path = LOCKS_CONFIGURATION) -> frozenset[str]:
    """Return versionlock's lines; none if it is not installed or is disabled. dnf reads them at every start."""
    settings = configparser.ConfigParser(interpolation=None)
    try:
        settings.read_string(configuration.read_text())
        if not settings.getboolean("main", "enabled", fallback=False):
            return frozenset()
        lines = Path(settings.get("main", "locklist", fallback=LOCKS)).read_text().splitlines()
    except (OSError, ValueError, configparser.Error):
        return frozenset()
    return frozenset(line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#"))


def held(wanted: Mapping[str, str], lines: frozenset[str]) -> frozenset[str]:
    """Return the names that are locked to their version, or, with the version NONE, are excluded.

    Any version, "*", needs no lock.
    """
    return frozenset(
        name
        for name, version in wanted.items()
        if version in ("", "*") or {lock(name, version), f"{NONE}{name}"} & lines
    )


def kept(followers: Sequence[str], lines: frozenset[str], run: Run = command.run) -> frozenset[str]:
    """Return the names of installed followers without a stated version that are locked at their installed version."""
    found = followed(followers, installed(followers, run))
    return frozenset(
        name
        for there in found.values()
        for name, versions in there.items()
        if {lock(name, one) for one in versions} <= lines
    )


def _parsed(packages: Sequence[str]) -> dict[str, str]:
    return {name: version for name, _equals, version in (entry.partition("=") for entry in packages)}


def _joined(name: str, version: str) -> str:
    return f"{name}={version}" if version else name
