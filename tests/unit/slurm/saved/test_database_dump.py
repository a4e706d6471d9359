# SPDX-License-Identifier: GPL-3.0-or-later
"""A dump counts only with its last line, and with the rows of every table after a restore; one that is not proved is removed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.database_dump import (
    Database,
    DumpError,
    same_rows,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.private_file import (
    input_from,
    last_line,
    output_to,
)

LIVE = {"job_table": 12, "step_table": 40}
WHOLE = "CREATE TABLE job_table (x int);\n-- Dump completed on 2026-11-26 20:00:00\n"


class MariaDb:
    """A fake server: databases with the rows of their tables; a restore gives what `restored` says."""

    def __init__(self, dump: str = WHOLE, restored: dict[str, int] | None = None, code: int = 0) -> None:
        self.databases: dict[str, dict[str, int]] = {"slurm_acct_db": dict(LIVE)}
        self._dump, self._restored, self._code = dump, LIVE if restored is None else restored, code
        self.restored_into: list[str] = []

    def __call__(self, argv: Sequence[str], seconds: float = 0, **_more: Any) -> Outcome:
        if argv[0] == "sh" and "mariadb-dump" in argv:
            Path(argv[4]).write_text(self._dump)
            return Outcome(self._code, "", "" if self._code == 0 else "Got error: 2013")
        if argv[0] == "sh":
            assert Path(argv[4]).exists()
            self.restored_into.append(argv[-1])
            self.databases[argv[-1]] = dict(self._restored)
            return Outcome(0, "", "")
        return Outcome(0, self._answer(argv[-1]), "")

    def _answer(self, statement: str) -> str:
        name = next(
            iter(re.findall(r"table_schema = '(\w+)'|DATABASE (?:IF EXISTS )?`(\w+)`|FROM `(\w+)`", statement)), ()
        )
        database = next(filter(None, name), "")
        if statement.startswith("DROP"):
            self.databases.pop(database, None)
        elif "SUM(" in statement:
            return f"1048576\t{len(self.databases.get(database, {}))}\n"
        elif "table_name" in statement:
            return "".join(f"{one}\n" for one in self.databases[database])
        elif "COUNT(*)" in statement:
            return "".join(f"{one}\t{count}\n" for one, count in self.databases[database].items())
        return ""


def test_a_whole_dump_is_kept_and_the_scratch_database_is_dropped(tmp_path: Path):
    server = MariaDb()
    path = tmp_path / "d.sql"
    assert Database("slurm_acct_db", 10, server).dump(path) == LIVE
    assert path.read_text() == WHOLE
    assert server.restored_into == ["slurm_acct_db_bedplate_check"]
    assert list(server.databases) == ["slurm_acct_db"]


@pytest.mark.parametrize(
    ("server", "text"),
    [
        (MariaDb(dump="CREATE TABLE job_table (x int);\n"), "is cut short: it ends with 'CREATE TABLE"),
        (MariaDb(dump=""), "is cut short"),
        (MariaDb(restored={"job_table": 11, "step_table": 40}), "job_table: 12 rows in the database, 11 in the dump"),
        (MariaDb(restored={"job_table": 12}), "step_table: 40 rows in the database, no table in the dump"),
        (MariaDb(code=3), "mariadb-dump slurm_acct_db: Got error: 2013"),
    ],
)
def test_a_dump_that_is_not_the_database_is_refused_and_removed(tmp_path: Path, server: MariaDb, text: str):
    with pytest.raises(DumpError, match=re.escape(text)):
        Database("slurm_acct_db", 10, server).dump(tmp_path / "d.sql")
    assert list(tmp_path.iterdir()) == []
    assert list(server.databases) == ["slurm_acct_db"]


def test_a_restore_replaces_the_database(tmp_path: Path):
    server = MariaDb(restored={"job_table": 1})
    (tmp_path / "d.sql").write_text(WHOLE)
    Database("slurm_acct_db", 10, server).restore(tmp_path / "d.sql")
    assert server.databases == {"slurm_acct_db": {"job_table": 1}}


@pytest.mark.parametrize(("dump", "text"), [(None, "No such file"), ("CREATE TABLE x", "is cut short")])
def test_without_a_whole_dump_the_database_is_not_dropped(tmp_path: Path, dump: str | None, text: str):
    server = MariaDb()
    if dump is not None:
        (tmp_path / "d.sql").write_text(dump)
    with pytest.raises(DumpError, match=text):
        Database("slurm_acct_db", 10, server).restore(tmp_path / "d.sql")
    assert server.databases == {"slurm_acct_db": LIVE}


def test_a_database_without_tables_is_none_of_this_host():
    server = MariaDb()
    assert Database("slurm_acct_db", 10, server).size() == 1 << 20
    with pytest.raises(DumpError, match="no tables of database other"):
        Database("other", 10, server).size()
    with pytest.raises(DumpError, match="not a plain name"):
        Database("x`; DROP", 10, server)


def test_same_rows_names_a_table_that_only_the_dump_has():
    with pytest.raises(DumpError, match="b: no table rows in the database, 2 in the dump"):
        same_rows({"a": 1}, {"a": 1, "b": 2}, "x.sql")


def test_only_root_reads_what_a_command_writes_and_a_failure_keeps_the_old_file(tmp_path: Path):
    path = tmp_path / "x"
    assert output_to(["printf", "one\\n\\n"], path, 10).code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert last_line(path) == "one"
    assert output_to(["sh", "-c", "echo two; exit 3"], path, 10).code == 3
    assert (path.read_text(), [one.name for one in tmp_path.iterdir()]) == ("one\n\n", ["x"])
    assert input_from(["cat"], path, 10, command.run).stdout == "one\n\n"
