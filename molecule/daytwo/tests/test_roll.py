# SPDX-License-Identifier: GPL-3.0-or-later
"""A roll under jobs: each job ends once with its own exit code, a person's drain stays, and a second roll drains nobody."""

from __future__ import annotations

import re
import subprocess
import time

import pytest

from lab import scenario_run
from lab.paths import ROOT, ssh_config_of
from tests.kit.reboots import SwitchOn, Watch

SCENARIO = "daytwo"
CLUSTER_PATH = ROOT / "molecule/daytwo/daytwo.bedplate.yml"
NODES = ["gpu01", "gpu02", "gpu03", "gpu04"]
NOTE = "/run/bedplate/reboot-wanted/node_tuning"
JOBS = 40


def ssh(machine: str, command: str) -> str:
    done = scenario_run.ssh(SCENARIO, "root", machine, command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def roll(*arguments: str) -> subprocess.CompletedProcess[str]:
    return scenario_run.run(SCENARIO, ROOT / "playbooks/roll.yml", CLUSTER_PATH, *arguments)


def states() -> dict[str, str]:
    """Return node -> its state and its reason."""
    return dict(line.split(" ", 1) for line in ssh("ctl1", "sinfo --noheader --Node --format='%N %t %E'").splitlines())


def submit(count: int) -> dict[str, str]:
    """Submit jobs of 5 to 30 s; return id -> the exit code that each ends with."""
    script = " ".join(
        f"sbatch --parsable --account=research --output=/dev/null --mem=50 --wrap='sleep {5 + number * 7 % 26}; exit {number % 7}';"
        for number in range(count)
    )
    ids = ssh("ctl1", script).split()
    assert len(ids) == count
    return {job: f"{number % 7}:0" for number, job in enumerate(ids)}


def ended(jobs: dict[str, str]) -> dict[str, str]:
    """Wait until no job is left; return id -> exit code. A job that ran twice has two rows."""
    for _ in range(120):
        if not ssh("ctl1", "squeue --noheader --all").strip():
            break
        time.sleep(2)
    time.sleep(3)
    rows = ssh(
        "ctl1", "sacct -D --allocations --noheader --parsable2 --format=JobIDRaw,ExitCode,Restarts,State"
    ).split()
    found = [row.split("|") for row in rows if row.split("|")[0] in jobs]
    assert sorted(row[0] for row in found) == sorted(jobs)
    assert {row[2] for row in found} == {"0"}
    return {row[0]: row[1] for row in found}


@pytest.fixture
def wanted() -> None:
    """Let a role want a reboot on every node."""
    for node in NODES:
        ssh(node, f"mkdir -p {NOTE.rpartition('/')[0]}; echo 'the running kernel lacks iommu=pt' > {NOTE}")


def test_a_preview_changes_nothing(wanted: None):
    before = states()
    done = roll("--check")
    assert done.returncode == 0, done.stdout[-6000:]
    assert "batch 1, canaries: gpu01: kernel and hardware, reboot" in re.sub(r"\s+", " ", done.stdout)
    assert states() == before


def test_a_roll_under_jobs(wanted: None):
    jobs = submit(JOBS)
    command = ["ssh", "-F", str(ssh_config_of(f"molecule-{SCENARIO}")), "-l", "root", "ctl1"]
    with SwitchOn(SCENARIO) as machines, Watch(command) as watch:
        done = roll("-e", "roll_percent=50", "-e", "roll_patience=10")
    print(done.stdout[-8000:])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert sorted(machines.started) == NODES
    assert watch.most <= 2
    assert ended(jobs) == jobs
    assert set(states().values()) == {"idle none"}
