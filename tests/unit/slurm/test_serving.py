"""Which controllers a node has, and what they would lose to others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.serving import KIND, jobs_of_others

PLACE = "site.bedplate.yml: services.controllers"
KNOWS = Outcome(0, "17\n18_[1-3]\n", "")
IDLE = Outcome(0, "", "")
DEAD = Outcome(1, "", "slurm_load_jobs error: Unable to contact slurm controller")
ABSENT = Outcome(127, "", "squeue: No such file or directory")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/default").mkdir(parents=True)
    (tmp_path / "etc/default/slurmd").write_text('SLURMD_OPTIONS="--conf-server 10.0.0.1:6817,10.0.0.2:6817"\n')
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/comm").write_text("slurmd\n")
    return tmp_path


def found(root: Path, wanted: list[str], answer: Outcome) -> list[str]:
    findings = jobs_of_others(wanted, PLACE, lambda argv: answer, root)
    assert {(one.kind, one.where) for one in findings} <= {(KIND, PLACE)}
    return [one.found for one in findings]


def test_controllers_that_know_jobs_are_not_replaced(root: Path):
    assert found(root, ["10.0.0.9:6817"], KNOWS) == ["10.0.0.1:6817, 10.0.0.2:6817, where Slurm knows 2 jobs"]


@pytest.mark.parametrize("answer", [DEAD, ABSENT, Outcome(None, "", "stopped after 60 s")])
def test_where_they_do_not_answer_a_running_step_speaks_for_them(root: Path, answer: Outcome):
    assert found(root, ["10.0.0.9:6817"], answer) == []
    (root / "proc/7/comm").write_text("slurmstepd\n")
    assert "no slurmctld answers, and a running job" in found(root, ["10.0.0.9:6817"], answer)[0]


@pytest.mark.parametrize("wanted", [["10.0.0.2:6817"], ["10.0.0.9:6817", "10.0.0.1:7000"]])
def test_one_that_stays_knows_the_jobs(root: Path, wanted: list[str]):
    assert found(root, wanted, KNOWS) == []


def test_without_jobs_any_controller_may_come(root: Path):
    assert found(root, ["10.0.0.9:6817"], IDLE) == []


def test_a_node_without_slurmd_has_no_controller(root: Path):
    (root / "etc/default/slurmd").unlink()
    assert found(root, ["10.0.0.9:6817"], KNOWS) == []
