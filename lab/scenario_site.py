# SPDX-License-Identifier: GPL-3.0-or-later
"""An editable copy of the cluster file of scenario `slurm`, and jobs on its cluster, for tests of changes under running jobs.

Scenario `slurm_schedmd` runs the same tests on a cluster with other packages.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab import scenario_run
from lab.paths import ROOT

# Molecule sets it for the tests of a scenario.
SCENARIO = os.environ.get("MOLECULE_SCENARIO_NAME", "slurm")
CLUSTER_PATH = ROOT / "molecule" / SCENARIO / f"{SCENARIO}.bedplate.yml"
CLUSTER_FILE = CLUSTER_PATH.read_text()
CLUSTER = yaml.safe_load(CLUSTER_FILE)
CONTROLLER = str(CLUSTER["hosts"]["ctl1"]["address"])
"""Address of the controller, 10 in its network."""
SLURMD = {"debian": "slurmd", "schedmd": "slurm-smd-slurmd"}[CLUSTER["slurm"].get("packages", "debian")]
"""The package of slurmd."""


def ssh(machine: str, command: str, user: str = "root") -> subprocess.CompletedProcess[str]:
    """Run a command on a machine of the scenario."""
    return scenario_run.ssh(SCENARIO, user, machine, command)


def play(playbook: str, cluster_file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook of the collection on the machines of the scenario."""
    return scenario_run.run(SCENARIO, ROOT / "playbooks" / playbook, cluster_file, *arguments)


class Site:
    """A copy of the cluster file that a test may edit, and the playbooks run on it."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "slurm.bedplate.yml"
        self.path.write_text(CLUSTER_FILE)

    def edit(self, old: str, new: str) -> None:
        """Replace a text of the cluster file, which must be there."""
        text = self.path.read_text()
        assert old in text, old
        self.path.write_text(text.replace(old, new))

    def run(self, *arguments: str, playbook: str = "scheduler.yml") -> subprocess.CompletedProcess[str]:
        """Run a playbook on the edited file."""
        return play(playbook, self.path, *arguments)

    def apply(self, *arguments: str) -> dict[str, dict[str, int]]:
        """Run the playbook, which must succeed, and return the counters of its recap."""
        result = self.run(*arguments)
        assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]
        return scenario_run.recap(result.stdout)


def output_of(result: subprocess.CompletedProcess[str]) -> str:
    """Return all that a run printed, in one line."""
    return " ".join((result.stdout + result.stderr).split())


def edited(host: Any, directory: Path) -> Iterator[Site]:
    """Yield a site to edit, and end the jobs afterwards; what was edited stays in force for the next test."""
    yield Site(directory)
    host.run("scancel --user=root; while squeue --noheader --all | grep -q .; do sleep 1; done")


def starts(host: Any) -> str:
    """Return when the daemons of the controller, a node and a login host were started, and their process ids."""
    show = "systemctl show {} --property=Id,MainPID,ExecMainStartTimestampMonotonic"
    others = (("gpu01", "munge slurmd"), ("login1", "munge sackd"))
    shown = [host.check_output(show.format("munge mariadb slurmdbd slurmctld slurmrestd"))]
    shown += [ssh(machine, show.format(units)).stdout for machine, units in others]
    return "\n\n".join(text.strip() for text in shown)


def start_job(host: Any, *arguments: str) -> str:
    """Start a long job; return its id once it runs."""
    out = host.check_output(
        f"sbatch --parsable --account=research --mem=50 {' '.join(arguments)} --output=/dev/null --wrap='sleep 600'"
    )
    job = str(out).strip()
    for _ in range(30):
        if job_state(host, job) == "RUNNING":
            return job
        time.sleep(1)
    raise AssertionError(f"job {job} is {job_state(host, job)}")


def job_state(host: Any, job: str) -> str:
    """Return the state of a job in words of squeue; empty after its end."""
    return str(host.run(f"squeue --noheader --jobs={job} --format=%T --all").stdout).strip()


# As many jobs have to start around a run; a fast machine ends the run before.
ARRIVALS = 11


@contextmanager
def arriving(host: Any) -> Iterator[None]:
    """Submit short jobs, one after the other: each could start in the second in which its node's line changes. All of them complete."""
    host.check_output(
        "touch /run/arriving; nohup sh -c 'while [ -e /run/arriving ]; do sbatch --account=research --mem=20 --no-requeue "
        '--job-name=arrives --output=/dev/null --wrap="sleep 2"; sleep 0.3; done; touch /run/arrived\' >/dev/null 2>&1 &'
    )
    since = host.check_output("date +%FT%T")
    try:
        yield
        _wait_for_arrivals(host, since)
    finally:
        # sbatch may take seconds where the machine is busy: the loop itself says that nothing more arrives.
        host.run("rm /run/arriving; while [ ! -e /run/arrived ]; do sleep 0.1; done; rm /run/arrived")
        host.run("scancel --state=PENDING --name=arrives")
    host.check_output("while squeue --noheader --all | grep -q arrives; do sleep 1; done")
    ran = [state for state in _arrivals(host, since) if not state.startswith("CANCELLED")]
    assert len(ran) >= ARRIVALS
    assert set(ran) == {"COMPLETED|0"}
    # Nodes that were kept free are in service again.
    assert "bedplate:edit:" not in host.check_output("sinfo --noheader --Node --format=%E")


def _arrivals(host: Any, since: str) -> list[str]:
    """Return `STATE|RESTARTS` of each job that `arriving` has submitted since then."""
    found = host.check_output(
        f"sacct --duplicates --allocations --noheader --parsable2 --name=arrives --starttime={since} --format=State,Restarts"
    )
    return list(found.splitlines())


def _wait_for_arrivals(host: Any, since: str) -> None:
    for _ in range(60):
        if sum(not state.startswith("PENDING") for state in _arrivals(host, since)) >= ARRIVALS:
            return
        time.sleep(1)
