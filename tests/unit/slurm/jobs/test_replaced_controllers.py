"""Which controllers a node has, and what they would lose to others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs import replaced_controllers
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.replaced_controllers import (
    KIND,
    jobs_of_others,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
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


def found(root: Path, wanted: list[str], answer: Outcome, **options: bool) -> list[str]:
    findings = jobs_of_others(wanted, PLACE, lambda argv: answer, root, **options).others
    assert {(one.kind, one.where) for one in findings} <= {(KIND, PLACE)}
    return [one.found for one in findings]


def run_step(root: Path, cmdline: str = "slurmstepd: [17.batch]") -> None:
    (root / "proc/7/comm").write_text("slurmstepd\n")
    (root / "proc/7/cmdline").write_text(cmdline.replace(" ", "\0") + "\0")


def test_controllers_that_know_jobs_are_not_replaced(root: Path):
    (one,) = jobs_of_others(["10.0.0.9:6817"], PLACE, lambda argv: KNOWS, root).others
    assert (one.kind, one.where) == (KIND, PLACE)
    assert "10.0.0.9:6817" in one.expected
    assert all(value in one.found for value in ("10.0.0.1:6817, 10.0.0.2:6817", " 2 jobs"))
    sentences.check(SENTENCES, "controllers that know jobs are replaced", [one])


@pytest.mark.parametrize("answer", [DEAD, ABSENT, Outcome(None, "", "stopped after 60 s")])
def test_where_they_do_not_answer_a_running_step_speaks_for_them(root: Path, answer: Outcome):
    assert found(root, ["10.0.0.9:6817"], answer) == []
    run_step(root)
    (one,) = found(root, ["10.0.0.9:6817"], answer)
    assert "10.0.0.1:6817, 10.0.0.2:6817" in one
    sentences.check(SENTENCES, "controllers that do not answer are replaced while a job runs", [one])


@pytest.mark.parametrize("wanted", [["10.0.0.2:6817"], ["10.0.0.9:6817", "10.0.0.1:7000"]])
def test_one_that_stays_knows_the_jobs(root: Path, wanted: list[str]):
    assert found(root, wanted, KNOWS) == []


def test_without_jobs_any_controller_may_come(root: Path):
    assert found(root, ["10.0.0.9:6817"], IDLE) == []


def test_a_node_without_slurmd_has_no_controller(root: Path):
    (root / "etc/default/slurmd").unlink()
    assert found(root, ["10.0.0.9:6817"], KNOWS) == []


def test_the_process_that_slurmd_keeps_for_cgroups_is_no_job(root: Path):
    run_step(root, "/usr/sbin/slurmstepd infinity")
    assert found(root, ["10.0.0.9:6817"], DEAD) == []


def test_a_process_that_has_ended_hides_no_step(root: Path, monkeypatch: pytest.MonkeyPatch):
    run_step(root)
    gone, step = root / "proc/6/comm", root / "proc/7/comm"
    monkeypatch.setattr(replaced_controllers.Path, "glob", lambda path, pattern: [gone, step])
    assert len(found(root, ["10.0.0.9:6817"], DEAD)) == 1


def test_a_step_on_a_node_that_the_controllers_do_not_have_is_another_ones(root: Path):
    run_step(root)
    (root / "etc/default/slurmd").unlink()
    assert found(root, ["10.0.0.9:6817"], KNOWS) == []
    (one,) = found(root, ["10.0.0.9:6817"], KNOWS, new=True)
    assert "/etc/default/slurmd" in one


def test_a_step_on_a_node_without_servers_stops_controllers_that_have_lost_their_state(root: Path):
    run_step(root)
    (root / "etc/default/slurmd").unlink()
    (one,) = jobs_of_others(["10.0.0.1:6817"], PLACE, lambda argv: DEAD, root, first_start=True).others
    assert one.remedy == replaced_controllers.REMEDY_LOST
    sentences.check(SENTENCES, "controllers that have lost their state", [one])


@pytest.mark.parametrize(("answer", "jobs"), [(KNOWS, " 2 jobs"), (DEAD, " job")])
def test_controllers_that_have_lost_their_state_know_no_job(root: Path, answer: Outcome, jobs: str):
    run_step(root)
    (one,) = found(root, ["10.0.0.1:6817"], answer, new=True, first_start=True)
    assert one.endswith(jobs)
    assert found(root, ["10.0.0.1:6817"], answer, new=True) == []
    (root / "proc/7/comm").write_text("slurmd\n")
    assert found(root, ["10.0.0.1:6817"], IDLE, new=True, first_start=True) == []


def test_the_last_line_counts_and_every_job_is_asked_for(root: Path):
    with (root / "etc/default/slurmd").open("a") as stream:
        stream.write('SLURMD_OPTIONS="--conf-server=10.0.0.9"\n')
    asked: list[list[str]] = []

    def run(argv: list[str]) -> Outcome:
        asked.append(argv)
        return KNOWS

    assert jobs_of_others(["10.0.0.9:6817"], PLACE, run, root).others == ()
    assert len(jobs_of_others(["10.0.0.1:6817"], PLACE, run, root).others) == 1
    # Without --all, jobs in hidden partitions are not listed.
    assert asked == [["squeue", "--noheader", "--all", "--format=%i"]]


@pytest.mark.parametrize(("answer", "silent"), [(DEAD, True), (IDLE, False)])
def test_controllers_that_do_not_answer_are_named_as_such(root: Path, answer: Outcome, silent: bool):
    assert jobs_of_others(["10.0.0.9:6817"], PLACE, lambda argv: answer, root).silent is silent


def test_the_habits_of_a_login_hide_no_job(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    asked: list[set[str]] = []

    def run(argv: list[str]) -> Outcome:
        asked.append({name for name in os.environ if name.startswith(("SQUEUE_", "SLURM_"))})
        return KNOWS

    jobs_of_others(["10.0.0.9:6817"], PLACE, run, root)
    assert asked == [set()]


def test_what_a_failed_squeue_prints_are_no_jobs(root: Path):
    assert found(root, ["10.0.0.9:6817"], Outcome(1, "Usage: squeue\n", "")) == []


def test_a_step_that_ends_is_no_job_where_the_old_controllers_know_none(root: Path):
    run_step(root)
    assert found(root, ["10.0.0.9:6817"], IDLE) == []


@pytest.mark.parametrize(
    ("wanted", "remedy"),
    [("10.0.0.1:6817", replaced_controllers.REMEDY_LOST), ("10.0.0.9:6817", replaced_controllers.REMEDY)],
)
def test_the_remedy_is_for_what_happened(root: Path, wanted: str, remedy: str):
    (one,) = jobs_of_others([wanted], PLACE, lambda argv: KNOWS, root, first_start=True).others
    assert one.remedy == remedy
