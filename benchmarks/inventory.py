# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of the inventory: CPU of the 10,000-node example beside a one-node inventory.

Every ansible command pays for the whole inventory, `--limit` to one host included.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import HEAD, ROOT, Row, cost, median, spread

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


def rows(runs: int = 5) -> Iterator[Row]:
    """Measure both commands; the runs with one node and with ten thousand take turns."""
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        directory = Path(name)
        one = directory / "one.yml"
        one.write_text(ONE_NODE)
        (directory / "play.yml").write_text(PLAY)
        for budget in BUDGETS:
            program, *arguments = budget.command
            pairs = [
                [cost(program, [*arguments, "--inventory", str(inventory)], directory) for inventory in (one, LARGE)]
                for _run in range(runs)
            ]
            small, large = (list(column) for column in zip(*pairs, strict=True))
            yield Row(f"{budget.name}, 1 node", median(small), "CPU-s", spread=spread(small))
            yield Row(f"{budget.name}, 10,000 nodes", median(large), "CPU-s", spread=spread(large))
            yield Row(f"{budget.name}, ratio", median(large) / median(small), "times", budget.limit)


def main(arguments: list[str] | None = None) -> int:
    """Print both ratios; the exit code says whether they are within their limits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5, help="of how many runs the median is taken")
    options = parser.parse_args(arguments)
    print(HEAD)
    within = True
    for row in rows(options.runs):
        print(row, flush=True)
        within = within and row.within
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
