# SPDX-License-Identifier: GPL-3.0-or-later
"""Query a running Slurm and compare its state with the cluster file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...common.command import Outcome, run_together
from ...common.finding import Finding
from . import live_options
from . import live_state as state
from .slurmctld_report import pairs_of

SLURM = state.SLURM
# Kind of the finding on a controller where Slurm does not answer.
SILENT = "slurm-silent"
_SECONDS = 30.0
_QUESTIONS = (
    ("scontrol", "show", "config"),
    ("sinfo", "--noheader", "--all", "--Node", f"--format={state.NODE_FORMAT}"),
    ("scontrol", "--all", "--oneliner", "show", "partition"),
    ("scontrol", "--all", "--oneliner", "show", "node"),
    ("scontrol", "show", "topology"),
)

Ask = Callable[[Sequence[Sequence[str]]], "list[Outcome]"]


def query(questions: Sequence[Sequence[str]]) -> list[Outcome]:
    """Run Slurm commands in parallel, each for at most 30 s."""
    for name in [name for name in os.environ if name.startswith(("SINFO_", "SLURM_")) and name != "SLURM_CONF"]:
        del os.environ[name]  # a user's settings, such as SLURM_CLUSTERS, would change the answer
    return run_together(questions, _SECONDS)


def findings(_root: str, expected: Mapping[str, Any], ask: Ask = query) -> Iterator[Finding]:
    """Yield every difference. `expected` is that of plugin_utils/verify/slurm_expected.py.

    After a restart, nodes need a moment to register: while one may still do so, the queries are repeated, for at most `wait` seconds.
    """
    deadline = time.monotonic() + expected["wait"]
    found = list(_once(expected, ask))
    while any(map(_may_pass, found)) and time.monotonic() < deadline:
        time.sleep(1)
        found = list(_once(expected, ask))
    yield from found


def _may_pass(one: Finding) -> bool:
    """Return whether a difference may disappear in a moment: a node that has not registered yet, or a slurmctld that starts."""
    state = one.found.partition(" ")[0]
    return (one.kind == SILENT and "No such file" not in one.found) or (
        one.kind == "node-state" and (state.startswith("unk") or (state.endswith("*") and not state.startswith("down")))
    )


def _once(expected: Mapping[str, Any], ask: Ask) -> Iterable[Finding]:
    # Topologies of single partitions, beside that of all others.
    questions = [*_QUESTIONS, *(("scontrol", "show", "topology", name) for name in expected.get("topologies", ()))]
    outcomes = ask(questions)
    for question, outcome in zip(questions, outcomes):
        if outcome.code != 0 and (question[-1] != "topology" or expected["topology"]):
            remedy = "`systemctl status slurmctld munge` and `journalctl -u slurmctld` on the controllers"
            text = f"{' '.join(question[:3])}: {outcome.error_line}"
            return [Finding(SILENT, "slurmctld", "an answer", text, remedy)]
    return compare(expected, *(outcome.stdout for outcome in outcomes))


def compare(
    expected: Mapping[str, Any], config: str, sinfo: str, partitions: str, nodes: str, topology: str, *others: str
) -> Iterator[Finding]:
    """Compare the answers to all queries; `others` are those about the topologies of single partitions."""
    options = state.parse_config(config)
    yield from state.compare_config(expected["version"], options)
    yield from live_options.compare_options(expected["options"], options)
    live, unread = state.parse_nodes(sinfo)
    yield from state.unread_findings(unread)
    yield from state.compare_nodes(expected["nodes"], live, options)
    yield from live_options.compare_node_options(expected["features"], _records(nodes, "NodeName"))
    records = _records(partitions, "PartitionName")
    hidden = [name for name, pairs in records.items() if pairs.get("Hidden") == "YES"]
    yield from state.compare_maps("partition", expected["partitions"], state.parse_partitions(partitions), hidden)
    yield from live_options.compare_partitions(expected["partition_options"], records)
    if expected["topology"]:
        yield from state.compare_maps("switch", expected["topology"], state.parse_topology(topology))
    for wanted, text in zip(expected.get("topologies", {}).values(), others):
        yield from state.compare_maps("switch", wanted, state.parse_topology(text))


def _records(text: str, key: str) -> dict[str, dict[str, str]]:
    """Return the records of `scontrol --oneliner` by name."""
    found = (pairs_of(line) for line in text.splitlines())
    return {pairs[key]: pairs for pairs in found if key in pairs}
