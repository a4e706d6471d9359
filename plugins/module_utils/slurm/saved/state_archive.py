# SPDX-License-Identifier: GPL-3.0-or-later
"""Archive StateSaveLocation, prove the archive by its list, and restore it. slurmctld must be stopped on all controllers."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...common.as_user import AsUser, uid_of
from ...common.text import few

_BLOCK = tarfile.BLOCKSIZE


class ArchiveError(Exception):
    """The directory cannot be archived or restored, or an archive is not what the directory has; the text is complete."""


class StateArchive:
    """The state of slurmctld, read and written as its user: on NFS root may not be able to."""

    def __init__(self, path: Path, user: str = "slurm") -> None:
        self.path = path
        self._user = user

    def size(self) -> int:
        """Return the bytes of all files. Raises ArchiveError."""
        return sum(self.files().values())

    def files(self) -> dict[str, int]:
        """Return the relative path of each file -> its bytes. Raises ArchiveError for an unreadable or empty directory."""
        found: dict[str, int] = {}
        with self._as_user():
            try:
                for folder, _names, names in os.walk(self.path, onerror=_raise):
                    for name in names:
                        path = Path(folder, name)
                        if path.is_file() and not path.is_symlink():
                            found[str(path.relative_to(self.path))] = path.stat().st_size
            except OSError as error:
                raise ArchiveError(f"{self.path}: {error.strerror}") from error
        if "job_state" not in found:
            raise ArchiveError(f"{self.path} has no job_state: it is not the state of a slurmctld")
        return found

    def save(self, archive: Path) -> int:
        """Write the archive with mode 0600, prove it, and return the number of its files. Raises ArchiveError."""
        before = self.files()
        part = archive.with_name(archive.name + ".part")
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            with self._as_user():
                try:
                    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
                        tar.add(self.path, arcname=".")
                except (OSError, tarfile.TarError) as error:
                    raise ArchiveError(f"{self.path} cannot be archived: {error}") from error
            stream.flush()
            os.fsync(stream.fileno())
        count = prove(part, before)
        part.replace(archive)
        return count

    def restore(self, archive: Path) -> int:
        """Replace the content of the directory by the archive, and return the number of files. Raises ArchiveError before it is emptied.

        An archive that cannot be listed to its end empties nothing.
        """
        listed = contents(archive)
        if "job_state" not in listed:
            raise ArchiveError(f"{archive} has no job_state; nothing was restored")
        with archive.open("rb") as stream, self._as_user():
            try:
                for path in self.path.iterdir():
                    if path.is_dir() and not path.is_symlink():
                        shutil.rmtree(path)
                    else:
                        path.unlink()
                with tarfile.open(fileobj=stream, mode="r:") as tar:
                    trust(tar)
                    tar.extractall(self.path)
            except (OSError, tarfile.TarError) as error:
                raise ArchiveError(f"{archive} cannot be restored into {self.path}: {error}") from error
        return prove(archive, self.files())

    def _as_user(self) -> AsUser:
        return AsUser(uid_of(self._user))


def trust(tar: tarfile.TarFile) -> None:
    """Let an archive of this program restore owners and modes; Python 3.14 leaves out owners otherwise."""
    if hasattr(tarfile, "fully_trusted_filter"):
        tar.extraction_filter = tarfile.fully_trusted_filter


def contents(archive: Path) -> dict[str, int]:
    """Return the relative path of each file in an archive -> its bytes. Raises ArchiveError if it is cut short."""
    try:
        with tarfile.open(archive, mode="r:") as tar:
            members = tar.getmembers()
        # A tar file that is cut between two members has no end mark, which tarfile accepts.
        if not _has_end(archive, members):
            raise ArchiveError(f"{archive} is cut short: it has no end mark")
    except (OSError, tarfile.TarError) as error:
        raise ArchiveError(f"{archive} cannot be read: {error}") from error
    return {one.name.removeprefix("./"): one.size for one in members if one.isfile()}


def prove(archive: Path, files: Mapping[str, int]) -> int:
    """Compare an archive with the files of a directory, and return their number. Raises ArchiveError."""
    found = contents(archive)
    wrong = [
        f"{name}: {files.get(name, 'not')} bytes in the directory, {found.get(name, 'not')} in the archive"
        for name in sorted({*files, *found})
        if files.get(name) != found.get(name)
    ]
    if wrong:
        raise ArchiveError(f"{archive} is not what the directory has: {few(wrong)}")
    return len(found)


def _has_end(archive: Path, members: Iterable[tarfile.TarInfo]) -> bool:
    """Return whether the end mark follows the last member; zeros at the end of the file may belong to a member."""
    ends = (one.offset_data + -(-one.size // _BLOCK) * _BLOCK for one in members)
    with archive.open("rb") as stream:
        stream.seek(max(ends, default=0))
        return stream.read(2 * _BLOCK) == b"\0" * 2 * _BLOCK


def _raise(error: OSError) -> None:
    raise error
