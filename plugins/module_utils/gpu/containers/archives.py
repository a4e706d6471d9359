# SPDX-License-Identifier: GPL-3.0-or-later
"""Verify the checksum of an archive from outside any repository before reading it, and unpack it."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path, PurePosixPath


class ArchiveError(Exception):
    """Archive that does not match its stated checksum or cannot be unpacked; the text is complete."""


def verify(path: Path, sha256: str) -> None:
    """Raise ArchiveError if a file does not have this checksum."""
    try:
        with path.open("rb") as stream:
            digest = hashlib.sha256()
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise ArchiveError(f"{path}: {error.strerror}") from None
    if digest.hexdigest() != sha256.lower():
        raise ArchiveError(
            f"{path} has SHA-256 {digest.hexdigest()}, not {sha256.lower()}: nothing was unpacked. Check the file, and whether the "
            f"checksum belongs to this release"
        )


def unpack(path: Path, directory: Path) -> Path:
    """Unpack a tar archive of sources, and return the directory with them: its only one, or the archive's root.

    A member outside the directory is refused, and so is any member that is not a file, a directory or an internal link.
    """
    try:
        with tarfile.open(path) as archive:
            for member in archive.getmembers():
                _refuse(path, member)
                # Whoever builds the sources owns them, which is root here, so setuid bits are removed.
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mode &= 0o755
            # Use Python's own check as well, if this Python has it.
            archive.extraction_filter = getattr(tarfile, "data_filter", _as_it_is)
            archive.extractall(directory)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ArchiveError(f"{path} cannot be unpacked as a tar archive: {error}") from None
    found = list(directory.iterdir())
    return found[0] if len(found) == 1 and found[0].is_dir() else directory


def _as_it_is(member: tarfile.TarInfo, _directory: str) -> tarfile.TarInfo:
    return member


def _refuse(path: Path, member: tarfile.TarInfo) -> None:
    if not (member.isfile() or member.isdir() or member.issym()):
        raise ArchiveError(
            f"{path}: {member.name} is neither a file, a directory nor a symbolic link, which sources never contain"
        )
    place = PurePosixPath(member.name)
    target = place.parent / member.linkname if member.issym() else place
    depth = 0
    for part in target.parts:
        depth += -1 if part == ".." else part != "."
        if depth < 0 or target.is_absolute() or ".." in place.parts:
            raise ArchiveError(f"{path}: {member.name} would be unpacked outside the target directory")
