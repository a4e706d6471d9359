# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers with one StateSaveLocation: they come up together, take over, and are refused storage of their own."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import scenario_run
from lab.paths import ROOT

SCENARIO = "slurm_two"
CLUSTER_FILE = (ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml").read_text()
CONTROLLERS = ("ctl1", "ctl2")
STATE = "/srv/slurm/state"
BOTH_UP = ["Slurmctld(primary) at ctl1 is UP", "Slurmctld(backup) at ctl2 is UP"]
FILES = "cat /etc/slurm/slurm.conf /etc/default/slurmctld /var/lib/bedplate/files.json; ls -A /etc/slurm"
# SlurmctldTimeout, and as long as a message is waited for.
TAKE_OVER = 20 + 30


def on(machine: str, command: str) -> str:
    return scenario_run.ssh(SCENARIO, "root", machine, command).stdout


def until(what: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not (held := what()) and time.monotonic() < end:
        time.sleep(1)
    return held


def run(directory: Path, old: str = "", new: str = "", *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook on the scenario's cluster file with one text replaced."""
    assert old in CLUSTER_FILE
    path = directory / f"{SCENARIO}.bedplate.yml"
    path.write_text(CLUSTER_FILE.replace(old, new) if old else CLUSTER_FILE)
    return scenario_run.run(SCENARIO, ROOT / "playbooks/scheduler.yml", path, *arguments)


def apply(directory: Path, old: str = "", new: str = "", *arguments: str) -> None:
    result = run(directory, old, new, *arguments)
    assert result.returncode == 0, result.stdout[-6000:]


def ping(machine: str) -> list[str]:
    return on(machine, "scontrol ping").splitlines()[:2]


def killwait(machine: str) -> str:
    return on(machine, "scontrol show config | sed -n 's/^KillWait *= //p'").strip()


@pytest.fixture
def job():
    """Return the id of a job that runs, which is cancelled at the end."""
    started = on("ctl1", "sbatch --parsable --mem=50 --ntasks=1 --output=/dev/null --wrap='sleep 900'").strip()
    assert until(lambda: job_state(started) == "RUNNING", 60), job_state(started)
    yield started
    on("ctl1", f"scancel {started}")


def job_state(job: str) -> str:
    return on("ctl2", f"squeue --noheader --jobs={job} --format=%T").strip()


def test_both_are_up_and_the_proof_leaves_nothing():
    assert [ping(name) for name in CONTROLLERS] == [BOTH_UP, BOTH_UP]
    assert ".bedplate" not in on("ctl1", f"ls -A {STATE}")


def test_an_edit_is_in_force_on_both_and_survives_the_primary(tmp_path: Path, job: str):
    apply(tmp_path, "SlurmctldTimeout: 20", "SlurmctldTimeout: 20\n    KillWait: 47")
    assert killwait("ctl1") == "47 sec"
    assert [on(name, "grep KillWait /etc/slurm/slurm.conf") for name in CONTROLLERS] == ["KillWait=47\n"] * 2

    on("ctl1", "systemctl kill --signal=KILL slurmctld")
    assert until(
        lambda: on("ctl2", "timeout 8 sbatch --parsable --mem=50 --output=/dev/null --wrap=true") != "", TAKE_OVER + 30
    )
    assert (killwait("ctl2"), job_state(job)) == ("47 sec", "RUNNING")

    # The dead one is started by the next run, and takes the control back before anything is read again.
    apply(tmp_path)
    assert (killwait("ctl1"), ping("ctl2"), job_state(job)) == ("30 sec", BOTH_UP, "RUNNING")


def test_what_one_refuses_reaches_neither(tmp_path: Path):
    before = [on(name, FILES) for name in CONTROLLERS]
    on("ctl2", "install -m 755 /bin/true /srv/prolog")  # the primary has none
    result = run(tmp_path, "SlurmctldTimeout: 20", "SlurmctldTimeout: 20\n    PrologSlurmctld: /srv/prolog")
    assert result.returncode != 0
    assert [on(name, FILES) for name in CONTROLLERS] == before
    assert ping("ctl1") == BOTH_UP


def fresh(state: str = "") -> None:
    """Take the controllers back to where they have packages and nothing else."""
    for name in CONTROLLERS:
        on(name, "systemctl disable --now slurmctld; rm -rf /etc/slurm/* /etc/default/slurmctld /var/lib/bedplate")
    for name in CONTROLLERS:
        on(name, f"find {STATE} -mindepth 1 -delete; {state}")


def test_a_first_start_on_storage_of_their_own_is_refused_and_on_one_directory_works(tmp_path: Path):
    # As at a site where the storage is not mounted: under the same name each has a directory of its own.
    fresh("install -d -o slurm /srv/own")
    result = run(tmp_path, STATE, "/srv/own")
    assert result.returncode != 0
    assert all(f"{name}: /srv/own" in result.stdout for name in CONTROLLERS)
    assert [on(name, "ls -A /etc/slurm /srv/own") for name in CONTROLLERS] == ["/etc/slurm:\n\n/srv/own:\n"] * 2
    assert run(tmp_path, "", "", "--limit=ctl1").returncode != 0
    assert on("ctl1", "ls -A /etc/slurm") == ""

    # A primary that takes its time: a standby which starts meanwhile, on an empty directory, blocks both.
    drop_in = "/run/systemd/system/slurmctld.service.d"
    on(
        "ctl1",
        f"mkdir -p {drop_in}; printf '[Service]\\nExecStartPre=/bin/sleep 3\\n' >{drop_in}/slow.conf; systemctl daemon-reload",
    )
    apply(tmp_path)
    on("ctl1", f"rm -r {drop_in}; systemctl daemon-reload")
    assert [ping(name) for name in CONTROLLERS] == [BOTH_UP, BOTH_UP]
