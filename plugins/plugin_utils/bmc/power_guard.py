# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse to end the power of nodes that Slurm may use: only nodes that a person has drained, without jobs, and nodes unknown to Slurm.

A node that a run of bedplate has drained may be in work, such as one that provision.yml installs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils.common.hostlist import HostlistError, expand, fold
from ...module_utils.common.text import few

ENDS_POWER = ("off", "cycle")
"""Values of `power` that Slurm must allow. `on` ends no job: a machine that is on stays as it is."""
_UNKNOWN = "unknown to Slurm"
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})


def refusals(nodes: Iterable[str], slurm: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a line for all nodes with the same refusal. `slurm`: node -> result of bedplate.cluster.slurm_node, as plain data.

    A node without a result is refused.
    """
    groups: dict[str, list[str]] = {}
    for node in nodes:
        if why := refusal(slurm.get(node)):
            groups.setdefault(why, []).append(node)
    return [f"{fold(names)}: {why}" for why, names in groups.items()]


def without_slurm(nodes: Iterable[str], named: str, error: str) -> list[str]:
    """Return why the power of nodes must not end while Slurm does not answer: a person must name each of them as unused.

    `named` is the hostlist of `power_without_slurm`, `error` the failure of the query.
    """
    try:
        left = [node for node in nodes if node not in set(expand(named))]
    except HostlistError as mistake:
        return [f"power_without_slurm: {mistake}"]
    if not left:
        return []
    remedy = f"If no job can run on them, as before Slurm is installed, name them once more: -e power_without_slurm={fold(left)}"
    return [f"{fold(left)}: Slurm does not answer, so jobs may use them: {error.rstrip('. ')}. {remedy}"]


def refusal(found: Mapping[str, Any] | None) -> str:
    """Return why the power of a node must not end, "" if it may."""
    if not found:
        return "Slurm reported nothing. Run again."
    if found.get("why") == _UNKNOWN:
        return ""
    state = str(found.get("state", ""))
    states = frozenset(state.partition(" ")[0].rstrip("*").split("+"))
    jobs = [str(one) for one in found.get("jobs") or ()]
    if jobs:
        text = f"{state}: job{'s' * (len(jobs) > 1)} {few(jobs)} on it. Drain it, and wait until the jobs end"
        return f"{text}: {_drain()}"
    if states & _BUSY:
        return f"{state}: Slurm has not released it. Wait until it is drained."
    if "DRAIN" not in states:
        return f"{state}: not drained. Drain it: {_drain()}"
    if found.get("by_slurm"):
        return f"{state}: drained by Slurm itself. Read why, and drain it with your own reason: {_drain()}"
    if kind := str(found.get("kind", "")):
        return f"{state}: a run of bedplate has it ({kind}). Let the run end, or stop it, and drain it with your own reason: {_drain()}"
    if found.get("outcome") == "draining" and found.get("why"):
        return f"{state}: {found['why']}. Wait until it is drained."
    return ""


def _drain() -> str:
    return 'scontrol update nodename=NODE state=drain reason="power"'
