# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove that a directory is the same on several machines, before slurmctld keeps its state there.

Each machine writes a mark file as the user of slurmctld (on NFS, root may not be able to), and checks for the marks of the others.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path

from ..common.as_user import AsUser, uid_of
from ..common.finding import Finding

KIND = "shared-state"
_MARK = ".bedplate-seen-by-"


def check(path: Path, user: str) -> Finding | None:
    """Return the finding that makes a directory unfit for slurmctld, or None."""
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
        remedy = f"chown {user} {path}; if {user} has another uid on another controller, use the same uid on all"
        return _finding(path, f"owned by {user}, uid {uid} here", f"uid {owner}", remedy)
    return None


def leave_mark(path: Path, name: str, user: str) -> tuple[str, Finding | None]:
    """Write the mark of this machine; return it, and the finding if it could not be written."""
    token = secrets.token_hex(16)
    remove(path, name, user)  # the mark of a killed run
    with AsUser(uid_of(user)):
        try:
            _mark(path, name, token).touch()
        except OSError as error:
            remedy = f"Mount it for writing, also for {user}"
            return "", _finding(path, f"{user} can write there", str(error.strerror), remedy)
    return token, None


def unseen_machines(path: Path, marks: Mapping[str, str], user: str) -> Iterator[Finding]:
    """Yield the machines, name -> mark, whose mark is missing here."""
    # A file name that contains the mark was never looked up: no cache of a network file system has an answer for it.
    with AsUser(uid_of(user)):
        missing = [name for name, token in marks.items() if not _mark(path, name, token).exists()]
    for name in missing:
        remedy = "Mount the same storage on all controllers: a standby with its own directory would start without jobs"
        yield _finding(path, f"the same directory as on {name}", "another directory", remedy)


def remove(path: Path, name: str, user: str) -> None:
    """Remove the marks of this machine, also of killed runs; a mark that cannot be removed does no harm."""
    with AsUser(uid_of(user)):
        for mark in path.glob(f"{_MARK}{name}@*"):
            try:
                mark.unlink()
            except OSError:
                continue


def holds_state(path: Path, user: str) -> bool:
    """Return whether a slurmctld has kept its state in the directory."""
    with AsUser(uid_of(user)):
        try:
            return (path / "clustername").exists()
        except OSError:
            return False


def _mark(path: Path, name: str, token: str) -> Path:
    return path / f"{_MARK}{name}@{token}"


def _missing(path: Path) -> str:
    """Return the first part of a path that is not a directory, "" if all are."""
    return next((str(one) for one in (*reversed(path.parents), path) if not one.is_dir()), "")


def _finding(path: Path, expected: str, found: str, remedy: str) -> Finding:
    return Finding(KIND, f"{path} (StateSaveLocation)", expected, found, remedy)
