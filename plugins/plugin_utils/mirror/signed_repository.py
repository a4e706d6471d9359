# SPDX-License-Identifier: GPL-3.0-or-later
"""A flat signed repository in a directory. Its InRelease is the last file that is written, and lists the valid others."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

from . import packages_files
from .downloads import make_directory
from .mirror_model import MirrorError, MirrorPackage
from .signing import Signer

_DATE = re.compile(r"^Date: .*\n", re.MULTILINE)
_SUM = re.compile(r"^ ([0-9a-f]{64}) +[0-9]+ Packages$", re.MULTILINE)


@dataclass(frozen=True)
class IndexEntry:
    """A package of the index: its paragraph, its file below the repository, and the file's size and digest."""

    identity: tuple[str, str, str]
    paragraph: str
    file: str
    size: int
    sha256: str

    @property
    def called(self) -> str:
        """Name, version and architecture for a reader."""
        return " ".join(self.identity)


def entry_of(package: MirrorPackage) -> IndexEntry:
    """Return the paragraph of a package in the index."""
    return IndexEntry(package.identity, package.paragraph, package.file, package.size, package.sha256)


class SignedRepository:
    """The repository of one system."""

    def __init__(self, directory: Path, system: str, architecture: str) -> None:
        self.directory = directory
        self.system = system
        self.architecture = architecture
        self._release = directory / "InRelease"

    def published(self, signer: Signer) -> list[IndexEntry]:
        """Return what the index says now; MirrorError: it is not what this key has signed."""
        if not self._release.exists():
            return []
        text = signer.verified(self._release.read_text(errors="replace"))
        if text is None:
            raise self._refusal(f"{self._release} is not as the mirror's key {signer.fingerprint} signed it")
        wanted = _SUM.search(text)
        index = self.directory / "by-hash/SHA256" / wanted[1] if wanted else self.directory / "Packages"
        data = index.read_bytes() if index.exists() else b""
        if wanted is None or hashlib.sha256(data).hexdigest() != wanted[1]:
            raise self._refusal(f"{index} is not the index that {self._release} has signed")
        return [_entry(fields) for fields in packages_files.parse(data.decode())]

    def _refusal(self, what: str) -> MirrorError:
        return MirrorError(
            [
                f"{what}: it was changed by hand, or the key in the secrets directory is another one. So older versions in it cannot "
                "be kept. Restore the directory or the key; or, to build the index from this list alone, set mirror_prune=true"
            ]
        )

    def is_current(self, entries: Sequence[IndexEntry], signer: Signer) -> bool:
        """Return whether these entries are published already."""
        if not self._release.exists():
            return False
        text = signer.verified(self._release.read_text(errors="replace"))
        files = _index(entries)
        return (
            text is not None
            and _DATE.sub("", text) == _DATE.sub("", self._text(files))
            and all(_same(path, data) for path, data in self._files(files).items())
        )

    def publish(self, entries: Sequence[IndexEntry], signer: Signer) -> None:
        """Write the index: first under its checksums, which no reader knows yet, then at once by InRelease."""
        files = _index(entries)
        before = self._sums()
        signed = signer.sign(self._text(files))
        for path, data in self._files(files).items():
            write(path, data)
        write(self._release, signed.encode())
        # One that read InRelease a moment ago still finds the index that it names.
        keep = before | {hashlib.sha256(data).hexdigest() for data in files.values()}
        for path in (self.directory / "by-hash/SHA256").iterdir():
            if path.name not in keep:
                path.unlink()

    def surplus(self, entries: Iterable[IndexEntry]) -> list[Path]:
        """Return the files in the pool that no entry names."""
        named = {self.directory / entry.file for entry in entries}
        return sorted(path for path in (self.directory / "pool").glob("*") if path not in named)

    def _sums(self) -> set[str]:
        text = self._release.read_text(errors="replace") if self._release.exists() else ""
        return set(re.findall(r"^ ([0-9a-f]{64}) ", text, re.MULTILINE))

    def _files(self, files: Mapping[str, bytes]) -> dict[Path, bytes]:
        by_hash = self.directory / "by-hash/SHA256"
        found = {by_hash / hashlib.sha256(data).hexdigest(): data for data in files.values()}
        return {**found, **{self.directory / name: data for name, data in files.items()}}

    def _text(self, files: Mapping[str, bytes]) -> str:
        sums = "".join(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in files.items())
        date = formatdate(usegmt=True).replace("GMT", "UTC")
        # No Valid-Until: nobody comes by to sign again where there is no network.
        return (
            f"Origin: bedplate\nLabel: bedplate\nSuite: {self.system}\nCodename: {self.system}\nDate: {date}\n"
            f"Acquire-By-Hash: yes\nArchitectures: {self.architecture} all\nSHA256:\n{sums}"
        )


def _index(entries: Sequence[IndexEntry]) -> dict[str, bytes]:
    ordered = sorted(entries, key=lambda entry: entry.identity)
    data = "\n".join(entry.paragraph for entry in ordered).encode()
    return {"Packages": data, "Packages.gz": gzip.compress(data, 9, mtime=0)}


def _entry(fields: Mapping[str, str]) -> IndexEntry:
    packages_files.check(fields)
    identity = (fields["Package"], fields["Version"], fields["Architecture"])
    file = fields.get("Filename", "")
    if not re.fullmatch(r"pool/[^/]+", file):
        raise MirrorError([f"the index has {identity[0]} in {file!r}; allowed: a file in pool"])
    return IndexEntry(identity, packages_files.text_of(fields, file), file, int(fields["Size"]), fields["SHA256"])


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and path.read_bytes() == data


def write(path: Path, data: bytes) -> bool:
    """Write a file that others may read, at once and to the disk; return whether it changed."""
    if _same(path, data):
        return False
    make_directory(path.parent)
    atomic_write(path, data, mode=0o644)
    return True
