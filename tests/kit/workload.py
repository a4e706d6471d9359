# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of every kind on a real cluster, which run until somebody ends them; tests.kit.judge says what became of them.

workload = Workload(shell, controller="ctl1", nodes=["gpu01", "gpu02"])
before = workload.start()
...change the cluster...
assert not judge(before, workload.observe())
workload.stop()
"""

from __future__ import annotations

import base64
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.kit.judge import Observation, observe

PATIENCE = 90
"""Seconds until all jobs run: a node may take a while to answer, and slurmctld starts a few jobs at a time."""
PREFIX = "kit-"
"""How the names of the workload's jobs begin."""


class Shell(Protocol):
    """Run a command on a machine as root, in a connection of its own."""

    def __call__(self, machine: str, command: str) -> subprocess.CompletedProcess[str]: ...


@dataclass(frozen=True)
class Kind:
    """One kind of job: the options of sbatch, the command that runs the program, how many of its jobs run and wait.

    `options` and `launch` may name {first} and {last}, a node each.
    """

    name: str
    options: str = ""
    launch: str = "exec {program}"
    running: int = 1
    waiting: int = 0


KINDS = (
    Kind("gpu", "--nodelist={first} --gres=gpu:1"),
    Kind("gpu-no-requeue", "--nodelist={last} --gres=gpu:1 --no-requeue"),
    Kind("sleep"),
    Kind("burn", launch="exec {program} burn"),
    Kind("wide", "--nodes=2 --ntasks-per-node=2", launch="srun {program}"),
    Kind("array", "--array=0-1", running=2),
    Kind("throttled", "--array=0-3%1", waiting=1),
    Kind("no-requeue", "--no-requeue"),
    Kind("nodelist", "--nodelist={last} --cpus-per-task=2"),
    Kind("checkpoint", "--requeue --signal=B:TERM@60"),
    # The backfill scheduler alone starts these, every bf_interval seconds, and what was submitted later waits behind them.
    Kind("het", "--nodelist={first} : --nodelist={last}", launch="srun --het-group=0,1 {program}", running=2),
    Kind("wait-node", "--nodelist={first} --gres=gpu:2", running=0, waiting=1),
    Kind("wait-begin", "--nodelist={last} --begin=now+3hours", running=0, waiting=1),
    Kind("wait-held", "--hold", running=0, waiting=1),
)
INTERACTIVE = "interactive"
"""Name of the job that srun starts from a terminal: it ends with its srun."""
CORES = 16
"""Cores that the jobs use, on two nodes together."""
MEMORY_MIB = 64
"""What each task may use."""


class Workload:
    """The jobs of one cluster."""

    def __init__(
        self,
        shell: Shell,
        controller: str,
        nodes: Sequence[str],
        account: str = "research",
        kinds: Sequence[Kind] = KINDS,
    ) -> None:
        self.shell = shell
        self.controller = controller
        self.nodes = list(nodes)
        self.account = account
        self.kinds = list(kinds)

    def start(self) -> Observation:
        """Submit all jobs and wait until those that can run do; raise AssertionError with what waits after PATIENCE."""
        for node in self.nodes:
            self._run(node, "rm -rf /run/bedplate-kit")
        self._run(self.controller, self._script())
        deadline = time.monotonic() + PATIENCE
        while True:
            now = self.observe()
            missing = self._missing(now)
            if not missing:
                return now
            if time.monotonic() > deadline:
                queue = self.shell(self.controller, "squeue --all; sinfo --long --Node").stdout
                raise AssertionError(f"the workload is not up after {PATIENCE} s: {'; '.join(missing)}\n{queue}")
            time.sleep(1)

    def observe(self) -> Observation:
        """Return what is to be seen of the workload's jobs now."""
        return observe(self.shell, self.controller, self.nodes)

    def stop(self) -> None:
        """Cancel every job of root and wait until none is left."""
        queue = "squeue --noheader --all --user=root"
        wait = f"for i in $(seq 60); do {queue} | grep -q . || exit 0; sleep 1; done; {queue}; exit 1"
        # A job whose node does not answer would be "completing" for minutes: it is none that a test waits for.
        self._run(self.controller, f"scancel --user=root; {wait}")

    def _run(self, machine: str, command: str) -> str:
        done = self.shell(machine, command)
        assert done.returncode == 0, f"{machine}: {command[:200]}: {done.stdout}{done.stderr}"
        return done.stdout

    def _missing(self, now: Observation) -> list[str]:
        """Return the kinds whose jobs do not all run or wait as they should."""
        wanted = {PREFIX + kind.name: (kind.running, kind.waiting) for kind in self.kinds}
        wanted[PREFIX + INTERACTIVE] = (1, 0)
        problems = []
        for name, (running, waiting) in wanted.items():
            jobs = [job for job in now.jobs.values() if job.name == name]
            there = sum(job.state == "RUNNING" and job.id in now.probed for job in jobs)
            pending = sum(job.state == "PENDING" for job in jobs)
            if name == PREFIX + "het":  # its one step writes under the id of the first component
                there = sum(job.state == "RUNNING" for job in jobs)
            if (there, pending) != (running, waiting):
                problems.append(f"{name}: {there} run and {pending} wait, not {running} and {waiting}")
        return problems

    def _script(self) -> str:
        """Return the shell script that submits everything."""
        source = base64.b64encode((Path(__file__).parent / "job.py").read_bytes()).decode()
        program = "python3 -c 'import base64, os; exec(base64.b64decode(os.environ[\"KIT_PROGRAM\"]))'"
        common = f"--account={self.account} --mem={MEMORY_MIB} --time=12:00:00 --chdir=/tmp"
        names = {"first": self.nodes[0], "last": self.nodes[-1]}
        lines = ["set -e", f"export KIT_PROGRAM={source}"]
        for kind in self.kinds:
            parts = [f"{common} {part}" for part in kind.options.format(**names).split(" : ")]
            wrap = shlex.quote("#!/bin/bash\n" + kind.launch.format(program=program))
            options = f"--parsable --job-name={PREFIX}{kind.name} --output=/dev/null {' : '.join(parts)}"
            lines.append(f"printf %s {wrap} | sbatch {options}")
        lines.append(
            f"setsid nohup srun --job-name={PREFIX}{INTERACTIVE} {common} {program} >/run/bedplate-kit-srun 2>&1 </dev/null &"
        )
        return "\n".join(lines)
