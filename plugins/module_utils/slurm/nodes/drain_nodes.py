# SPDX-License-Identifier: GPL-3.0-or-later
"""Drain nodes with a reason of the run's own, so many at a time, and wait until their jobs have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .node_states import NodeView
from .node_work import DRAINED, DRAINING, HELD, NodeResult, NodeVerb, drained, foreign, result, switched_off
from .out_limits import admit, out_for_health, too_many


@dataclass
class Drain(NodeVerb):
    """Drain. A node that anybody else has out of service stays as it is, with its reason, except a node of Slurm itself with `of_slurm`.

    `sick`: watched nodes that health has out of service, with the texts of their reasons. `halted`: why they, or the time to judge them,
    forbid to begin with the batch, or "". A node that was drained before stays so.
    """

    sick: dict[str, str] = field(init=False, default_factory=dict)
    halted: str = field(init=False, default="")
    _free: int = 0
    _free_since: float = 0.0
    _limited: bool = False
    _settling: bool = False
    _start: float = field(init=False, default=0.0)
    _seen: set[str] = field(init=False, default_factory=set)
    """Nodes that were the run's own at some time of this call."""

    def __post_init__(self) -> None:
        """Note when the call may drain nodes; check mode waits for nothing."""
        self._start = self.clock() + (0.0 if self.check else self.order.settle)

    def before(self, node: NodeView) -> NodeResult | None:
        """Return what holds a node back, or that the run has drained it already."""
        if self.owns(node):
            self._seen.add(node.name)
            if node.is_off:
                return result(node, HELD, switched_off(node))
            # Slurm 22.05 and 23.02 take the drain off a node that is not back from its reboot in time.
            return drained(node) if "DRAIN" in node.states else None
        if (why := foreign(node)) and not (self.order.of_slurm and node.is_out_by_slurm):
            return result(node, HELD, why)
        if node.name in self._seen:
            return result(node, HELD, "resumed by others")
        others = [name for name in node.reservations if name != self.order.reservation]
        if others and not self.order.reserved:
            return result(node, HELD, f"in the active reservation {', '.join(others)}")
        return None

    def after(self, node: NodeView) -> NodeResult:
        """Return whether jobs are left, or who took the node over."""
        if self.owns(node):
            return drained(node)
        return result(node, HELD, foreign(node) or "resumed by others after this run had drained it")

    def command(self, nodes: str) -> list[str]:
        """Return the command."""
        return ["scontrol", "update", f"NodeName={nodes}", "State=DRAIN", f"Reason={self.reason}"]

    def predicted(self, node: NodeView) -> str:
        """Return whether jobs are left."""
        return DRAINING if node.jobs else DRAINED

    def admitted(self, names: Sequence[str], nodes: Mapping[str, NodeView]) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return the nodes that fit beside the nodes that are out already; no node, if the watched ones forbid it."""
        self.sick = out_for_health(self.order.watched, nodes)
        self.halted = too_many(self.order.watched, self.sick)
        self._settling = not self.halted and self.clock() < self._start
        if self._settling:
            self.halted = f"{self._start - self.clock():.0f} seconds are left for health to judge the resumed nodes"
        if self.halted:
            return (), dict.fromkeys(names, self.halted)
        found = admit(names, nodes, self.order.limits, self.order.apart, self.order.nodes, self.order.kind)
        self._limited = bool(found.waits)
        return found.now, found.waits

    def waits(self, results: Mapping[str, NodeResult]) -> bool:
        """Return whether nodes still get free; free nodes, or the call without any, wait for them so long as the order has patience."""
        if self.halted:
            return self._settling
        free = sum(one.outcome == DRAINED for one in results.values())
        if free != self._free:
            self._free, self._free_since = free, self.clock()
        since = self._free_since if free else self._start
        patience = self.order.patience if free else self.order.idle_patience
        patient = patience is None or self.clock() - since < patience
        return patient and (self._limited or any(one.outcome == DRAINING for one in results.values()))
