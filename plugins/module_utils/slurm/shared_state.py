# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a directory is one and the same on several machines, before slurmctld keeps its state there.

Each machine leaves a mark as the user of slurmctld, which root on NFS may not be able to, and looks for the marks of the others.
"""

from __future__ import annotations

import os
import pwd
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..common.finding import Finding

KIND = "shared-state"
_MARK = ".bedplate-seen-by-"


def check(path: Path, user: str) -> Finding | None:
    """Return what makes a directory unfit for slurmctld, None when nothing does."""
    uid = uid_of(user)
    if uid is None:
        return Finding(KIND, f"user {user}", "slurmctld runs as this user (SlurmUser)", "no such user")
    try:
        with AsUser(uid):
            missing = _missing(path)
            owner = uid if missing else path.stat().st_uid
    except OSError as error:  # a parent that only root may enter
        remedy = f"Let {user} enter every directory above it: chmod a+x"
        return _finding(path, f"{user} can reach it", f"{error.strerror}: {error.filename}", remedy)
    if missing:
        remedy = f"Mount the storage that all controllers share, then: install -d -o {user} -m 0755 {path}"
        return _finding(path, "a directory on storage that all controllers share", f"{missing} does not exist", remedy)
    if owner != uid:
        remedy = f"chown {user} {path}; where {user} has another number on another controller, give it the same on all"
        return _finding(path, f"owned by {user}, uid {uid} here", f"uid {owner}", remedy)
    return None


def leave_mark(path: Path, name: str, user: str) -> tuple[str, Finding | None]:
    """Leave the mark of this machine; return it, and why it could not be left."""
    token = secrets.token_hex(16)
    remove(path, name, user)  # that of a run which was killed
    with AsUser(uid_of(user)):
        try:
            _mark(path, name, token).touch()
        except OSError as error:
            remedy = f"Mount it for writing, also for {user}"
            return "", _finding(path, f"{user} can write there", str(error.strerror), remedy)
    return token, None


def unseen_machines(path: Path, marks: Mapping[str, str], user: str) -> Iterator[Finding]:
    """Yield the machines, name -> mark, whose mark is not here."""
    # A name with a mark in it was never looked up: no cache of a network file system has an answer to it.
    with AsUser(uid_of(user)):
        missing = [name for name, token in marks.items() if not _mark(path, name, token).exists()]
    for name in missing:
        remedy = "Mount the same storage on all controllers: a standby with a directory of its own would start without any job"
        yield _finding(path, f"the directory that {name} has under this name", "another one", remedy)


def remove(path: Path, name: str, user: str) -> None:
    """Remove the marks of this machine, those of killed runs as well; what cannot be removed does no harm."""
    with AsUser(uid_of(user)):
        for mark in path.glob(f"{_MARK}{name}@*"):
            try:
                mark.unlink()
            except OSError:
                continue


def holds_state(path: Path, user: str) -> bool:
    """Return whether a slurmctld has kept its state there."""
    with AsUser(uid_of(user)):
        try:
            return (path / "clustername").exists()
        except OSError:
            return False


def uid_of(user: str) -> int | None:
    """Return the number of a user, None when there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _mark(path: Path, name: str, token: str) -> Path:
    return path / f"{_MARK}{name}@{token}"


def _missing(path: Path) -> str:
    """Return the first part of a path that is no directory, empty when all are."""
    return next((str(one) for one in (*reversed(path.parents), path) if not one.is_dir()), "")


def _finding(path: Path, expected: str, found: str, remedy: str) -> Finding:
    return Finding(KIND, f"{path} (StateSaveLocation)", expected, found, remedy)


class AsUser:
    """Work as another user; without the right to change it, as oneself."""

    def __init__(self, uid: int | None) -> None:
        self.uid, self.before = uid, os.geteuid()

    def __enter__(self) -> None:
        if self.before == 0 and self.uid is not None:
            os.seteuid(self.uid)

    def __exit__(self, *_error: object) -> None:
        os.seteuid(self.before)
