"""The workload, its judge and the faults, on a real cluster: what is done to a job is named, and every fault is undone."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.kit import faults
from tests.kit.judge import SILENT, Observation, judge, kinds, summary
from tests.kit.keys_run import shell_of
from tests.kit.workload import Workload

testinfra_hosts = ["ansible://slurm_controllers"]

LAB = "molecule-slurm_keys"


@pytest.fixture(scope="module")
def workload() -> Iterator[Workload]:
    workload = Workload(shell_of("slurm_keys"), "ctl1", ["gpu01", "gpu02"])
    yield workload
    workload.stop()


@pytest.fixture
def before(workload: Workload) -> Observation:
    workload.stop()
    return workload.start()


def ids(seen: Observation) -> dict[str, str]:
    return {job.name: job.id for job in seen.jobs.values() if job.state == "RUNNING"}


def test_jobs_that_nobody_touches_are_not_hurt(workload, before):
    time.sleep(5)
    assert not judge(before, workload.observe())


def test_a_job_that_is_ended_requeued_or_stopped_is_named(workload, before):
    job = ids(before)
    workload.shell(
        "ctl1", f"scancel {job['kit-wide']}; scontrol requeue {job['kit-burn']}; scancel --name=kit-wait-begin"
    )
    workload.shell("gpu02", "pkill -STOP -f '[K]IT_PROGRAM'")
    time.sleep(SILENT + 4)
    findings = judge(before, workload.observe())
    workload.shell("gpu02", "pkill -CONT -f '[K]IT_PROGRAM'")
    found = kinds(findings)
    assert found["job-ended"] == {"kit-wide", "kit-wait-begin"}, summary(findings)
    assert found["job-requeued"] == {"kit-burn"}
    assert {"kit-gpu-no-requeue", "kit-nodelist", "kit-interactive"} <= found["task-stopped"]
    assert "kit-gpu" not in found["task-stopped"]
    assert "REQUEST_KILL_JOB" in next(one for one in findings if "kit-wide" in one.where).remedy


def test_a_device_that_is_taken_away_is_named(workload, before):
    with_gpu = faults.Machine(LAB, "gpu01")
    with_gpu.run("mv /dev/nvidia0 /dev/taken")
    try:
        time.sleep(6)
        findings = judge(before, workload.observe())
    finally:
        with_gpu.run("mv /dev/taken /dev/nvidia0")
    lost = [one for one in findings if one.kind == "device-changed" and "(kit-gpu)" in one.where]
    assert [(one.machine, "nvidia0" in one.expected, "nvidia0" in one.found) for one in lost] == [
        ("gpu01", True, False)
    ]


def connects(machine: faults.Machine) -> bool:
    return "yes" in machine.run("timeout 5 bash -c '</dev/tcp/gpu01/22' 2>/dev/null && echo yes; true")


def test_every_fault_is_made_and_undone(workload):
    node, controller = faults.Machine(LAB, "gpu01"), faults.Machine(LAB, "ctl1")
    shell = workload.shell
    with faults.stopped(controller, "slurmctld"):
        assert controller.run("systemctl is-active slurmctld", check=False).strip() == "inactive"
    faults.wait_until("scontrol ping", controller)
    with faults.unreachable(node):
        assert shell("gpu01", "true").returncode == 255
    assert shell("gpu01", "true").returncode == 0
    with faults.cut_off(node):
        assert not connects(controller)
        assert node.run("ip -4 route show default")
    assert connects(controller)
    with faults.frozen(node, "slurmd"):
        assert node.run("ps -o stat= -C slurmd").strip().startswith("T")
    assert not node.run("ps -o stat= -C slurmd").strip().startswith("T")
    old = controller.run("systemctl show slurmctld --property=MainPID")
    with faults.killed_when(controller, "slurmctld", "test -e /run/kit-now", "slurmctld"):
        assert controller.run("systemctl show slurmctld --property=MainPID") == old
        controller.run("touch /run/kit-now")
        faults.wait_until("! systemctl is-active slurmctld", controller)
    controller.run("rm /run/kit-now")
    faults.wait_until("scontrol ping", controller)
    listed = "cd /etc/slurm && find . -type f -exec sha256sum {} + | sort; stat -c '%U %a' . slurm.conf"
    before = controller.run(listed)
    with faults.full_disk(controller, "/etc/slurm"):
        assert "No space left" in controller.run("dd if=/dev/zero of=/etc/slurm/more bs=64k count=1 2>&1; true")
        controller.run("rm -f /etc/slurm/more")
    assert controller.run(listed) == before
