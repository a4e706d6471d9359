# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll as plain data for the playbook, and as text for operators."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL, reservation_name

from ..cluster import Cluster
from . import roll_batches
from .pending_parts import PendingNode

NOBODY = ["!all"]
"""A pattern of hosts that fits none, without a warning."""
_BEFORE = "drained before"
_UNKNOWN = "unknown to Slurm"
UNKNOWN = f"{_UNKNOWN}: run playbooks/scheduler.yml first, or reboot it with playbooks/reboot.yml"
_DRAINED, _DRAINING, _HELD = "drained", "draining", "held"


@dataclass(frozen=True)
class RollChoices:
    """Hold the choices of the operator: the percentage of each partition that may be out at once, and the site's own topology.conf.

    More than `failures` nodes that fail stop the roll, and no batch begins after `until`, in seconds since 1970. `reserved`: nodes in the
    active reservations of others are drained, too. `within`: the nodes of the run's own reservation, once it has begun; None without one.
    `settle`: seconds in which health judges canaries.
    """

    percent: float = roll_batches.PERCENT
    topology_conf: str = ""
    failures: int = 0
    until: float = 0.0
    reserved: bool = False
    within: Collection[str] | None = None
    settle: int = 0


@dataclass(frozen=True)
class SlurmNodes:
    """The report of bedplate.cluster.slurm_node: node -> its result; `own` are the nodes that this run has drained before."""

    nodes: Mapping[str, Mapping[str, Any]]

    def out(self, run: str) -> dict[str, str]:
        """Return the nodes that anybody else has out of service, with their states."""
        return {
            name: str(one.get("state") or one.get("why"))
            for name, one in self.nodes.items()
            if one.get("outcome") == _HELD or (one.get("outcome") in (_DRAINED, _DRAINING) and not _is_of(one, run))
        }

    @property
    def unknown(self) -> list[str]:
        """Return the nodes that slurmctld does not know."""
        return [name for name, one in self.nodes.items() if one.get("why") == _UNKNOWN]

    @property
    def busy(self) -> list[str]:
        """Return the nodes with jobs."""
        return [name for name, one in self.nodes.items() if one.get("jobs")]

    def reserved(self, run: str) -> dict[str, str]:
        """Return the nodes in active reservations of others, and in which."""
        own = reservation_name(ROLL, run)
        found = {
            name: [other for other in one.get("reservations") or () if other != own] for name, one in self.nodes.items()
        }
        return {name: f"{roll_batches.RESERVED} {', '.join(others)}" for name, others in found.items() if others}

    def failed(self, run: str) -> list[str]:
        """Return the nodes of this run that failed, by their reasons."""
        return [
            name for name in self.own(run) if re.search(r": (failed|unreachable): ", str(self.nodes[name].get("state")))
        ]

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
    out = slurm.out(run)
    # A node that others have switched off does not answer, and is no concern of the roll.
    problems = {name: one.problem for name, one in pending.items() if one.problem and name not in out}
    lost = {name for name, one in pending.items() if one.problem}
    own = dict.fromkeys(name for name in slurm.own(run) if name in pending and name not in lost)
    drained = dict.fromkeys(name for name, one in pending.items() if one.is_pending and one.drain and name not in lost)
    unknown = set(slurm.unknown) & set(drained)
    reserved = {} if choices.reserved else _reserved(slurm.reserved(run), set(drained) - {*own, *out, *unknown})
    outside = {
        name: f"is not in the reservation {reservation_name(ROLL, run)}"
        for name in dict.fromkeys([*own, *drained])
        if choices.within is not None and name not in choices.within and name not in {*out, *unknown, *reserved}
    }
    # What the run has drained and does not work on now, such as a node that does not answer, is out as well.
    idle = {name: str(slurm.nodes[name].get("state")) for name in slurm.own(run) if name not in own or name in outside}
    plan = roll_batches.plan(
        cluster,
        dict.fromkeys(name for name in [*own, *drained] if name not in {*unknown, *reserved, *outside}),
        roll_batches.SlurmSide({**out, **idle}, own, slurm.busy, slurm.failed(run)),
        choices.percent,
        choices.topology_conf,
    )
    not_open = {*drained, *own, *lost}
    open_hosts = [name for name, one in pending.items() if one.is_pending and name not in not_open]
    hosts = [name for batch in plan.batches for name in batch]
    return {
        "run": run,
        "hosts": hosts or list(NOBODY),
        "serial": [len(batch) for batch in plan.batches] or [1],
        "canaries": list(plan.canaries),
        "open": open_hosts or list(NOBODY),
        "left": {
            **plan.left,
            **{name: f"{roll_batches.OUT}: {out[name]}" for name in lost if name in out},
            **dict.fromkeys(sorted(unknown), UNKNOWN),
            **reserved,
            **outside,
        },
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
        "nodes": fold(node.name for node in cluster.nodes),
        "failures": choices.failures,
        "until": choices.until,
        "settle": choices.settle if cluster.health else 0,
        # The run may have one from an earlier call, also if this call needs none.
        "reservation": reservation_name(ROLL, run),
    }


def _reserved(reserved: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: why for name, why in reserved.items() if name in names}


def in_window(plan: Mapping[str, Any], window: Mapping[str, Any], start: str) -> dict[str, Any]:
    """Return the plan for a maintenance reservation: before it begins no node is drained, and after its end no batch begins.

    `window` is the result of bedplate.cluster.slurm_reservation, `start` its start if it is not made yet. The plan of one that has begun
    is `within` its nodes.
    """
    name = str(window["name"])
    if not window["active"]:
        waits = dict.fromkeys(plan["hosts"], f"waits for the reservation {name} from {window['start'] or start}")
        return {
            **plan,
            "reservation": name,
            "hosts": list(NOBODY),
            "serial": [1],
            "canaries": [],
            "left": {**plan["left"], **waits},
            "work": plan["open"] != NOBODY,
        }
    return {**plan, "reservation": name, "until": min(plan["until"], _seconds(str(window["end"])) or plan["until"])}


def _seconds(time: str) -> float:
    """Return a time in UTC as seconds since 1970, 0 for another text."""
    try:
        return datetime.fromisoformat(time).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0


def preview(plan: Mapping[str, Any], slurm: SlurmNodes) -> str:
    """Return the plan as text: batches with reasons, nodes that need no drain, nodes in no batch and why."""
    lines = []
    idled: list[int | None] = []
    hosts = list(plan["hosts"]) if plan["hosts"] != NOBODY else []
    for number, size in enumerate(plan["serial"] if hosts else (), 1):
        batch, hosts = hosts[:size], hosts[size:]
        canary = ", canaries" if set(batch) <= set(plan["canaries"]) else ""
        lines.append(f"batch {number}{canary}: {fold(batch)}: {_together(plan['parts'][name] for name in batch)}")
        lines += [_waits(name, slurm.nodes[name]) for name in batch if slurm.nodes.get(name, {}).get("jobs")]
        idled += [slurm.nodes.get(name, {}).get("free_in", 0) for name in batch]
    if plan["open"] != NOBODY:
        lines.append(
            f"without a drain: {fold(plan['open'])}: {_together(plan['parts'][name] for name in plan['open'])}"
        )
    lines += [f"left: {name}: {why}" for name, why in plan["left"].items()]
    lines += [f"not compared: {name}: {why}" for name, why in plan["problems"].items()]
    if any(idled):
        hours = sum(one or 0 for one in idled) / 3600
        endless = f", and {idled.count(None)} nodes have jobs without a time limit" if None in idled else ""
        lines.append(f"at most {hours:.1f} node-hours drained before their last jobs end{endless}")
    return "\n".join(lines) or "Nothing is pending."


def _waits(name: str, one: Mapping[str, Any]) -> str:
    """Return for which jobs a node waits, and how long at most."""
    seconds = one.get("free_in")
    limit = "without a time limit" if seconds is None else f"{seconds / 3600:.1f} h at most"
    return f"  {name} waits for jobs {few(one['jobs'])}, {limit}"


def _together(texts: Iterable[str]) -> str:
    """Return the different texts, each once."""
    return " / ".join(dict.fromkeys(texts))


def _is_of(one: Mapping[str, Any], run: str) -> bool:
    return (one.get("kind"), one.get("run")) == (ROLL, run)
