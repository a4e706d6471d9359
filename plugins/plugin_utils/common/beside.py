# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files beside a cluster file that begin with its name, such as <name>.gpu-lock.json."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_CLUSTER_FILE = re.compile(r"\.bedplate\.ya?ml\Z")
Stamp = tuple[str, int, int, int]
"""Path, inode, time and size of a file."""


def path_beside(cluster_file: str | Path, suffix: str) -> Path | None:
    """Return the path of a file beside a cluster file; None for an inventory without one.

    >>> str(path_beside("/srv/west.bedplate.yml", ".gpu-lock.json"))
    '/srv/west.gpu-lock.json'
    """
    path = Path(cluster_file)
    if not _CLUSTER_FILE.search(path.name):
        return None
    return path.with_name(_CLUSTER_FILE.sub("", path.name) + suffix)


def stamp_of(path: Path | None) -> Stamp:
    """Return what changes whenever the file does; the same for every file that does not exist."""
    with suppress(OSError):
        if path is not None:
            status = path.stat()
            return str(path), status.st_ino, status.st_mtime_ns, status.st_size
    return "", 0, 0, 0
