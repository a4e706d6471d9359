# SPDX-License-Identifier: GPL-3.0-or-later
"""Dump the accounting database, prove the dump by restoring it into a scratch database, and restore it.

slurmdbd must be stopped: otherwise rows of the database change between the dump and the count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from ...common.text import few
from .private_file import Run, input_from, last_line, output_to

ENDING = "-- Dump completed"
"""Beginning of the last line of a complete dump."""
_QUICK = 120.0
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")
_CHECK = "_bedplate_check"


class DumpError(Exception):
    """The database cannot be dumped or restored, or a dump is not what the database has; the text is complete."""


class Database:
    """A database of MariaDB on this host, read as root through the socket."""

    def __init__(self, name: str, seconds: float, run: Run = command.run) -> None:
        """`seconds`: how long a dump or its restore may take. Raises DumpError for a name that is not plain."""
        if not _NAME.match(name):
            raise DumpError(f"StorageLoc={name}: not a plain name of a database")
        self.name = name
        self._seconds = seconds
        self._run = run

    def size(self) -> int:
        """Return the bytes of data and indexes. Raises DumpError."""
        rows = self._rows(
            "SELECT COALESCE(SUM(data_length + index_length), 0), COUNT(*) FROM information_schema.tables "
            f"WHERE table_schema = '{self.name}'"
        )
        if int(rows[0][1]) == 0:
            raise DumpError(f"MariaDB has no tables of database {self.name} on this host")
        return int(rows[0][0])

    def directory(self) -> Path:
        """Return the directory of MariaDB's data. Raises DumpError."""
        return Path(self._rows("SELECT @@datadir")[0][0])

    def dump(self, path: Path) -> dict[str, int]:
        """Dump into a file, prove it, and return table -> rows. Raises DumpError; then the file is removed."""
        argv = ["mariadb-dump", "--single-transaction", "--quick", "--routines", "--triggers", self.name]
        done = output_to(argv, path, self._seconds, self._run)
        if done.code != 0:
            raise DumpError(f"mariadb-dump {self.name}: {done.error_line}")
        try:
            return self.prove(path)
        except DumpError:
            path.unlink()
            raise

    def prove(self, path: Path) -> dict[str, int]:
        """Compare a dump with the database: its end, and the rows of each table after a restore beside it. Raises DumpError."""
        scratch = Database(self.name + _CHECK, self._seconds, self._run)
        try:
            scratch.restore(path)
            return same_rows(self.rows(), scratch.rows(), str(path))
        finally:
            self._statement(f"DROP DATABASE IF EXISTS `{scratch.name}`")

    def restore(self, path: Path) -> None:
        """Replace the database by a dump. Raises DumpError; without a whole dump nothing is dropped."""
        try:
            end = last_line(path)
        except OSError as error:
            raise DumpError(f"{path}: {error.strerror}. Database {self.name} was not changed") from error
        if not end.startswith(ENDING):
            raise DumpError(f"{path} is cut short: it ends with {end[:80]!r}, not with {ENDING!r}")
        self._statement(f"DROP DATABASE IF EXISTS `{self.name}`")
        self._statement(f"CREATE DATABASE `{self.name}`")
        done = input_from(["mariadb", self.name], path, self._seconds, self._run)
        if done.code != 0:
            raise DumpError(f"{path} cannot be restored into {self.name}: {done.error_line}")

    def rows(self) -> dict[str, int]:
        """Return table -> its number of rows. Raises DumpError."""
        tables = [
            row[0]
            for row in self._rows(
                f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{self.name}' "
                "AND table_type = 'BASE TABLE' ORDER BY table_name"
            )
        ]
        if not tables:
            raise DumpError(f"database {self.name} has no tables")
        counts = " UNION ALL ".join(f"SELECT '{one}', COUNT(*) FROM `{self.name}`.`{one}`" for one in tables)
        return {name: int(count) for name, count in self._rows(counts, self._seconds)}

    def _rows(self, statement: str, seconds: float = _QUICK) -> list[list[str]]:
        return [line.split("\t") for line in self._statement(statement, seconds).stdout.splitlines()]

    def _statement(self, statement: str, seconds: float = _QUICK) -> Outcome:
        argv: Sequence[str] = ["mariadb", "--batch", "--skip-column-names", "--execute", statement]
        done = self._run(argv, seconds)
        if done.code != 0:
            raise DumpError(f"mariadb: {done.error_line}")
        return done


def same_rows(live: Mapping[str, int], restored: Mapping[str, int], what: str) -> dict[str, int]:
    """Return the rows of each table. Raises DumpError if a table is missing, or has another number of rows.

    >>> same_rows({"job_table": 2}, {"job_table": 2}, "x.sql")
    {'job_table': 2}
    """
    wrong = [
        f"{name}: {live.get(name, 'no table')} rows in the database, {restored.get(name, 'no table')} in the dump"
        for name in sorted({*live, *restored})
        if live.get(name) != restored.get(name)
    ]
    if wrong:
        raise DumpError(f"{what} is not what the database has: {few(wrong)}")
    return dict(live)
