# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write files as another user: on NFS, root may not be able to."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path


def uid_of(user: str) -> int | None:
    """Return the number of a user, None if the user does not exist."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def owner_of(path: Path) -> int | None:
    """Return the number of the user who owns a path, or the folder above a path that does not exist; None if neither can be read."""
    for one in (path, path.parent):
        with suppress(OSError):
            return one.stat().st_uid
    return None


class AsUser:
    """Work as another user; if that is not allowed, as the present user."""

    def __init__(self, uid: int | None) -> None:
        self.uid, self.before = uid, os.geteuid()

    def __enter__(self) -> None:
        if self.before == 0 and self.uid is not None:
            os.seteuid(self.uid)

    def __exit__(self, *_error: object) -> None:
        os.seteuid(self.before)
