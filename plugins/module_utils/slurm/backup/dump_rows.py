# SPDX-License-Identifier: GPL-3.0-or-later
"""Count the rows of each table in a dump of mariadb-dump while it passes, and see whether it is complete."""

from __future__ import annotations

import re

from ..saved.database_dump import ENDING

_INSERT = re.compile(rb"INSERT INTO `([^`]+)`[^\n]*? VALUES ?(.*)\Z", re.DOTALL)
_TABLE = re.compile(rb"CREATE TABLE `([^`]+)`")
_TEXT = re.compile(rb"'(?:[^'\\]|\\.|'')*'", re.DOTALL)


class DumpRows:
    """Rows of each table of a dump: one statement a table with a row on each line, or many statements of one line each.

    mariadb-dump writes line ends inside of values as \\n, so a line is part of one row alone.
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self._rest = b""
        self._last = b""
        self._table: str | None = None

    def feed(self, data: bytes) -> None:
        """Read the next bytes."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._line(line)

    def finish(self) -> str:
        """Return the last line that is not empty."""
        if self._rest:
            self._line(self._rest)
            self._rest = b""
        return self._last.decode("utf-8", "replace")

    def is_complete(self) -> bool:
        """Return whether the dump has its last line; only after `finish`."""
        return self._last.startswith(ENDING.encode())

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        self._last = line
        if self._table is not None:
            if line.startswith(b"("):
                self.rows[self._table] += 1
                if line.endswith(b";"):
                    self._table = None
                return
            self._table = None
        if line.startswith(b"CREATE TABLE"):
            if found := _TABLE.match(line):
                self.rows.setdefault(found[1].decode(), 0)
        elif line.startswith(b"INSERT INTO") and (found := _INSERT.match(line)):
            name = found[1].decode()
            self.rows.setdefault(name, 0)
            if found[2].strip():
                self.rows[name] += _TEXT.sub(b"", found[2]).count(b"),(") + 1
            else:
                self._table = name
