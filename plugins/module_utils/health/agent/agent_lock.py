# SPDX-License-Identifier: GPL-3.0-or-later
"""Let one agent of a node run: a lock that the kernel frees when the process ends, even by SIGKILL."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class LockedError(RuntimeError):
    """Another agent of this node runs."""


class AgentLock:
    """Hold a lock on a file. Children do not inherit it, so a child that hangs does not keep the next agent away."""

    def __init__(self, path: Path) -> None:
        """Take the lock. LockedError: another process has it. OSError: the file cannot be opened."""
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self.descriptor)
            raise LockedError(f"{path}: another agent runs") from error

    def release(self) -> None:
        """Free the lock."""
        os.close(self.descriptor)
