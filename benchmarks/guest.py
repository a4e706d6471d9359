# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of a converged node with kernel, hardware and RDMA: CPU of the control node, and tasks, with a machine that has a kernel.

`python -m lab guest start` boots it. The first run brings its settings; those that are measured change nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.process import ROOT, BenchmarkError, Cost, Row, cost, median, spread
from benchmarks.roles import EMPTY, PINGED, PINGS_OF, results_of
from lab.guest.machine import Guest, environment

CLUSTER_FILE = Path(__file__).with_name("guest.bedplate.yml")
PLAYBOOKS = tuple(str(ROOT / "playbooks" / name) for name in ("tuning.yml", "rdma.yml"))
TASKS = 12


def rows(runs: int = 3) -> Iterator[Row]:
    """Measure the two roles, and their verify, on one machine."""
    guest = Guest()
    if not guest.is_running:
        raise BenchmarkError("there is no guest: `python -m lab guest start` boots one (docs/lab.md).")
    common = ["--inventory", str(CLUSTER_FILE), "--limit", "node1", "--user", "root"]
    # The guest has no archive to install from.
    common.append('--extra-vars={"rdma_stack": "keep"}')
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        directory = Path(name)
        (directory / "empty.yml").write_text(EMPTY)
        for playbook, text in PINGS_OF.items():
            (directory / playbook).write_text(text)

        def run(*playbooks: str) -> Cost:
            return cost("ansible-playbook", [*playbooks, *common], directory, environment(guest))

        run(*PLAYBOOKS)
        turns = [(run(*PLAYBOOKS), run("empty.yml"), *(run(one) for one in PINGS_OF)) for _turn in range(runs)]
    full, empty, few, many = zip(*turns, strict=True)
    ping = (median(many) - median(few)) / PINGED
    cpu = median(full) - median(empty)
    yield Row("task results of node_tuning and rdma, no change", results_of(full[-1].output)["node1"], "tasks", TASKS)
    yield Row("controller CPU of both, no change, once a run with it", cpu, "CPU-s", None, f"runs {spread(full)}")
    yield Row(f"  in pings, of {ping:.3f} CPU-s each in this run", cpu / ping, "pings")
