# SPDX-License-Identifier: GPL-3.0-or-later
"""Two controllers of Slurm on the machines of molecule's scenario slurm_two: runs of playbooks, pings, and jobs that end when they may."""

from __future__ import annotations

import re
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lab import scenario_run
from lab.paths import ROOT

SCENARIO = "slurm_two"
CLUSTER_FILE = (ROOT / f"molecule/{SCENARIO}/{SCENARIO}.bedplate.yml").read_text()
CONTROLLERS = ("ctl1", "ctl2")
NODE = "cpu01"
STATE = "/srv/slurm/state"
BOTH_UP = ["Slurmctld(primary) at ctl1 is UP", "Slurmctld(backup) at ctl2 is UP"]
ONLY_PRIMARY = ["Slurmctld(primary) at ctl1 is UP", "Slurmctld(backup) at ctl2 is DOWN"]
ONLY_STANDBY = ["Slurmctld(primary) at ctl1 is DOWN", "Slurmctld(backup) at ctl2 is UP"]
TIMEOUT = 20
"""SlurmctldTimeout of the scenario, in seconds."""
TAKE_OVER = TIMEOUT + 30
"""Seconds in which a standby takes jobs: SlurmctldTimeout, and as long as a message is waited for."""
MAY_END = "/run/bedplate-jobs-may-end"


def shell(machine: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a machine as root."""
    return scenario_run.ssh(SCENARIO, "root", machine, command)


def on(machine: str, command: str) -> str:
    """Return the output of a command on a machine, whether it succeeds or not."""
    return shell(machine, command).stdout


def until(what: Callable[[], bool], seconds: float) -> bool:
    """Return whether something holds within some seconds."""
    end = time.monotonic() + seconds
    while not (held := what()) and time.monotonic() < end:
        time.sleep(1)
    return held


def run(
    directory: Path, old: str = "", new: str = "", *arguments: str, playbook: str = "scheduler"
) -> subprocess.CompletedProcess[str]:
    """Run a playbook on the scenario's cluster file with one text replaced."""
    assert old in CLUSTER_FILE
    path = directory / f"{SCENARIO}.bedplate.yml"
    path.write_text(CLUSTER_FILE.replace(old, new) if old else CLUSTER_FILE)
    return scenario_run.run(SCENARIO, ROOT / f"playbooks/{playbook}.yml", path, *arguments)


def apply(directory: Path, old: str = "", new: str = "", *arguments: str, playbook: str = "scheduler") -> str:
    """Run a playbook that must succeed, and return its output."""
    result = run(directory, old, new, *arguments, playbook=playbook)
    assert result.returncode == 0, result.stdout[-6000:]
    return result.stdout


def changes(output: str) -> dict[str, int]:
    """Return the machines with changed tasks in the output of a run, and how many."""
    return {host: found["changed"] for host, found in scenario_run.recap(output).items() if found["changed"]}


def ping(machine: str) -> list[str]:
    """Return the lines of `scontrol ping` on a machine."""
    return on(machine, "scontrol ping").splitlines()[:2]


def killwait(machine: str) -> str:
    """Return KillWait as the controller in charge has it."""
    return on(machine, "scontrol show config | sed -n 's/^KillWait *= //p'").strip()


def daemon(machine: str) -> str:
    """Return systemd's state of slurmctld on a machine, and the id of its process."""
    shown = (f"systemctl show --property={name} --value slurmctld" for name in ("ActiveState", "MainPID"))
    return " ".join(on(machine, "; ".join(shown)).split())


def writer(machine: str) -> int:
    """Return the index of the controller that has written the heartbeat last, as a machine reads it."""
    # slurmctld writes the file anew, so for a moment it is short or is not there.
    read = f"od -An -v -tx1 {STATE}/heartbeat 2>/dev/null | tr -d ' \\n'"
    found = on(
        machine,
        f"for _ in 1 2 3 4 5 6; do found=$({read}); [ ${{#found}} = 32 ] && break; sleep 0.5; done; echo $found",
    )
    return int(struct.unpack(">QQ", bytes.fromhex(found))[1])


def submits(machine: str) -> str:
    """Submit a job and return its id, "" if no controller takes it within 8 s."""
    return on(
        machine, "timeout 8 sbatch --parsable --account=research --mem=8 --time=1 --output=/dev/null --wrap=true"
    ).strip()


def start_jobs(count: int) -> list[str]:
    """Submit jobs that sleep until they may end, and return their ids when all run on the node. AssertionError: they do not.

    slurmctld calls a job running before slurmd has it. A controller that dies in between requeues the job when it is back.
    """
    on(NODE, f"rm -f {MAY_END}")
    job = f"while [ ! -e {MAY_END} ]; do sleep 5; done"
    submit = f"sbatch --parsable --account=research --mem=16 --time=60 --ntasks=1 --output=/dev/null --wrap='{job}'"
    ids = on("ctl1", f"cd /tmp; for i in $(seq {count}); do {submit}; done").split()
    assert len(ids) == count
    assert until(lambda: states(ids) == ["RUNNING"] * count, 120), on("ctl1", "squeue --all; sinfo --long --Node")
    assert until(lambda: set(ids) <= launched(), 60), sorted(set(ids) - launched())
    return ids


def launched() -> set[str]:
    """Return the jobs whose script slurmd has started."""
    processes = on(NODE, "pgrep --full --list-full '^slurmstepd: .*batch' || true")
    return set(re.findall(r"\[(\d+)\.batch\]", processes))


def states(ids: list[str]) -> list[str]:
    """Return the states of jobs that wait or run."""
    return on("ctl2", f"squeue --noheader --jobs={','.join(ids)} --format=%T").split()


def end_jobs(ids: list[str]) -> list[list[str]]:
    """Let the jobs end, and return the rows of `sacct --duplicates`: id, state, exit code and restarts of each run."""
    on(NODE, f"touch {MAY_END}")
    fields = "--noheader --parsable2 --format=JobIDRaw,State,ExitCode,Restarts"
    read = f"sacct --duplicates --allocations --jobs={','.join(ids)} {fields}"

    def rows() -> list[list[str]]:
        return [line.split("|") for line in on("ctl1", read).splitlines()]

    until(lambda: len(found := rows()) >= len(ids) and all(row[1] == "COMPLETED" for row in found), 120)
    return rows()
