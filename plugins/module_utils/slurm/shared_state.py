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

_MARK = ".bedplate-seen-by-"


class SharedStateError(Exception):
    """A directory in which slurmctld cannot keep its state."""


def leave(path: Path, name: str, user: str) -> str:
    """Leave the mark of this machine, and return what is in it. SharedStateError: the directory is not fit for slurmctld."""
    owner = _owner(user)
    check(path, user)
    token = secrets.token_hex(16)
    with _As(owner):
        try:
            (path / f"{_MARK}{name}").write_text(token)
        except OSError as error:
            raise SharedStateError(
                f"{path}: {user} cannot write there: {error.strerror}. Mount it for writing"
            ) from error
    return token


def check(path: Path, user: str) -> None:
    """Raise SharedStateError where a directory is missing or is not that of the user."""
    if not path.is_dir():
        missing = path
        while not missing.parent.is_dir():
            missing = missing.parent
        raise SharedStateError(
            f"{path} (StateSaveLocation) is no directory here: {missing} does not exist. Mount the storage that all controllers share, "
            f"then make the directory: install -d -o {user} -m 0755 {path}"
        )
    if path.stat().st_uid != _owner(user):
        raise SharedStateError(
            f"{path} (StateSaveLocation) is not owned by {user}, as whom slurmctld runs: chown {user} {path}"
        )


def unseen(path: Path, marks: Mapping[str, str]) -> Iterator[str]:
    """Yield the machines, name -> token, whose mark is not here."""
    for name, token in marks.items():
        mark = path / f"{_MARK}{name}"
        try:
            found = mark.read_text()
        except OSError:
            found = ""
        if found != token:
            yield name


def remove(path: Path, name: str, user: str) -> None:
    """Remove the mark of this machine."""
    with _As(_owner(user)):
        (path / f"{_MARK}{name}").unlink(missing_ok=True)


def _owner(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise SharedStateError(f"there is no user {user}, as whom slurmctld is to run (SlurmUser)") from None


class _As:
    """Work as another user; without the right to change it, as oneself."""

    def __init__(self, uid: int) -> None:
        self.uid, self.before = uid, os.geteuid()

    def __enter__(self) -> None:
        if self.before == 0:
            os.seteuid(self.uid)

    def __exit__(self, *_error: object) -> None:
        os.seteuid(self.before)
