# SPDX-License-Identifier: GPL-3.0-or-later
"""Resume the nodes that a run has drained, and wait until Slurm has them in service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..live.drain_reasons import HEALTH, TAKEN_OUT, is_slurms
from .node_states import NodeView
from .node_work import FAILED, HELD, RESUMED, NodeResult, NodeVerb, foreign, other_hardware, result

_ABSENT = "not resumed, because its slurmd does not answer"
_SILENT = "resumed, and its slurmd does not answer"


@dataclass
class Resume(NodeVerb):
    """Resume. A node that Slurm is rebooting stays drained: until 25.05 Slurm would give it jobs while it is off."""

    since: dict[str, str] = field(default_factory=dict)

    def before(self, node: NodeView) -> NodeResult | None:
        """Return what forbids it, or that the node is in service already.

        A node that does not answer is waited for: Slurm would take drain and reason off it, and nothing would show whose it was.
        """
        if node.has_other_hardware:
            return other_hardware(node)
        if not node.is_out:
            return result(node, RESUMED)
        if not self.owns(node):
            return result(node, HELD, foreign(node))
        self.since[node.name] = node.since
        if node.reboots:
            return result(node, HELD, "a reboot of it is under way")
        # Slurm refuses to resume a node of which it has not heard since its start, and takes the drain off all the same.
        return result(node, FAILED, _ABSENT) if node.is_unheard or not node.answers else None

    def after(self, node: NodeView) -> NodeResult:
        """Return whether the node is in service, and since when it was not."""
        if not node.is_out:
            return replace(result(node, RESUMED), since=self.since.get(node.name, ""))
        if not node.answers and not node.states & TAKEN_OUT:
            # Until slurmctld has heard of a node that was down; without accounting storage it keeps the reason.
            return result(node, FAILED, _SILENT)
        if node.reason and not self.owns(node):
            # A reason of Slurm or of health is no decision of a person: a change that makes nodes fall must stop the roll.
            is_sick = node.own is not None and node.own.kind == HEALTH
            outcome = FAILED if is_sick or is_slurms(node.reason) else HELD
            return result(node, outcome, f"out of service again: {node.shown}")
        return result(node, FAILED, _SILENT)

    def command(self, nodes: str) -> list[str]:
        """Return the command."""
        return ["scontrol", "update", f"NodeName={nodes}", "State=RESUME"]

    def predicted(self, node: NodeView) -> str:
        """Return the outcome of a node that answers."""
        del node
        return RESUMED

    def waits(self, results: Mapping[str, NodeResult]) -> bool:
        """Return whether a node has not answered yet."""
        return any(one.why in (_ABSENT, _SILENT) for one in results.values())
