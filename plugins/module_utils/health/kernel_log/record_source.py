# SPDX-License-Identifier: GPL-3.0-or-later
"""Read chunks of records without waiting: from /dev/kmsg, or from a plain file of the same form, which tests and the lab write."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

_RECORD = 65536
"""Bytes of a read; a record of Linux has less than 16 KiB with its properties."""
_BLOCK = 262144
_LONGEST_LINE = 1048576


class RecordSource(Protocol):
    """A source of records, which a test can replace."""

    def read(self) -> bytes:
        """Return whole records, b"" at the end for now. BrokenPipeError: records were overwritten; the next read continues after them."""

    def close(self) -> None:
        """Close the source."""


def open_source(path: Path) -> RecordSource:
    """Return the source of a path: a device is read record by record, a regular file by its lines. OSError: it cannot be opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return KmsgFile(path)
    return KmsgDevice(descriptor)


class KmsgDevice:
    """Read /dev/kmsg, which returns one record per read, from the oldest one on."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self) -> bytes:
        """Return one record; b"" at the end for now."""
        try:
            return os.read(self.descriptor, _RECORD)
        except BlockingIOError:
            return b""
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise BrokenPipeError(*error.args) from error
            raise

    def fileno(self) -> int:
        """Return the descriptor, so that an agent can wait for the next record."""
        return self.descriptor

    def close(self) -> None:
        """Close the device."""
        with suppress(OSError):
            os.close(self.descriptor)


class KmsgFile:
    """Read a file that grows by whole lines. A file that was truncated or replaced is read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self.identity: tuple[int, int] | None = None
        self.rest = b""

    def read(self) -> bytes:
        """Return the next complete lines; b"" at the end for now, and for a file that does not exist."""
        try:
            with self.path.open("rb") as stream:
                state = os.fstat(stream.fileno())
                if self.identity != (state.st_dev, state.st_ino) or state.st_size < self.offset:
                    self.identity, self.offset, self.rest = (state.st_dev, state.st_ino), 0, b""
                stream.seek(self.offset)
                return self._lines(stream)
        except FileNotFoundError:
            return b""

    def _lines(self, stream: BinaryIO) -> bytes:
        while len(self.rest) <= _LONGEST_LINE:
            block = stream.read(_BLOCK)
            self.offset += len(block)
            whole, separator, self.rest = (self.rest + block).rpartition(b"\n")
            if separator or not block:
                return whole + separator
        # A file without line breaks: its text is malformed, and memory stays bounded.
        whole, self.rest = self.rest, b""
        return whole + b"\n"

    def close(self) -> None:
        """Keep no file open."""
