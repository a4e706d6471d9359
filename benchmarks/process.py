# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command and say what CPU it took; one line of what was measured beside its budget."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


class BenchmarkError(Exception):
    """Nothing was measured, and why."""


@dataclass(frozen=True)
class Cost:
    """Cost of one command on the control node: CPU seconds, all forks included, and seconds by the clock."""

    cpu: float
    wall: float
    output: str = ""


@dataclass(frozen=True)
class Row:
    """One line of the table; a line without a budget is for comparison."""

    what: str
    measured: float
    unit: str
    budget: float | None = None
    spread: str = ""

    @property
    def within(self) -> bool:
        """Return whether the budget, if any, is met."""
        return self.budget is None or self.measured <= self.budget

    def __str__(self) -> str:
        """Return the line."""
        budget = "" if self.budget is None else f"{self.budget:8.2f}  {'met' if self.within else 'MISSED'}"
        return f"{self.what:56}{self.measured:8.2f} {self.unit:12}{budget:18}{self.spread}".rstrip()


HEAD = f"{'':56}{'measured':>8} {'':12}{'budget':>8}"


def cost(program: str, arguments: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> Cost:
    """Run one of Ansible's commands, with this repository's ansible.cfg, and return what it took."""
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    variables = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    started = time.monotonic()
    log = directory / "output"
    with log.open("w") as output:
        process = subprocess.Popen(
            command, cwd=directory, env={**variables, **(environment or {})}, stdout=output, stderr=subprocess.STDOUT
        )
        # The resources of this one child and of all it has waited for; those of the benchmark's other children are not in it.
        _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall, text = time.monotonic() - started, log.read_text(errors="replace")
    if process.returncode:
        raise BenchmarkError(f"{program} {' '.join(arguments)} failed:\n{text[-3000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, text)


def median(costs: Sequence[Cost]) -> float:
    """Return the median CPU seconds."""
    return statistics.median(one.cpu for one in costs)


def spread(costs: Sequence[Cost]) -> str:
    """Return the least and the most CPU seconds."""
    return f"{min(one.cpu for one in costs):.2f}-{max(one.cpu for one in costs):.2f}"
