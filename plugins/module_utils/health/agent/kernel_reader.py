# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's log for the agent: events from the cursor, the last records for evidence, and a gap while the log cannot be read."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from ..kernel_log.kernel_cursor import MOST_RECORDS, Batch, KernelLog
from ..kernel_log.kernel_events import gap
from ..kernel_log.record_source import RecordSource, open_source
from .clock import Moment

RECORDS = 200
"""Records that are kept for evidence."""
UNREADABLE = -2
"""Sequence number of the gap that an unreadable log has: it lasts as long as the log cannot be read, and is never saved."""


class _Kept:
    """Pass a source on, and keep its last lines."""

    def __init__(self, source: RecordSource, last: deque[bytes]) -> None:
        self.source, self.last = source, last

    def read(self) -> bytes:
        data = self.source.read()
        if data:
            self.last.extend(data.splitlines(keepends=True)[-RECORDS:])
        return data

    def close(self) -> None:
        self.source.close()


class KernelReader:
    """Read a device or a file. After an error, the next read opens it again."""

    def __init__(self, path: Path, sequence: int, *, lost: bool = False) -> None:
        """Read after the record `sequence`. `lost`: of a LogState."""
        self.path = path
        self.last: deque[bytes] = deque(maxlen=RECORDS)
        self._sequence, self._lost = sequence, lost
        self._log: KernelLog | None = None

    @property
    def sequence(self) -> int:
        """Return the number of the last record that was read."""
        return self._log.sequence if self._log else self._sequence

    def fileno(self) -> int | None:
        """Return a descriptor that is readable when a record arrives; None for a file, and while the log cannot be read."""
        source = self._log.source if self._log else None
        find = getattr(source.source if isinstance(source, _Kept) else source, "fileno", None)
        return int(find()) if find else None

    def read(self, now: Moment, seconds: float) -> Batch:
        """Return the next events, within `seconds`; while the log cannot be read, a gap that is never saved."""
        try:
            if self._log is None:
                self.last.clear()
                self._log = KernelLog(_Kept(open_source(self.path), self.last), self._sequence, lost=self._lost)
            return self._log.read(MOST_RECORDS, seconds)
        except OSError as error:
            self.close()
            reason = f"{self.path}: {error.strerror or error}"
            return Batch((gap(UNREADABLE, now.uptime, reason, self._sequence + 1, 0, now.time),), 0, more=False)

    def close(self) -> None:
        """Close the log, and keep the cursor."""
        if self._log is not None:
            self._sequence, self._lost = self._log.sequence, False
            self._log.source.close()
            self._log = None
