# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the limiter's files in the folder that all controllers share, beside Slurm's state.

It may be on NFS, where root is nobody. So files are read and written as the owner of the folder, or of the folder above it.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...common.as_user import AsUser, owner_of
from ...common.files import atomic_write
from . import limiter_memory
from .limiter_memory import Memory

_INDEX_LINES = 5000


class SharedFolder:
    """`path` need not exist; the folder above it must."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Hold the lock of the folder; False if another process has it. OSError: there is no folder."""
        with self._owner():
            self.path.mkdir(mode=0o755, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(handle)

    def memory(self) -> Memory:
        """Return the memory that the last controller in charge has left; an empty one without a file, or if it is damaged.

        OSError: there is a file that cannot be read now. It may hold the rate, so nothing may be decided without it.
        """
        with self._owner(), suppress(FileNotFoundError, UnicodeDecodeError):
            return limiter_memory.from_text((self.path / "memory.json").read_text(encoding="utf-8"))
        return Memory()

    def save(self, memory: Memory) -> None:
        """Write the memory. OSError: the old one is still there."""
        with self._owner():
            atomic_write(self.path / "memory.json", memory.text(), mode=0o640)

    def write_status(self, status: Mapping[str, Any]) -> None:
        """Write the last tick, for verify and people."""
        with self._owner():
            atomic_write(self.path / "status.json", json.dumps(status, indent=1), mode=0o644)

    def note_evidence(self, row: Mapping[str, Any]) -> None:
        """Append a line to the index of evidence, which keeps the last 5,000. OSError: nothing has changed."""
        path = self.path / "evidence.jsonl"
        with self._owner():
            old: list[str] = []
            with suppress(FileNotFoundError):
                old = path.read_text(encoding="utf-8", errors="replace").splitlines()
            lines = [*old[-_INDEX_LINES + 1 :], json.dumps(row)]
            atomic_write(path, "".join(f"{line}\n" for line in lines), mode=0o640)

    def _owner(self) -> AsUser:
        return AsUser(owner_of(self.path))
