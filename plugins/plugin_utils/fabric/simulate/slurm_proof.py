# SPDX-License-Identifier: GPL-3.0-or-later
"""The proof of Slurm's topology: a real slurmctld takes it, and shows the tree that is planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.live_state import parse_topology

from ..topology.slurm_topology import BLOCK, release

FILE = "topology.conf"
_FIRST_PORT = 7001

# Switch -> level, nodes below and switches directly below, as hostlists.
Shown = Mapping[str, Sequence[object]]


def slurm_conf(nodes: Iterable[str], options: Mapping[str, str]) -> str:
    """Return a slurm.conf of nodes for a slurmctld that only reads: all have the address of this host."""
    listed = list(nodes)
    lines = ["ClusterName=fabric", "SlurmctldHost=localhost", "SelectType=select/cons_tres"]
    lines += [f"{name}={value}" for name, value in options.items()]
    ports = f"{_FIRST_PORT}-{_FIRST_PORT + len(listed) - 1}"
    lines.append(f"NodeName={fold(listed, False)} NodeAddr=127.0.0.1 Port=[{ports}] CPUs=1 State=UNKNOWN")
    return "\n".join([*lines, "PartitionName=all Nodes=ALL Default=YES", ""])


def prove_topology(text: str, shown: Shown, options: Mapping[str, str], seconds: float = 60) -> list[Finding]:
    """Return the problems of a topology.conf; `shown` is the expected `scontrol show topology` (slurm_topology.shown)."""
    planned = {str(name): (_number(level), _set(nodes), _set(below)) for name, (level, nodes, below) in shown.items()}
    nodes = sorted(set().union(*(one[1] for one in planned.values())))
    result = config_trial.run({"slurm.conf": slurm_conf(nodes, options), FILE: text}, deadline=seconds)
    if not result.tested:
        return [_not_installed(result.message)]
    if not result.accepted:
        return [Finding("slurm", FILE, "", result.message)]
    found = {
        name: (_number(one["level"]), _set(one["nodes"]), _set(one["switches"]))
        for name, one in parse_topology("\n".join(result.topology)).items()
    }
    wrong = [Finding("slurm", FILE, "", text) for text in result.errors]
    return wrong + [
        Finding("slurm", f"{FILE}, switch {name}", "", _switch_difference(planned.get(name), found.get(name)))
        for name in sorted(planned.keys() | found.keys())
        if planned.get(name) != found.get(name)
    ]


def prove_blocks(
    text: str, shown: Mapping[str, str], options: Mapping[str, str], seconds: float = 60
) -> tuple[list[Finding], str]:
    """Return the problems of a topology.conf of blocks, and a word on the proof; `shown` is block -> hostlist of its nodes.

    A slurmctld of this host that knows no blocks says nothing of those that are for a newer one: that is no finding.
    """
    planned = {name: _set(nodes) for name, nodes in shown.items()}
    nodes = sorted(set().union(*planned.values()))
    result = config_trial.run({"slurm.conf": slurm_conf(nodes, options), FILE: text}, deadline=seconds)
    if not result.tested:
        return [_not_installed(result.message)], ""
    if result.version and release(result.version) < BLOCK:
        return [], f"blocks of NVLink domains not proved: slurmctld {result.version} of this host knows none"
    if not result.accepted:
        return [Finding("slurm", FILE, "", result.message)], ""
    found = {name: _set(one["nodes"]) for name, one in parse_topology("\n".join(result.topology)).items()}
    wrong = [Finding("slurm", FILE, "", said) for said in result.errors]
    for name in sorted(planned.keys() | found.keys()):
        wanted, there = planned.get(name), found.get(name)
        if wanted != there:
            expected, shows = (f"the nodes {few([fold(one)])}" if one else "no such block" for one in (wanted, there))
            wrong.append(Finding("slurm", f"{FILE}, block {name}", expected, f"{shows} in slurmctld"))
    return wrong, "slurmctld takes the blocks"


def _not_installed(message: str) -> Finding:
    return Finding("tools", "this host", "", message, "apt-get install slurmctld slurm-client")


def _switch_difference(
    planned: tuple[int, set[str], set[str]] | None, found: tuple[int, set[str], set[str]] | None
) -> str:
    if planned is None or found is None:
        return "slurmctld does not show it" if found is None else "slurmctld shows it, and the plan does not have it"
    told = []
    for what, wanted, there in (("nodes", planned[1], found[1]), ("switches", planned[2], found[2])):
        if lost := wanted - there:
            told.append(f"slurmctld has it without the {what} {few([fold(lost)])}")
        if more := there - wanted:
            told.append(f"slurmctld has it with the {what} {few([fold(more)])}")
    return "; ".join(told) or f"slurmctld has it on level {found[0]}, and the plan on {planned[0]}"


def _number(value: object) -> int:
    return int(str(value))


def _set(hostlist: object) -> set[str]:
    return set(expand(str(hostlist))) if hostlist else set()
