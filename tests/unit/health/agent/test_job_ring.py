# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of a node: the ring of the epilog, and the cgroups of slurmd in both layouts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import job_ring
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.clock import Moment
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.job_ring import EndedJob
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.node_jobs import NodeJobs
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import KernelEvent

BOOT_TIME = 1_790_000_000
RING = "11 1000 1790001000 1060\n12 1000 1790001050 1100\n13 0 1790002000 2001\n"


def test_ring_is_parsed() -> None:
    assert job_ring.parse(RING)[0] == EndedJob(11, 1000, 1_790_001_000, 1060)
    assert len(job_ring.parse(RING)) == 3


@pytest.mark.parametrize(
    "line",
    ["", "1 2 3", "1 2 3 4 5", "a 0 1 2", "- 0 5 4", "1 0 5 -", "-1 0 1 2", "٣ 0 1 2", "1  0 1 2", "9" * 20 + " 0 1 2"],
)
def test_malformed_lines_are_ignored(line: str) -> None:
    assert job_ring.parse(f"{line}\n7 0 1 2\n") == [EndedJob(7, 0, 1, 2)]


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    job_ring.parse(text)


def test_jobs_at_a_time() -> None:
    jobs = job_ring.parse(RING)
    assert job_ring.at(jobs, 1030, BOOT_TIME) == [11]
    assert job_ring.at(jobs, 1055, BOOT_TIME) == [11, 12]
    assert job_ring.at(jobs, 1500, BOOT_TIME) == []
    unknown = job_ring.parse("14 0 - 900\n")
    assert unknown == [EndedJob(14, 0, None, 900)]
    assert job_ring.at(unknown, 800, BOOT_TIME) == [14]
    assert job_ring.at(unknown, 1000, BOOT_TIME) == []


def test_long_ring_keeps_its_last_lines(tmp_path: Path) -> None:
    ring = tmp_path / "jobs"
    ring.write_text("".join(f"{number} 0 1 2\n" for number in range(1, 1500)))
    assert job_ring.trim(ring)
    assert [one.job for one in job_ring.parse(job_ring.read(ring))] == list(range(1300, 1500))
    assert not job_ring.trim(ring)
    assert not job_ring.trim(tmp_path / "absent")


def test_large_ring_is_read_from_its_end(tmp_path: Path) -> None:
    ring = tmp_path / "jobs"
    ring.write_text("".join(f"{number} 0 1000000000 1000000001\n" for number in range(100_000, 120_000)))
    jobs = job_ring.parse(job_ring.read(ring))
    assert jobs[-1].job == 119_999
    assert jobs[0].job > 100_000


@pytest.mark.parametrize(
    "folder",
    [
        "system.slice/slurmstepd.scope/job_4711/step_0",
        "system.slice/gpu001_slurmstepd.scope/job_4711/step_batch",
        "freezer/slurm/uid_1000/job_4711/step_0",
        "memory/slurm_gpu001/uid_1000/job_4711",
    ],
)
def test_running_jobs_of_each_layout(tmp_path: Path, folder: str) -> None:
    (tmp_path / "sys/fs/cgroup" / folder).mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/system.slice/job_9.service").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory/user/uid_5/job_8").mkdir(parents=True)
    assert job_ring.running(Root(str(tmp_path))) == (4711,)


def test_job_without_a_process_does_not_run(tmp_path: Path) -> None:
    for job, populated in ((1, 0), (2, 1)):
        folder = tmp_path / f"sys/fs/cgroup/system.slice/slurmstepd.scope/job_{job}"
        folder.mkdir(parents=True)
        (folder / "cgroup.events").write_text(f"populated {populated}\nfrozen 0\n")
    assert job_ring.running(Root(str(tmp_path))) == (2,)


def event(uptime: float, **details: str) -> KernelEvent:
    return KernelEvent("xid", 94, "0000:3b:00.0", "text", 5, uptime, details)


def moment(uptime: float) -> Moment:
    return Moment(uptime, BOOT_TIME + uptime)


def test_job_of_an_event(tmp_path: Path) -> None:
    ring = tmp_path / "jobs"
    ring.write_text(RING)
    jobs = NodeJobs(tmp_path, ring)
    late = moment(5000)
    assert jobs.of_event(event(1030), late) == 11
    assert jobs.of_event(event(1055), late) is None, "two jobs ran, so neither is known"
    assert jobs.of_event(event(1500), late) is None
    (tmp_path / "proc/42").mkdir(parents=True)
    (tmp_path / "proc/42/cgroup").write_text("0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_0\n")
    assert jobs.of_event(event(1055, pid="42"), late) == 12
    assert jobs.of_event(event(1030, pid="'<unknown>'"), late) == 11


def test_running_job_counts_for_a_recent_event_alone(tmp_path: Path) -> None:
    (tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope/job_77").mkdir(parents=True)
    jobs = NodeJobs(tmp_path, tmp_path / "jobs")
    assert jobs.of_event(event(3000), moment(3001)) == 77
    assert jobs.of_event(event(3000), moment(5000)) is None
