# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a node are read from its processes; what a restore would replace is counted, and an error is not taken for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import host_state
from tests.kit.backups import NO_USER, write_state


def test_jobs_of_a_node(tmp_path: Path):
    titles = {
        "10": b"slurmstepd: [4711.batch]\0",
        "11": b"slurmstepd: [4711.extern]\0",
        "12": b"slurmstepd: [4712.0+1]\0",
        "13": b"/usr/sbin/slurmstepd\0infinity\0",
        "14": b"vi\0slurmstepd: [99.batch]\0",
        "self": b"slurmstepd: [98.batch]\0",
    }
    for name, title in titles.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "cmdline").write_bytes(title)
    (tmp_path / "15").mkdir()
    assert host_state.node_jobs(tmp_path) == [4711, 4712]


class Host:
    """Active units, and tables with the rows of the job table."""

    def __init__(self, active: set[str], tables: Sequence[str] = (), jobs: str = "", code: int = 0) -> None:
        self.active, self.tables, self.jobs, self.code = active, tables, jobs, code

    def __call__(self, argv: Sequence[str], *_more: Any, **_named: Any) -> Outcome:
        if argv[0] == "systemctl":
            return Outcome(0 if argv[-1] in self.active else 3, "", "")
        if self.code:
            return Outcome(self.code, "", "ERROR 2002: no connection")
        text = self.jobs if "COUNT" in argv[-1] else "".join(f"{one}\n" for one in self.tables)
        return Outcome(0, text, "")


def test_a_database_with_jobs():
    run = Host({"mariadb.service", "slurmdbd.service"}, ["acct_table", "lab_job_table"], "12\t4711\n")
    found = host_state.database_facts("slurm_acct_db", "lab", run)
    assert found == {"runs": True, "jobs": 12, "largest": 4711, "tables": 2}


def test_a_new_host_has_no_database():
    assert host_state.database_facts("slurm_acct_db", "lab", Host(set()))["jobs"] == 0
    assert host_state.database_facts("slurm_acct_db", "lab", Host({"mariadb.service"}))["tables"] == 0


def test_a_database_that_does_not_answer_is_an_error():
    with pytest.raises(OSError, match="no connection"):
        host_state.database_facts("slurm_acct_db", "lab", Host({"mariadb.service"}, code=1))


def test_a_state_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_state(tmp_path / "state")

    def refused(*_: object, **__: object) -> list[Any]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.walk", refused)
    with pytest.raises(OSError, match="Permission denied"):
        host_state.controller_facts(tmp_path / "state", NO_USER, Host(set()))


def test_a_process_that_cannot_be_read_may_be_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "10").mkdir()

    def refused(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(PermissionError):
        host_state.node_jobs(tmp_path)


@pytest.mark.parametrize("shown", ["n1 idle*", "n1 unknown", "n1 unknown*"])
def test_a_node_that_slurmctld_has_not_heard_is_named(shown: str):
    """Its jobs are not compared yet, so that a report on them would be wrong."""
    found = host_state.wait_for_nodes("n[1-2]", -1, lambda *_, **__: Outcome(0, f"{shown}\nn2 mixed\n", ""))
    assert found == ["n1"]


def test_nodes_that_slurmctld_has_heard_are_not_waited_for():
    slept: list[float] = []
    run = lambda *_, **__: Outcome(0, "n1 idle\nn2 mixed\n", "")  # noqa: E731
    assert host_state.wait_for_nodes("n[1-2]", -1, run, slept.append) == []
    assert len(slept) == 1


def test_the_state_of_a_controller(tmp_path: Path):
    run = Host({"slurmctld.service"})
    assert host_state.controller_facts(tmp_path / "none", NO_USER, run) == {"runs": True, "files": 0}
    (tmp_path / "empty").mkdir()
    assert host_state.controller_facts(tmp_path / "empty", NO_USER, run)["files"] == 0
    write_state(tmp_path / "state")
    assert host_state.controller_facts(tmp_path / "state", NO_USER, Host(set())) == {"runs": False, "files": 8}
