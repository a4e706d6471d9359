# SPDX-License-Identifier: GPL-3.0-or-later
"""The backups of a folder: which are whole, which is the newest, and which are removed because newer ones are enough."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Iterator
from pathlib import Path

from . import container
from .container import ContainerError

_NAME = re.compile(r"(?P<of>.+)-(?P<at>\d{8}T\d{6}Z)\.backup\Z")


def backups(folder: Path, of: str) -> list[tuple[int, Path]]:
    """Return time and file of each backup of `of`, such as lab-ctl1, the newest first; [] without the folder. Raises OSError."""
    return sorted(_named(folder, of), reverse=True)


def prune(folder: Path, of: str, keep: int) -> list[Path]:
    """Remove old backups so that the newest `keep` whole ones stay, and return them.

    A file that is not whole counts for nothing, and goes only once a newer whole one exists. Raises OSError.
    """
    whole = 0
    removed = []
    for _at, path in backups(folder, of):
        if whole >= max(1, keep):
            path.unlink()
            removed.append(path)
        elif is_whole(path):
            whole += 1
        elif whole:
            path.unlink()
            removed.append(path)
    return removed


def newest(folder: Path, of: str) -> tuple[int, Path] | None:
    """Return time and file of the newest whole backup, None without one. Raises OSError."""
    return next(((at, path) for at, path in backups(folder, of) if is_whole(path)), None)


def is_whole(path: Path) -> bool:
    """Return whether a file has all its members and its end; they are not decrypted."""
    try:
        return bool(container.names(path))
    except ContainerError:
        return False


def _named(folder: Path, of: str) -> Iterator[tuple[int, Path]]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        found = _NAME.match(path.name)
        if found and found["of"] == of:
            yield calendar.timegm(time.strptime(found["at"], "%Y%m%dT%H%M%SZ")), path
