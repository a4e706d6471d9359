# SPDX-License-Identifier: GPL-3.0-or-later
"""Cost of a compute node without a change: CPU of the control node, and tasks, measured in the lab.

The lab (`make lab`) must be up and deployed. Connections are warm: a run before the measured ones opens them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.process import HEAD, ROOT, BenchmarkError, Cost, Row, cost, median, spread

INVENTORY = ROOT / "inventories" / "lab"
SSH_CONFIG = ROOT / ".cache" / "lab" / "lab" / "ssh_config"
PLAYBOOKS = tuple(str(ROOT / "playbooks" / name) for name in ("os.yml", "scheduler.yml"))
GPU = (str(ROOT / "playbooks" / "gpu.yml"),)
EMPTY = "- name: Nothing\n  hosts: compute_nodes\n  gather_facts: false\n  tasks: []\n"
# Half of what the best open Slurm role costs: 27 pings a node, and 1.3 CPU-s where these budgets were set.
TASKS, CPU, PINGS = 12, 0.65, 13.5
# Driver, CUDA, DCGM and containers together cost no more than the rest of the node.
GPU_TASKS, GPU_PINGS = 12, 13.5
PINGED = 10
_PING = "    - {name: Ping, ansible.builtin.ping: }\n"
# What the first task of a run costs above the others, such as loading filters, is in both.
PINGS_OF = {
    name: "- name: Pings\n  hosts: compute_nodes\n  gather_facts: false\n  tasks:\n" + _PING * count
    for name, count in (("one_ping.yml", 1), ("pings.yml", 1 + PINGED))
}
_RECAP = re.compile(r"^(\S+)\s+: ok=(\d+)\s+changed=(\d+)\s+unreachable=\d+\s+failed=\d+\s+skipped=(\d+)", re.MULTILINE)


def results_of(output: str) -> dict[str, int]:
    """Return how many results each host has in a recap; a change makes the measurement invalid.

    >>> results_of("gpu01   : ok=7    changed=0    unreachable=0    failed=0    skipped=3    rescued=0    ignored=0")
    {'gpu01': 10}
    """
    recap = _RECAP.findall(output)
    if changed := sorted(host for host, _ok, changes, _skipped in recap if int(changes)):
        raise BenchmarkError(f"a file changed on {', '.join(changed)}: deploy the lab with `make lab`, then measure.")
    return {host: int(ok) + int(skipped) for host, ok, _changes, skipped in recap}


def _turns(directory: Path, hosts: str, runs: int, kinds: Sequence[Sequence[str]]) -> list[list[Cost]]:
    """Run each kind of playbooks in turns, for the machine's speed changes; return the costs of each kind."""
    common = ["--inventory", str(INVENTORY), "--limit", hosts]
    turns = [[cost("ansible-playbook", [*kind, *common], directory) for kind in kinds] for _run in range(runs)]
    return [list(column) for column in zip(*turns, strict=True)]


def rows(runs: int = 5) -> Iterator[Row]:
    """Measure compute nodes, without the lab's controller."""
    if not SSH_CONFIG.exists():
        raise BenchmarkError("there is no lab: `make lab` boots and deploys it (docs/lab.md).")
    with tempfile.TemporaryDirectory(prefix="bedplate-benchmark-") as name:
        directory = Path(name)
        (directory / "empty.yml").write_text(EMPTY)
        for playbook, text in PINGS_OF.items():
            (directory / playbook).write_text(text)
        empty_play = ("empty.yml",)
        try:
            _turns(directory, "compute_nodes", 1, (PLAYBOOKS,))
        except BenchmarkError as error:
            raise BenchmarkError(f"is the lab up and deployed? `make lab` does both.\n{error}") from None
        kinds = (PLAYBOOKS, empty_play, GPU, *((one,) for one in PINGS_OF))
        full, empty, gpu, few, many = _turns(directory, "compute_nodes", runs, kinds)
        results = results_of(full[-1].output)
        nodes = sorted(results)
        one, empty_one = _turns(directory, nodes[0], runs, (PLAYBOOKS, empty_play))
    total, single = median(full) - median(empty), median(one) - median(empty_one)
    yield Row("task results on a compute node, no change", max(results.values()), "tasks", TASKS)
    yield Row(
        f"controller CPU per compute node, of {len(nodes)}, no change", total / len(nodes), "CPU-s", CPU,
        f"runs {spread(full)}, empty {spread(empty)}",
    )  # fmt: skip
    ping = (median(many) - median(few)) / len(nodes) / PINGED
    yield Row(f"  in pings, of {ping:.3f} CPU-s each in this run", total / len(nodes) / ping, "pings", PINGS)
    if len(nodes) > 1:
        more = (total - single) / (len(nodes) - 1)
        yield Row("  of it each further node", more, "CPU-s")
        yield Row("  of it once a run: roles, modules put together", single - more, "CPU-s a run")
    software = (median(gpu) - median(empty)) / len(nodes)
    of_gpu = max(results_of(gpu[-1].output)[node] for node in nodes)
    yield Row("task results of the GPU software on a node, no change", of_gpu, "tasks", GPU_TASKS)
    yield Row("controller CPU of the GPU software per node, no change", software, "CPU-s", None, f"runs {spread(gpu)}")
    yield Row("  in pings", software / ping, "pings", GPU_PINGS)


def main(arguments: list[str] | None = None) -> int:
    """Print tasks and CPU; the exit code says whether they are within their budgets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5, help="of how many runs the median is taken")
    options = parser.parse_args(arguments)
    try:
        found = list(rows(options.runs))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 2
    print(HEAD, *found, sep="\n")
    return 0 if all(row.within for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
