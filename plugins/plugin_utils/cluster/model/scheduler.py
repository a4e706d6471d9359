# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm, the services of the cluster, and its users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...slurm.tables.packagings import Packaging, packaging


def names_slurmdbd(options: Mapping[Any, Any]) -> bool:
    """Return whether options of slurm.conf name the host of a slurmdbd that bedplate does not manage."""
    return any(
        str(key).lower() == "accountingstoragehost" and value not in (None, "") for key, value in options.items()
    )


@dataclass(frozen=True, slots=True)
class Services:
    """Names of the hosts of each service, in order."""

    controllers: tuple[str, ...]
    database: tuple[str, ...]
    login: tuple[str, ...]
    rest: tuple[str, ...]
    subnet_managers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its selectors as written, and the names of its nodes in file order."""

    name: str
    selectors: tuple[str, ...]
    nodes: tuple[str, ...]
    default: bool
    max_time: str | None
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A system user with a group of the same name. `place`: file, line and key that state the numbers."""

    uid: int
    gid: int
    place: str


@dataclass(frozen=True, slots=True)
class Slurm:
    """Slurm's release and the user's options, checked."""

    version: str
    options: dict[str, Any]
    cgroup: dict[str, Any]
    slurmdbd: dict[str, Any]
    qos: dict[str, Any]
    accounts: dict[str, dict[str, Any]]
    # Kind -> scripts in order, each a `file` of the control node or a `path` of the machines.
    scripts: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    packages: Packaging = field(default_factory=packaging)
    # Of slurm and munge the users whose numbers the file states, by name.
    users: dict[str, SystemUser] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A partition of InfiniBand: names of nodes and hosts -> full, limited or both."""

    name: str
    pkey: int
    members: dict[str, str]
    ipoib: bool
