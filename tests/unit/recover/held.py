# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder that another process of a run holds."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path


def waits_for(folder: Path, work: Callable[[], object], is_done: Callable[[], bool]) -> bool:
    """Return whether some work is not done while the folder is held, and is done afterwards."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    worker = threading.Thread(target=work, daemon=True)
    try:
        worker.start()
        time.sleep(0.3)
        early = is_done()
    finally:
        os.close(descriptor)
    worker.join(30)
    return not early and is_done()
