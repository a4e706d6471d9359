# SPDX-License-Identifier: GPL-3.0-or-later
"""Restore the members of a backup on a host, each straight from gpg into its place: no disk has it in plain on the way.

Each member has a mark of the backup from which it was restored, so a second call changes nothing.
"""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ...common import command
from ...common.as_user import AsUser, uid_of
from ...common.files import atomic_write
from ..saved.database_dump import Database, DumpError, same_rows
from . import job_header
from .crypt import CryptError, KeyFolder
from .job_header import HeaderError
from .live_copy import JOB_STATE
from .pipes import PipeError, Program

MARKS = Path("/var/lib/bedplate/slurm-restore.json")
BEGUN = "database_begun"
"""Step that is recorded before the database is replaced: without `database` after it, the database is half of a backup."""
_BEFORE = ".before-restore-"


class RestoreError(Exception):
    """A member cannot be restored; the text is complete."""


@dataclass(frozen=True)
class Member:
    """An encrypted member on this host: its file, session key, and the digest of its plain text."""

    path: Path
    session: str
    sha256: str
    seconds: float

    def read(self, each: Callable[[bytes], object]) -> None:
        """Give its plain text to `each`. Raises RestoreError, also if it is not what the manifest says."""
        digest = hashlib.sha256()

        def both(data: bytes) -> None:
            digest.update(data)
            each(data)

        try:
            with KeyFolder() as keys:
                keys.opened(self.path, self.session, self.seconds, both)
        except (CryptError, PipeError) as error:
            raise RestoreError(str(error)) from error
        if digest.hexdigest() != self.sha256:
            raise RestoreError(f"{self.path.name} is not what its manifest says: another digest")


class Marks:
    """Record the steps that were done here, and the digest of their backup."""

    def __init__(self, backup: str, path: Path = MARKS) -> None:
        self._backup, self._path = backup, path

    def has(self, name: str) -> bool:
        """Return whether a step was done from this backup."""
        return name in self._read()

    def set(self, name: str) -> None:
        """Record a step. A restore from another backup forgets the steps of this one."""
        steps = {**self._read(), name: int(time.time())}
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        atomic_write(self._path, json.dumps({"backup": self._backup, "steps": steps}) + "\n", mode=0o600)

    def _read(self) -> dict[str, int]:
        found = recorded(self._path)
        return dict(found["steps"]) if found["backup"] == self._backup else {}


def recorded(path: Path = MARKS) -> dict[str, Any]:
    """Return `backup`, the digest of the backup that was restored here last, and `steps`, step -> when, in seconds since 1970."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {"backup": str(found["backup"]), "steps": {str(name): int(at) for name, at in found["steps"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {"backup": "", "steps": {}}


def restore_database(member: Member, name: str, rows: Mapping[str, int]) -> dict[str, int]:
    """Replace the database by the dump, and compare the rows of each table with the manifest. Raises RestoreError."""
    try:
        database = Database(name, member.seconds)
        _recreate(name)
        with (
            Path(os.devnull).open("wb") as nowhere,
            Program(["mariadb", name], member.seconds, target=nowhere) as program,
        ):
            member.read(program.write)
            program.succeed()
        return same_rows(database.rows(), rows, "the backup")
    except (DumpError, PipeError) as error:
        raise RestoreError(f"database {name}: {error}") from error


def restore_state(member: Member, path: Path, user: str, next_job: int) -> dict[str, int]:
    """Replace the content of StateSaveLocation, with `next_job` as the least id of the next job; return files and that id.

    What is there before is moved into a folder beside it. job_state comes last: without it a directory is no state of a slurmctld, so what
    a killed call has written does not look whole. Raises RestoreError.
    """
    raised = 0
    last: list[tuple[bytes, int]] = []
    with _plain(member) as stream, AsUser(uid_of(user)):
        try:
            _set_aside(path)
            count = 0
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                for entry in _safe(tar, member.path.name):
                    target = path / entry.name
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    source = tar.extractfile(entry)
                    data = source.read() if source else b""
                    count += 1
                    if entry.name == JOB_STATE:
                        data = job_header.raised(data, next_job)
                        raised = job_header.read(data).next_id
                        last.append((data, entry.mode))
                        continue
                    _write(target, data, entry.mode)
            for data, mode in last:
                _write(path / JOB_STATE, data, mode)
        except (OSError, tarfile.TarError, HeaderError) as error:
            raise RestoreError(f"{path}: {error}") from error
    return {"files": count, "next_job": raised}


def restore_configuration(member: Member, root: Path = Path("/")) -> list[str]:
    """Write Slurm's files as they were in force, with their owners and modes; return the changed ones. Raises RestoreError.

    Running jobs need the lines of their nodes as slurmctld had them. Keys and slurmdbd.conf are as the role has written them.
    """
    changed = []
    with _plain(member) as stream:
        try:
            with tarfile.open(fileobj=stream, mode="r:") as tar:
                for entry in _safe(tar, member.path.name):
                    source = tar.extractfile(entry)
                    data = source.read() if source else b""
                    target = root / entry.name
                    if not _is_configuration(entry.name) or _is_same(target, data):
                        continue
                    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                    atomic_write(target, data, mode=entry.mode & 0o7777, owner=_owner(entry))
                    changed.append(f"/{entry.name}")
        except (OSError, tarfile.TarError) as error:
            raise RestoreError(f"{member.path.name}: {error}") from error
    return changed


@contextmanager
def _plain(member: Member) -> Iterator[IO[bytes]]:
    """Decrypt a member into memory."""
    with os.fdopen(os.memfd_create("member", os.MFD_CLOEXEC), "w+b") as stream:
        member.read(stream.write)
        stream.seek(0)
        yield stream


def _recreate(name: str) -> None:
    statement = f"DROP DATABASE IF EXISTS `{name}`; CREATE DATABASE `{name}`"
    done = command.run(["mariadb", "--batch", "--execute", statement], 600.0)
    if done.code != 0:
        raise DumpError(f"mariadb: {done.error_line}")


def _safe(tar: tarfile.TarFile, name: str) -> Iterator[tarfile.TarInfo]:
    """Yield the files of a tar; RestoreError for anything else, or for a path that leaves the folder."""
    for entry in tar:
        parts = entry.name.split("/")
        if not entry.isfile() or ".." in parts or entry.name.startswith("/"):
            raise RestoreError(f"{name} has {entry.name!r}, which is not a plain file below its folder")
        yield entry


def _set_aside(path: Path) -> None:
    """Move the content of a directory into a folder in it, which slurmctld does not read."""
    there = [one for one in path.iterdir() if not one.name.startswith(_BEFORE)]
    if not there:
        return
    aside = path / f"{_BEFORE}{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    aside.mkdir(mode=0o700)
    for one in there:
        one.rename(aside / one.name)


def _write(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fchmod(descriptor, mode & 0o7777)
        os.fsync(descriptor)


def _is_configuration(name: str) -> bool:
    return name.startswith("etc/slurm/") and not name.endswith(".key") and name != "etc/slurm/slurmdbd.conf"


def _is_same(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _owner(entry: tarfile.TarInfo) -> tuple[int, int]:
    """Return the owner by name, because numbers may differ on a new machine."""
    try:
        uid = pwd.getpwnam(entry.uname).pw_uid
    except KeyError:
        uid = entry.uid
    try:
        gid = grp.getgrnam(entry.gname).gr_gid
    except KeyError:
        gid = entry.gid
    return uid, gid
