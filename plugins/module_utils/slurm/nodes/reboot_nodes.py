# SPDX-License-Identifier: GPL-3.0-or-later
"""Reboot drained nodes by Slurm, so that it expects them to be away, and wait until each is back, drained as before.

The command is plain `scontrol reboot NODES`. With ASAP or nextstate Slurm would take the drain off when the node is back, also a drain of a
person, before anything has verified the node; with reason= it would overwrite the reason.

Slurm appends ` : reboot issued` to the reason. If the reason has these words already, from an earlier reboot, Slurm replaces all of it by
them, and the node would belong to no run any more (seen with 22.05.8). So the reason is written anew first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from ...common.hostlist import fold
from ...common.text import few
from ..live.drain_reasons import written
from .node_states import NodeView
from .node_work import (
    FAILED,
    HELD,
    REBOOTED,
    SILENT,
    NodeResult,
    NodeVerb,
    foreign,
    jobs_of,
    other_hardware,
    result,
    switched_off,
)

_AWAY = "not back from its reboot"
_OLD = "Slurm still shows the reboot before, and takes no other one. If the node is as it should be:"
_LATE = "back after ResumeTimeout of slurm.conf, so Slurm has it down until it is resumed"


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass
class Reboot(NodeVerb):
    """Reboot nodes that this run has drained and that have no job, not even a suspended one."""

    since: datetime = field(default_factory=_now)
    texts: dict[str, str] = field(default_factory=dict)
    """Node -> its text, for nodes whose reasons have words of Slurm's."""
    boots: dict[str, str] = field(default_factory=dict)
    """Node -> its boot before the reboot."""

    def before(self, node: NodeView) -> NodeResult | None:
        """Return what forbids the reboot."""
        if node.has_other_hardware:
            return other_hardware(node)
        if not self.owns(node):
            return result(node, HELD, foreign(node) or "not drained by this run")
        if node.is_off:
            return result(node, HELD, switched_off(node))
        if node.suspended:
            return result(node, HELD, f"suspended on it: job {few(node.suspended)}")
        if not node.is_drained:
            return result(node, HELD, jobs_of(node))
        if node.reboots:
            return result(node, HELD, "a reboot of it is under way")
        if node.shows_old_reboot:
            return result(node, HELD, f"{_OLD} scontrol update NodeName={node.name} State=RESUME; then run again")
        if not node.answers:
            return result(node, SILENT, "its slurmd does not answer, so Slurm cannot reboot it")
        self.boots[node.name] = node.boot
        if node.own is not None and (node.own.added or "reboot issued" in node.own.text):
            self.texts[node.name] = node.own.text
        return None

    def after(self, node: NodeView) -> NodeResult:
        """Return whether the node is back."""
        # First, since Slurm has replaced the reason, and keeps the reboot in hand.
        if node.has_other_hardware:
            return other_hardware(node)
        if not self.owns(node):
            return result(node, HELD, foreign(node) or "resumed by others during its reboot")
        if node.is_off:
            return result(node, FAILED, switched_off(node))
        if node.reboots or not node.answers:
            return result(node, FAILED, _AWAY)
        if self._booted(node):
            return result(node, REBOOTED, _LATE if "DOWN" in node.states else "")
        return result(node, FAILED, _AWAY) if "DOWN" in node.states else result(node, HELD, "its reboot was cancelled")

    def command(self, nodes: str) -> list[str]:
        """Return the command."""
        return ["scontrol", "reboot", nodes]

    def prepare(self, names: Sequence[str]) -> None:
        """Take Slurm's words out of reasons."""
        alike: dict[str, list[str]] = {}
        for name in names:
            if name in self.texts:
                alike.setdefault(self.texts[name], []).append(name)
        for text, group in alike.items():
            reason = written(self.order.kind, self.order.run, text)
            if error := self.change(
                ["scontrol", "update", f"NodeName={fold(group, suffixes=False)}", f"Reason={reason}"]
            ):
                self.failures.update(dict.fromkeys(group, error))

    def predicted(self, node: NodeView) -> str:
        """Return the outcome of a reboot that succeeds."""
        del node
        return REBOOTED

    def waits(self, results: Mapping[str, NodeResult]) -> bool:
        """Return whether a node is still away."""
        return any(one.why == _AWAY for one in results.values())

    def _booted(self, node: NodeView) -> bool:
        """Return whether the kernel has started since the call; slurmctld counts that by its own clock, in whole seconds."""
        if node.boot == self.boots.get(node.name):
            return False
        try:
            boot = datetime.strptime(node.boot, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        except ValueError:
            return False
        return boot >= self.since - timedelta(seconds=1)
