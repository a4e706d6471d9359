# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why a path cannot be written, with the file system it is on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_problem(path: str | os.PathLike[str], error: OSError) -> str:
    """Return why a path cannot be written; for a full disk also the file system's mount point and free space."""
    text = f"{os.fspath(path)}: cannot be written: {error.strerror or error}"
    if error.errno not in _FULL:
        return text
    where = mount_of(path)
    return f"{text}. The file system at {where} has {_free(where)}. Free some space (df -h {where}; df -i {where})"


def mount_of(path: str | os.PathLike[str]) -> str:
    """Return the mount point of the file system that has a path, or would have it."""
    place = Path(path)
    while not place.exists() and place != place.parent:
        place = place.parent
    place = Path(os.path.realpath(place))
    while not place.is_mount():
        place = place.parent
    return str(place)


def _free(mount: str) -> str:
    try:
        status = os.statvfs(mount)
    except OSError:
        return "no space"
    return f"{status.f_bavail * status.f_frsize // 1024} KiB and {status.f_favail} inodes free"
