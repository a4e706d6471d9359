# SPDX-License-Identifier: GPL-3.0-or-later
"""What slurmdbd needs of MariaDB, read back from the server that runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.database_settings import (
    OWN,
    findings,
)

EXPECTED = {"variables": {"innodb_snapshot_isolation": "OFF"}}


def says(text: str, code: int = 0) -> Callable[[Sequence[str]], Outcome]:
    return lambda _command: Outcome(code, text, "no socket" if code else "")


# An older MariaDB does not know it, and shows nothing.
@pytest.mark.parametrize("text", ["innodb_snapshot_isolation\tOFF\n", ""])
def test_a_database_as_it_should_be(tmp_path: Path, text: str):
    assert list(findings(str(tmp_path), EXPECTED, says(text))) == []


def test_who_overrides_it_is_named(tmp_path: Path):
    (tmp_path / OWN[1:]).parent.mkdir(parents=True)
    (tmp_path / OWN[1:]).write_text("[mariadbd]\nloose_innodb_snapshot_isolation = OFF\n")
    (one,) = findings(str(tmp_path), EXPECTED, says("innodb_snapshot_isolation\tON\n"))
    assert (one.kind, one.expected, one.found, one.overridden_by) == ("mariadb-variable", "OFF", "ON", "")
    (tmp_path / "etc/mysql/mariadb.conf.d/99-site.cnf").write_text("[mariadbd]\n\ninnodb-snapshot-isolation = ON\n")
    (one,) = findings(str(tmp_path), EXPECTED, says("innodb_snapshot_isolation\tON\n"))
    assert one.overridden_by == "/etc/mysql/mariadb.conf.d/99-site.cnf:3"


def test_a_database_that_does_not_answer(tmp_path: Path):
    (one,) = findings(str(tmp_path), EXPECTED, says("", 1))
    assert one.kind == "mariadb-silent"
