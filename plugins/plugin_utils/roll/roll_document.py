# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll as plain data for the playbook, and as text for operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL

from ..cluster import Cluster
from . import roll_batches
from .pending_parts import PendingNode

NOBODY = ["!all"]
"""A pattern of hosts that fits none, without a warning."""
_BEFORE = "drained before"
_DRAINED, _DRAINING, _HELD, _FAILED = "drained", "draining", "held", "failed"


@dataclass(frozen=True)
class RollChoices:
    """What the operator chose: the percentage of each partition that may be out at once, and the site's own topology.conf."""

    percent: float = roll_batches.PERCENT
    topology_conf: str = ""


@dataclass(frozen=True)
class SlurmNodes:
    """The report of bedplate.cluster.slurm_node: node -> its result; `own` are those that this run has drained before."""

    nodes: Mapping[str, Mapping[str, Any]]

    def out(self, run: str) -> dict[str, str]:
        """Return the nodes that anybody else has out of service, with their states."""
        return {
            name: str(one.get("state") or one.get("why"))
            for name, one in self.nodes.items()
            if one.get("outcome") in (_HELD, _FAILED)
            or (one.get("outcome") in (_DRAINED, _DRAINING) and not _is_of(one, run))
        }

    def own(self, run: str) -> list[str]:
        """Return the nodes that this run has drained before."""
        return [
            name for name, one in self.nodes.items() if one.get("outcome") in (_DRAINED, _DRAINING) and _is_of(one, run)
        ]


def document(
    cluster: Cluster, pending: Mapping[str, PendingNode], slurm: SlurmNodes, run: str, choices: RollChoices
) -> dict[str, Any]:
    """Return the plan: `hosts` in the order of their batches, `serial` the sizes, `open` hosts whose changes need no drain.

    `pending` has the hosts of this run alone; limits count all nodes of the cluster. `left` is host -> why it is in no batch.
    """
    problems = {name: one.problem for name, one in pending.items() if one.problem}
    own = [name for name in slurm.own(run) if name in pending and name not in problems]
    drained = [name for name, one in pending.items() if one.is_pending and one.drain and name not in problems]
    plan = roll_batches.plan(
        cluster, dict.fromkeys([*own, *drained]), slurm.out(run), own, choices.percent, choices.topology_conf
    )
    open_hosts = [name for name, one in pending.items() if one.is_pending and name not in {*drained, *own, *problems}]
    hosts = [name for batch in plan.batches for name in batch]
    return {
        "run": run,
        "hosts": hosts or list(NOBODY),
        "serial": [len(batch) for batch in plan.batches] or [1],
        "canaries": plan.canaries,
        "open": open_hosts or list(NOBODY),
        "left": dict(plan.left),
        "problems": problems,
        "parts": {**dict.fromkeys(own, _BEFORE), **{name: one.text for name, one in pending.items() if one.is_pending}},
        "pending": {
            name: {"parts": dict(one.parts), "reboot": dict(one.reboot)}
            for name, one in pending.items()
            if one.is_pending
        },
        "limits": [group.argument() for group in plan.limits],
        "apart": [group.argument() for group in plan.apart],
        "work": bool(hosts or open_hosts),
    }


def preview(plan: Mapping[str, Any], slurm: SlurmNodes) -> str:
    """Return the plan as text: batches with reasons, what needs no drain, what is left and why."""
    lines = []
    hosts = list(plan["hosts"]) if plan["hosts"] != NOBODY else []
    for number, size in enumerate(plan["serial"] if hosts else (), 1):
        batch, hosts = hosts[:size], hosts[size:]
        canary = ", canaries" if number <= plan["canaries"] else ""
        lines.append(f"batch {number}{canary}: {fold(batch)}: {_together(plan['parts'][name] for name in batch)}")
        lines += [
            f"  {name} waits for jobs {few(jobs)}" for name in batch if (jobs := slurm.nodes.get(name, {}).get("jobs"))
        ]
    if plan["open"] != NOBODY:
        lines.append(
            f"without a drain: {fold(plan['open'])}: {_together(plan['parts'][name] for name in plan['open'])}"
        )
    lines += [f"left: {name}: {why}" for name, why in plan["left"].items()]
    lines += [f"not compared: {name}: {why}" for name, why in plan["problems"].items()]
    return "\n".join(lines) or "Nothing is pending."


def _together(texts: Iterable[str]) -> str:
    """Return the different texts, each once."""
    return " / ".join(dict.fromkeys(texts))


def _is_of(one: Mapping[str, Any], run: str) -> bool:
    return (one.get("kind"), one.get("run")) == (ROLL, run)
