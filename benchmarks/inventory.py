# SPDX-License-Identifier: GPL-3.0-or-later
"""What the inventory costs: CPU of the 10,000-node example beside a one-node inventory.

Every ansible command pays for the whole inventory, `--limit` to one host included.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGE = ROOT / "inventories" / "examples" / "site-10000" / "site-10000.bedplate.yml"
PLAY = "- name: Nothing\n  hosts: all\n  gather_facts: false\n  tasks: []\n"
# The plainest inventory there is, so that what the plugin costs by itself counts too.
ONE_NODE = "all: {hosts: {gpu00001: {ansible_host: 10.64.1.1}}}\n"


@dataclass(frozen=True)
class Budget:
    """A command that is run with both inventories, and how many times the CPU of one node it may take."""

    name: str
    command: tuple[str, ...]
    limit: float


BUDGETS = (
    Budget("empty play limited to one host", ("ansible-playbook", "play.yml", "--limit", "gpu00001"), 1.7),
    Budget("ansible-inventory --list", ("ansible-inventory", "--list"), 6.0),
)


def cpu_seconds(command: tuple[str, ...], inventory: Path, directory: Path) -> float:
    """Run a command and return the user and system time it took, its forks included."""
    program = Path(sys.executable).with_name(command[0])
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [str(program), *command[1:], "--inventory", str(inventory)],
        cwd=directory, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {inventory}:\n{done.stderr[-3000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(budget: Budget, runs: int, directory: Path) -> tuple[float, float]:
    """Return the median CPU seconds with one node and with the large site; the runs take turns."""
    one, large = [], []
    for _run in range(runs):
        one.append(cpu_seconds(budget.command, directory / "one.yml", directory))
        large.append(cpu_seconds(budget.command, LARGE, directory))
    return statistics.median(one), statistics.median(large)


def main(arguments: list[str] | None = None) -> int:
    """Print both ratios; the exit code says whether they are within their limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5, help="of how many runs the median is taken")
    options = parser.parse_args(arguments)
    within = True
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        directory = Path(name)
        (directory / "one.yml").write_text(ONE_NODE)
        (directory / "play.yml").write_text(PLAY)
        print("CPU seconds                         one node   10,000 nodes   ratio   limit")
        for budget in BUDGETS:
            one, large = measure(budget, options.runs, directory)
            within = within and large / one <= budget.limit
            print(f"{budget.name:34}{one:10.2f}{large:15.2f}{large / one:8.2f}{budget.limit:8.1f}")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
