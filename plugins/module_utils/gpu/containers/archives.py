# SPDX-License-Identifier: GPL-3.0-or-later
"""Archives that come from outside of any repository: nothing in one is looked at before its checksum is the one that was stated."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path, PurePosixPath


class ArchiveError(Exception):
    """An archive that is not what was stated; the text is whole."""


def verify(path: Path, sha256: str) -> None:
    """Raise ArchiveError where a file is not the one with this checksum."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror}") from None
    if digest.hexdigest() != sha256.lower():
        raise ArchiveError(
            f"{path} has SHA-256 {digest.hexdigest()}, not {sha256.lower()}: nothing of it was unpacked. Either the file is "
            "another one, or the checksum is that of another release"
        )


def unpack(path: Path, directory: Path) -> Path:
    """Unpack a tar archive of sources, and return the directory with them: its only one, or the archive's root.

    A member that would land elsewhere is refused, and nothing but files, directories and links within is taken.
    """
    try:
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                _refuse(path, member)
                # Sources belong to whoever builds them, which is root, and have no business with setuid.
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mode &= 0o755
            # Python's own check as well, where it has one.
            archive.extraction_filter = getattr(tarfile, "data_filter", _as_it_is)
            archive.extractall(directory)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ArchiveError(f"{path} is no tar archive that can be unpacked: {error}") from None
    found = list(directory.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else directory


def _as_it_is(member: tarfile.TarInfo, _directory: str) -> tarfile.TarInfo:
    return member


def _refuse(path: Path, member: tarfile.TarInfo) -> None:
    if not (member.isfile() or member.isdir() or member.issym()):
        raise ArchiveError(
            f"{path}: {member.name} is neither file, directory nor symbolic link; sources have no such thing"
        )
    place = PurePosixPath(member.name)
    target = place.parent / member.linkname if member.issym() else place
    depth = 0
    for part in target.parts:
        depth += -1 if part == ".." else part != "."
        if depth < 0 or target.is_absolute() or place.is_absolute() or ".." in place.parts:
            raise ArchiveError(f"{path}: {member.name} would land outside of the directory it is unpacked into")
