# SPDX-License-Identifier: GPL-3.0-or-later
"""Model of a mirror: systems with their origins and sets, and their artifacts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


class MirrorError(Exception):
    """Why there is no mirror, all reasons at once; one line, or a few, each."""

    def __init__(self, mistakes: Iterable[str]) -> None:
        self.mistakes = list(dict.fromkeys(mistakes))
        super().__init__("\n".join(self.mistakes))


@dataclass(frozen=True)
class MirrorOrigin:
    """A signed repository, the origin of packages. Suites that end with / are flat, without components.

    `key` is an armored public key, or the path of a keyring on this machine; `hint` says where to get one that is missing.
    """

    name: str
    url: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    key: str
    hint: str = ""


@dataclass(frozen=True)
class Need:
    """A package that a part needs. `version` is exact, or a beginning that ends with *; "*" is apt's choice."""

    name: str
    version: str
    part: str


@dataclass(frozen=True)
class PackageSet:
    """Packages that are installed together, and their origins. `preferences` are apt's, as the nodes have them."""

    label: str
    needs: tuple[Need, ...]
    origins: tuple[MirrorOrigin, ...]
    preferences: str = ""


@dataclass(frozen=True)
class MirrorSystem:
    """An operating system of the nodes: gpu_stack.os, with the architecture behind it where that is not the usual one.

    `architecture` is as dpkg calls it.
    """

    name: str
    sets: tuple[PackageSet, ...]
    architecture: str = "amd64"

    @property
    def origins(self) -> tuple[MirrorOrigin, ...]:
        """The origins of all its sets."""
        return tuple(dict.fromkeys(origin for one in self.sets for origin in one.origins))


@dataclass(frozen=True)
class File:
    """A file beside the packages. `sha256` is stated by the site."""

    name: str
    url: str
    sha256: str


@dataclass(frozen=True)
class MirrorPackage:
    """A package that a system needs. `paragraph` is its part of the repository's index, `size` in bytes.

    `parts` are those that need it, itself or as a dependency; `asked` whether a part names it.
    """

    name: str
    version: str
    architecture: str
    url: str
    origin: str
    size: int
    sha256: str
    paragraph: str
    parts: tuple[str, ...] = ()
    asked: bool = False

    @property
    def identity(self) -> tuple[str, str, str]:
        """Key of an artifact, unique in a repository."""
        return self.name, self.version, self.architecture

    @property
    def file(self) -> str:
        """Its path in the repository. The checksum is part of it: another file never takes the place of a published one."""
        version = self.version.split(":", 1)[-1]
        return f"pool/{self.name}_{version}_{self.architecture}.{self.sha256[:8]}.deb"


@dataclass(frozen=True)
class Key:
    """A key by which an origin signs."""

    origin: str
    fingerprints: tuple[str, ...]
    sha256: str


@dataclass(frozen=True)
class Listing:
    """All that a system needs, with the keys of its origins."""

    system: MirrorSystem
    packages: tuple[MirrorPackage, ...]
    keys: tuple[Key, ...]


@dataclass
class MirrorReport:
    """Result of a run, or its prediction in check mode; sizes in bytes."""

    changed: bool = False
    listed: int = 0
    listed_bytes: int = 0
    fetched: list[str] = field(default_factory=list)
    fetched_bytes: int = 0
    published: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    fingerprint: str = ""
