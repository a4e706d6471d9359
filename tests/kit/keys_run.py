# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of the cluster file made by the real role on a real cluster with jobs, and what became of the jobs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from lab import scenario_run
from tests.kit import ROOT
from tests.kit.edits import Edit, bisect, edited
from tests.kit.judge import Observation, judge, summary
from tests.kit.workload import Shell, Workload

SCRIPT = "/usr/local/libexec/kit-script"
SETTLE = 4
"""Seconds after a run: nodes register again, and what slurmctld then finds wrong in them it does to their jobs."""
_MACHINES = ("ctl1", "login1", "gpu01", "gpu02")
_MAKE_SCRIPT = (
    f"mkdir -p /usr/local/libexec && printf '#!/bin/sh\\nexit 0\\n' >{SCRIPT} && chmod 755 {SCRIPT}"
    " && install -d -o slurm -g slurm /var/log/slurm"
)


def shell_of(scenario: str) -> Shell:
    """Return a shell on a scenario's machines; a command that hangs has ended with 124."""

    def run(machine: str, command: str) -> subprocess.CompletedProcess[str]:
        try:
            return scenario_run.ssh(scenario, "root", machine, command)
        except subprocess.TimeoutExpired as error:
            return subprocess.CompletedProcess(command, 124, str(error.stdout or ""), f"no end after {error.timeout} s")

    return run


@dataclass
class Outcome:
    """What a run did: its status and output, how long it took, what was done to the jobs."""

    rc: int
    output: str
    seconds: float
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        tail = "" if self.rc == 0 else f"\n{self.output[-3000:]}"
        return f"rc {self.rc} after {self.seconds:.0f} s{tail}\n{summary(self.findings)}"


class Bench:
    """A cluster with a workload on which edits are tried; the base is a cluster file of at least 16 cores on two nodes."""

    def __init__(self, scenario: str, base: dict[str, Any], directory: Path) -> None:
        self.scenario = scenario
        self.base = base
        self.path = directory / f"{scenario}.bedplate.yml"
        self.shell = shell_of(scenario)
        self.workload = Workload(self.shell, "ctl1", ["gpu01", "gpu02"])
        self.before: Observation | None = None
        self.runs = 0
        self.words = self._words()

    def _words(self) -> dict[str, str]:
        network = str(self.base["networks"]["management"]["cidr"]).rpartition(".")[0]
        version = self.shell("gpu01", "stat -f -c %T /sys/fs/cgroup").stdout.strip()
        return {
            "script": SCRIPT,
            "cgroup": "cgroup/v2" if version == "cgroup2fs" else "cgroup/v1",
            "free": f"{network}.254",
            "login2": f"{network}.8",
            "gpu01": f"{network}.11",
        }

    def prepare(self) -> None:
        """Make what values name on all machines."""
        for machine in _MACHINES:
            done = self.shell(
                machine, _MAKE_SCRIPT if machine in ("ctl1", "gpu01", "gpu02") else _MAKE_SCRIPT.split(" && install")[0]
            )
            assert done.returncode == 0, f"{machine}: {done.stderr}"

    def run(self, batch: Sequence[Edit] = (), *arguments: str) -> Outcome:
        """Bring the base with a batch's values into force, and judge the jobs."""
        self.path.write_text(yaml.safe_dump(edited(self.base, batch, self.words), sort_keys=False))
        started = time.monotonic()
        done = scenario_run.run(self.scenario, ROOT / "playbooks" / "scheduler.yml", self.path, *arguments)
        self.runs += 1
        outcome = Outcome(done.returncode, done.stdout + done.stderr, time.monotonic() - started)
        time.sleep(SETTLE)
        if self.before is not None:
            outcome.findings = judge(self.before, self.workload.observe())
        return outcome

    def reset(self) -> None:
        """Bring the base into force without any job, undo what a hurt node or partition keeps, and start the workload."""
        self.before = None
        self.workload.stop()
        outcome = self.run()
        assert outcome.rc == 0, outcome.output[-4000:]
        self.resume()
        self.before = self.workload.start()

    def resume(self) -> str:
        """Put nodes that Slurm has taken out of service back; return what it said of them before."""
        said = self.shell("ctl1", "sinfo --Node --noheader --format='%N %T %P %E'; scontrol show partition --oneliner")
        self.shell("ctl1", "for n in gpu01 gpu02; do scontrol update NodeName=$n State=RESUME 2>/dev/null; done; true")
        return said.stdout

    def ready(self) -> None:
        """Have the workload run on the base or on an earlier batch; start over where a job was hurt.

        The next batch's run takes the values of the one before back: half as many runs, and each value also leaves under jobs.
        """
        if self.before is None or judge(self.before, self.workload.observe()):
            self.reset()

    def hurts(self, batch: Sequence[Edit]) -> bool:
        """Return whether a batch is not as expected, on a fresh workload."""
        self.reset()
        return bool(problems(batch, self.run(batch)))

    def guilty(self, batch: Sequence[Edit]) -> list[list[Edit]]:
        """Return the edits of a batch that hurt by themselves."""
        return bisect(batch, self.hurts)


def problems(batch: Sequence[Edit], outcome: Outcome) -> list[str]:
    """Return what is not as the table says: a job was hurt, a run failed, a refusal or a line that waits was not named."""
    found = [f"{one.kind}: {one}" for one in outcome.findings]
    text = " ".join(outcome.output.split())
    refused = [edit for edit in batch if edit.refused]
    if bool(refused) != (outcome.rc != 0):
        found.append(f"expected {'a refusal' if refused else 'no refusal'}, found {outcome}")
    found += [
        f"{edit}: the refusal does not say {edit.refused!r}: {outcome}" for edit in refused if edit.refused not in text
    ]
    waiting = [edit for edit in batch if edit.waits and edit.waits not in text]
    return found + [f"{edit}: the output does not say what waits ({edit.waits!r}): {outcome}" for edit in waiting]
