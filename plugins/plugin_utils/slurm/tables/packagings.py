# SPDX-License-Identifier: GPL-3.0-or-later
"""Packagings of Slurm: names of packages, users, directories and what else differs between Debian's, SchedMD's and OpenHPC's packages.

`packagings.json` is the table, with the source of each row. A site may have a table of its own, see `own`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any

OWN = "own"
"""Name of the packaging of a site's own table."""
DEFAULT = "debian"
PARTS = ("database", "controller", "compute", "login", "rest")
"""Parts of the role slurm that install packages."""


class PackagingError(ValueError):
    """A packaging that does not exist for a package manager."""


@dataclass(frozen=True)
class System:
    """Files and packages that differ between systems of apt and of dnf, for every packaging.

    `account_rules`: pattern of the line of /etc/pam.d/sshd behind which the account rules of a node belong. `mariadb_conf` and
    `mariadb_sql`: files of MariaDB.
    """

    compiler: tuple[str, ...]
    account_rules: str
    mariadb_conf: str
    mariadb_sql: str
    mariadb_program: str


@dataclass(frozen=True)
class Packaging:
    """Slurm's packages as one source makes them. packagings.json explains the keys."""

    name: str
    manager: str
    packages: Mapping[str, tuple[str, ...]]
    release: tuple[str, ...]
    libraries: tuple[str, ...]
    marks: tuple[str, ...]
    makes_users: tuple[str, ...]
    makes_directories: bool
    sackd_since: str
    users: Mapping[str, Mapping[str, int]]
    paths: Mapping[str, str]
    unset: tuple[str, ...]
    repositories: str

    @property
    def system(self) -> System:
        """Return what all systems of this package manager have."""
        return _systems()[self.manager]

    def has_sackd(self, release: str) -> bool:
        """Return whether a release of Slurm has a package of sackd.

        >>> [packaging("schedmd").has_sackd(one) for one in ("23.02", "23.11")]
        [False, True]
        """
        return release >= self.sackd_since

    def is_slurms(self, name: str) -> bool:
        """Return whether a package has Slurm's version."""
        return matches_any(name, self.release)

    def foreign(self, requested: Sequence[str]) -> list[str]:
        """Return patterns of packages of other packagings, which must not be installed beside this one.

        A packaging of which a package is requested by name is left out: the site mixes them on purpose.
        """
        others = [one for one in packagings() if one.manager == self.manager and one.name != self.name]
        return [
            pattern
            for one in others
            if not any(matches_any(name, one.marks) for name in requested)
            for pattern in one.marks
            if not matches_any(pattern, self.release if self.name == OWN else self.marks)
        ]


@cache
def packagings() -> tuple[Packaging, ...]:
    """Return the packagings of the table, in its order."""
    return tuple(_packaging(row) for row in _table()["packagings"])


def names() -> list[str]:
    """Return the names of the packagings."""
    return list(dict.fromkeys(one.name for one in packagings()))


def managers(name: str) -> list[str]:
    """Return the package managers for which a packaging has packages.

    >>> managers("schedmd"), managers("openhpc")
    (['apt', 'dnf'], ['dnf'])
    """
    return [one.manager for one in packagings() if one.name == name]


def packaging(name: str = DEFAULT, manager: str = "") -> Packaging:
    """Return a packaging for a package manager, by default its first one. PackagingError: no packages for it."""
    for one in packagings():
        if one.name == name and manager in ("", one.manager):
            return one
    known = ", ".join(managers(name)) or f"none; packagings: {', '.join(names())}"
    raise PackagingError(f"packaging {name!r} has no packages for {manager or 'any package manager'}; it has: {known}")


def own(manager: str, table: Mapping[str, Any]) -> Packaging:
    """Return the packaging of a site's own table.

    `table` has a list of packages for each of PARTS and for `headers`, the patterns `release`, `makes_users` (whether the packages make
    user slurm), `sackd` (whether there is a package of sackd), and paths `state`, `spool`, `log`; without a path it is Debian's.
    """
    base = packaging()
    login = tuple(table["login"])
    return Packaging(
        name=OWN,
        manager=manager,
        packages={**{part: tuple(table[part]) for part in (*PARTS, "headers")}, "client": login},
        release=tuple(table["release"]),
        libraries=(),
        marks=(),
        makes_users=("slurm", "munge") if table["makes_users"] else ("munge",),
        makes_directories=False,
        sackd_since="" if table["sackd"] else "never",
        users=base.users,
        paths={**base.paths, **{name: table[name] for name in ("state", "spool", "log") if table.get(name)}},
        # Whose units these are is unknown; to unset a variable that is not set does no harm.
        unset=("SLURMRESTD_LISTEN",),
        repositories="The site's.",
    )


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_name("packagings.json").read_text(encoding="utf-8"))
    return found


@cache
def _systems() -> dict[str, System]:
    return {name: System(**{**row, "compiler": tuple(row["compiler"])}) for name, row in _table()["systems"].items()}


def _packaging(row: Mapping[str, Any]) -> Packaging:
    lists = ("release", "libraries", "marks", "makes_users", "unset")
    return Packaging(
        **{
            **row,
            "packages": {part: tuple(found) for part, found in row["packages"].items()},
            **{name: tuple(row[name]) for name in lists},
        }
    )
