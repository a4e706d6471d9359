# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a roll on the machines of a scenario, act at points of it, and compare its report with Slurm."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL, read
from lab import scenario_run
from lab.paths import ROOT

TIMEOUT = 2400


@dataclass
class Roll:
    """A run of roll.yml, or of another playbook; `at` has patterns of its output, and what happens at the first line that fits each."""

    scenario: str
    cluster_file: Path
    arguments: tuple[str, ...] = ()
    at: list[tuple[str, Callable[[], None]]] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    playbook: str = "roll.yml"

    def run(self) -> int:
        """Run it to its end, and return its exit status."""
        command = scenario_run.command(
            self.scenario, ROOT / "playbooks" / self.playbook, self.cluster_file, *self.arguments
        )
        environment = scenario_run.environment(self.scenario)
        with subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            self._process = process
            watchdog = threading.Timer(TIMEOUT, self.kill)
            watchdog.start()
            assert process.stdout
            for line in process.stdout:
                self.output.append(line)
                while self.at and re.search(self.at[0][0], line):
                    self.at.pop(0)[1]()
            watchdog.cancel()
        assert not self.at, f"never printed: {[pattern for pattern, _ in self.at]}\n{self.text[-6000:]}"
        return process.returncode

    def kill(self) -> None:
        """Kill the run and its workers, as an out-of-memory killer or a closed laptop does."""
        os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def text(self) -> str:
        """Return the output."""
        return "".join(self.output)

    @property
    def report(self) -> dict[str, Any]:
        """Return report.json."""
        path = scenario_run.report_of(self.scenario) / "report.json"
        return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def ssh(scenario: str, machine: str, command: str) -> str:
    """Run a command as root on a machine of a scenario; return what it prints."""
    done = scenario_run.ssh(scenario, "root", machine, command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def states_of(scenario: str) -> dict[str, str]:
    """Return node -> its state and its reason, as Slurm prints them."""
    lines = ssh(scenario, "ctl1", "sinfo --noheader --Node --format='%N %t %E'").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def disagreements(report: Mapping[str, Any], slurm: Mapping[str, str], nodes: list[str]) -> list[str]:
    """Return where a report and Slurm differ; `slurm` is node -> state and reason, as `sinfo --format=%t %E` prints them."""
    found = []
    for name in nodes:
        state, _, reason = slurm[name].partition(" ")
        is_out = state.rstrip("*~#!%$@^-+") in ("drain", "drng", "down", "boot", "fail")
        node = report["nodes"].get(name, {"outcome": "ok", "drained": False, "why": ""})
        own = read(reason)
        if node["drained"] != (is_out and own is not None and own.is_of(ROLL, report["run"])):
            found.append(f"{name}: drained by the roll: {node['drained']}; Slurm: {state} {reason}")
        if node["outcome"] in ("ok", "changed") and is_out:
            found.append(f"{name}: {node['outcome']}; Slurm: {state} {reason}")
        if node["outcome"] == "left" and not is_out:
            found.append(f"{name}: left ({node['why']}); Slurm: {state} {reason}")
        if node["outcome"] in ("failed", "unreachable") and node["drained"] and node["outcome"] not in reason:
            found.append(f"{name}: {node['outcome']}, and its reason does not say so: {reason}")
    return found
