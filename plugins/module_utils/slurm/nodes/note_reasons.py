# SPDX-License-Identifier: GPL-3.0-or-later
"""Write another text into the reason of nodes that a run has drained, such as why they failed. Their states stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..live.drain_reasons import without_additions
from .node_states import NodeView
from .node_work import HELD, NodeResult, NodeVerb, drained, foreign, result


@dataclass
class Note(NodeVerb):
    """Note. What Slurm has added to the reason goes: the new text says more."""

    def before(self, node: NodeView) -> NodeResult | None:
        """Return that the text is there already, or whose the node is."""
        if not self.owns(node):
            return result(node, HELD, foreign(node) or "not drained by this run")
        # The time of the reason shows that the node has booted since: a new reason would have a later one.
        if node.shows_old_reboot:
            return drained(node)
        return drained(node) if without_additions(node.reason)[0] == self.reason else None

    def after(self, node: NodeView) -> NodeResult:
        """Return whether jobs are left."""
        return drained(node) if self.owns(node) else result(node, HELD, foreign(node) or "resumed by others")

    def command(self, nodes: str) -> list[str]:
        """Return the command."""
        return ["scontrol", "update", f"NodeName={nodes}", f"Reason={self.reason}"]

    def predicted(self, node: NodeView) -> str:
        """Return whether jobs are left."""
        return drained(node).outcome

    def waits(self, results: Mapping[str, NodeResult]) -> bool:
        """Return False: the text is there at once."""
        del results
        return False
