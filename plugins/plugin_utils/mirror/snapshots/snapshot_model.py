# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of a snapshot: its repositories, and their packages with size and digest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..mirror_model import MirrorError

PACKAGES = "packages.txt"
"""File of a repository with a line for each package: name, version, architecture, SHA-256, size in bytes, file below the repository."""
MANIFEST = "manifest.asc"
"""File of a snapshot: JSON, signed by the mirror's key. A snapshot without it is not complete."""
POOL = "pool"
"""Folder beside the snapshots with each package once, by its digest; the files of snapshots are hard links to it."""


@dataclass(frozen=True, order=True)
class SnapshotPackage:
    """A package of a repository. `file` is below the repository, `size` in bytes, `paragraph` its part of apt's index.

    `url` is where it comes from; both are empty where a snapshot was read back.
    """

    name: str
    version: str
    architecture: str
    sha256: str
    size: int
    file: str
    url: str = field(default="", compare=False)
    paragraph: str = field(default="", compare=False, repr=False)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Name, version and architecture: unique in a repository."""
        return self.name, self.version, self.architecture

    @property
    def line(self) -> str:
        """Return its line of packages.txt."""
        return "\t".join((self.name, self.version, self.architecture, self.sha256, str(self.size), self.file))


@dataclass(frozen=True)
class Repository:
    """A repository of a snapshot: of a system, a kind and a package manager; `files` are its indexes with their digests."""

    system: str
    kind: str
    manager: str
    packages: tuple[SnapshotPackage, ...]
    origins: tuple[Mapping[str, Any], ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Its folder below the snapshot."""
        return f"{self.system}/{self.kind}"

    @property
    def family(self) -> str:
        """The family of its packages: deb or rpm."""
        return "deb" if self.manager == "apt" else "rpm"


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was read back: its name, the digest of its signed manifest, when it was made, and its repositories."""

    name: str
    manifest: str
    made: str
    repositories: tuple[Repository, ...]

    @property
    def systems(self) -> dict[str, tuple[str, ...]]:
        """Return system -> kinds of its repositories."""
        return systems_of(self.repositories)

    def by_name(self, system: str) -> dict[str, list[SnapshotPackage]]:
        """Return name -> packages of a system, in all versions."""
        found: dict[str, list[SnapshotPackage]] = {}
        for repository in self.repositories:
            if repository.system == system:
                for one in repository.packages:
                    found.setdefault(one.name, []).append(one)
        return found


@dataclass
class SnapshotReport:
    """Result of a run that makes a snapshot, or its prediction in check mode; sizes in bytes."""

    name: str
    place: str
    changed: bool = False
    packages: int = 0
    size: int = 0
    fetched: list[str] = field(default_factory=list)
    fetched_size: int = 0
    systems: dict[str, tuple[str, ...]] = field(default_factory=dict)


def systems_of(repositories: Iterable[Repository]) -> dict[str, tuple[str, ...]]:
    """Return system -> kinds of its repositories."""
    found: dict[str, list[str]] = {}
    for one in repositories:
        found.setdefault(one.system, []).append(one.kind)
    return {system: tuple(kinds) for system, kinds in sorted(found.items())}


def unique(system: str, packages: Iterable[SnapshotPackage]) -> list[SnapshotPackage]:
    """Return packages of several origins, each once and in order. MirrorError: one name and version with two contents."""
    found: dict[tuple[str, str, str], SnapshotPackage] = {}
    mistakes = []
    for one in packages:
        before = found.setdefault(one.identity, one)
        if before.sha256 != one.sha256:
            mistakes.append(f"{system}: {' '.join(one.identity)} has two contents: {before.url} and {one.url}")
    if mistakes:
        raise MirrorError(mistakes)
    return [found[identity] for identity in sorted(found)]


def parsed_packages(text: str) -> tuple[SnapshotPackage, ...]:
    """Return the packages of a packages.txt. ValueError: a line that has another form."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        row = line.split("\t")
        if len(row) != 6 or not row[4].isdecimal() or row[5].startswith("/") or ".." in row[5].split("/"):
            raise ValueError(f"line {number} is not a package: {line[:80]!r}")
        found.append(SnapshotPackage(row[0], row[1], row[2], row[3], int(row[4]), row[5]))
    return tuple(found)
