# SPDX-License-Identifier: GPL-3.0-or-later
"""Let one process after the other read and write the files of a folder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def folder_alone(folder: Path) -> Iterator[None]:
    """Hold a folder against the other processes that hold it. The kernel releases it with the process. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
