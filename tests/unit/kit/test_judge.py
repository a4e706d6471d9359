"""The judge of the workload's jobs, on what a real Slurm 24.11.5 and its jobs said before and after jobs were hurt."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kit import judge as module
from tests.kit.judge import Observation, judge, kinds, observe, parse_jobs, summary

DATA = Path(__file__).parent / "data"
NODES = ["gpu01", "gpu02"]
COMMANDS = {"scontrol --oneliner": "jobs", "sacct": "accounting", "/run/bedplate-kit": "records", "journalctl": "log"}


def recorded(name: str, silent: str = "") -> Callable[[str, str], subprocess.CompletedProcess[str]]:
    """Return a shell that answers from a recording; what contains `silent` fails."""
    texts = json.loads((DATA / f"{name}.json").read_text())

    def run(machine: str, command: str) -> subprocess.CompletedProcess[str]:
        if silent and silent in command:
            return subprocess.CompletedProcess(command, 1, "", "Unable to contact")
        kind = next(kind for word, kind in COMMANDS.items() if word in command)
        return subprocess.CompletedProcess(command, 0, "\n".join(texts[f"{machine} {kind}"]) + "\n", "")

    return run


@pytest.fixture
def before() -> Observation:
    return observe(recorded("before"), "ctl1", NODES)


@pytest.fixture
def after() -> Observation:
    return observe(recorded("after"), "ctl1", NODES)


def test_jobs_that_run_on_are_no_findings(before):
    assert judge(before, before) == []


def test_the_recording_has_every_kind_of_job(before):
    states = {job.name: job.state for job in before.jobs.values()}
    assert states["kit-array"] == states["kit-het"] == states["kit-interactive"] == "RUNNING"
    assert states["kit-wait-node"] == states["kit-wait-held"] == "PENDING"
    labels = {job.label for job in before.jobs.values() if job.name == "kit-het"}
    assert labels == {"45+0", "45+1"}


def test_what_was_done_to_jobs_is_named(before, after):
    found = kinds(judge(before, after))
    assert found["job-requeued"] == {"kit-burn"}
    assert found["job-ended"] == {"kit-wide", "kit-no-requeue", "kit-checkpoint", "kit-wait-begin"}
    assert found["device-changed"] == {"kit-gpu"}
    assert found["task-stopped"] == {"kit-gpu-no-requeue", "kit-het", "kit-nodelist", "kit-interactive"}
    assert found["accounting-state"] == {"kit-burn", "kit-wide", "kit-no-requeue", "kit-checkpoint"}
    assert set(found) == {"job-requeued", "job-ended", "device-changed", "task-stopped", "accounting-state"}


def test_a_finding_says_why(before, after):
    (lost,) = [one for one in judge(before, after) if one.kind == "device-changed"]
    assert lost.machine == "gpu01"
    assert "/dev/nvidia0=ENXIO" in lost.expected
    assert "/dev/nvidia0=EPERM" in lost.found
    (requeued,) = [one for one in judge(before, after) if one.kind == "job-requeued"]
    assert "Requeuing JobId=41" in requeued.remedy
    assert summary([requeued]).startswith("job-requeued: job 41 (kit-burn)")


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"restarts": 1}, "job-requeued"),
        ({"state": "PENDING", "reason": "BeginTime"}, "job-requeued"),
        ({"state": "FAILED", "exit": "1:0"}, "job-ended"),
        ({"state": "COMPLETED"}, "job-ended"),
        ({"start": "2026-01-01T00:00:00"}, "job-restarted"),
        ({"nodes": "gpu02"}, "job-moved"),
    ],
)
def test_each_change_of_a_running_job_is_found(before, change, kind):
    job = next(job for job in before.jobs.values() if job.name == "kit-gpu")
    now = replace_job(before, replace(job, **change))
    assert kinds(judge(before, now)) == {kind: {"kit-gpu"}}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"state": "RUNNING"}, {}),
        ({"reason": "Priority"}, {}),
        ({"reason": "BadConstraints"}, {"job-held": {"kit-wait-node"}}),
        ({"state": "FAILED"}, {"job-ended": {"kit-wait-node"}}),
    ],
)
def test_a_job_that_waits_may_start_but_neither_end_nor_be_held(before, change, found):
    job = next(job for job in before.jobs.values() if job.name == "kit-wait-node")
    assert kinds(judge(before, replace_job(before, replace(job, **change)))) == found


def test_a_second_row_of_accounting_is_a_requeue_that_slurmctld_forgot(before):
    job = next(job for job in before.jobs.values() if job.name == "kit-gpu")
    row = before.rows[job.id][0]
    now = replace(before, rows={**before.rows, job.id: [replace(row, state="NODE_FAIL"), row]})
    assert set(kinds(judge(before, now))) == {"accounting-runs"}


def test_a_job_that_slurmctld_forgot_is_lost(before):
    job = next(job for job in before.jobs.values() if job.name == "kit-gpu")
    now = replace(before, jobs={key: value for key, value in before.jobs.items() if key != job.id})
    assert kinds(judge(before, now)) == {"job-ended": {"kit-gpu"}}


def test_a_record_that_is_gone_is_a_task_that_is_lost(before):
    now = replace(before, probes={key: value for key, value in before.probes.items() if value.node != "gpu01"})
    assert "kit-gpu" in kinds(judge(before, now))["task-lost"]


@pytest.mark.parametrize("daemon", ["scontrol --oneliner", "sacct", "/run/bedplate-kit"])
def test_who_does_not_answer_is_one_finding_and_no_lost_jobs(monkeypatch, before, daemon):
    monkeypatch.setattr(module, "PATIENCE", 0)
    now = observe(recorded("before", silent=daemon), "ctl1", NODES)
    assert {one.kind for one in judge(before, now)} == {"silent"}


def test_values_with_blanks_and_slashes_do_not_confuse_the_reader():
    line = "JobId=7 ArrayJobId=5 ArrayTaskId=2-3%1 JobName=a JobState=PENDING Reason=Resources CPUs/Task=1 NodeList="
    assert parse_jobs(line)["7"].label == "5_2-3%1"
    assert parse_jobs("No jobs in the system") == {}


def replace_job(seen: Observation, job: module.Job) -> Observation:
    return replace(seen, jobs={**seen.jobs, job.id: job})
