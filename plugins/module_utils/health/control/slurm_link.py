# SPDX-License-Identifier: GPL-3.0-or-later
"""Read nodes from slurmctld and change them, each command bounded; a node is read again right before its change."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ...common import command
from ...slurm.live import slurm_commands
from ...slurm.live.acting import Controllers
from ...slurm.live.drain_reasons import HEALTH, written
from ...slurm.live.slurmctld_report import node_pairs
from .cluster_view import COMMAND, ClusterView, NodeState, ViewError, node_state, parse
from .limiter import DRAIN, RESUME, Action

RUN = "limiter"
"""The run in the limiter's reasons."""
_SECONDS = 30.0
# slurmd calculates the time of the boot from clock and uptime, which differ by some seconds after a boot.
_SLACK = 60.0


@dataclass(frozen=True)
class Result:
    """Hold how a change ended: "" or why it failed. `may_be_made`: it was made, or that is unknown, because the command did not end."""

    problem: str = ""
    may_be_made: bool = True


class SlurmLink:
    """The slurmctld of a slurm.conf, as this controller reaches it."""

    def __init__(self, slurm_conf: Path) -> None:
        slurm_commands.drop_login_variables()
        self.slurm_conf = slurm_conf

    def is_acting(self) -> bool:
        """Return whether this machine's slurmctld is in charge. False if that cannot be known."""
        return self.controllers().look().acting in _own_names()

    def controllers(self) -> Controllers:
        """Return the controllers of slurm.conf."""
        return Controllers(self.slurm_conf)

    def view(self) -> ClusterView:
        """Return all nodes. ViewError: slurmctld did not answer, or not with a list of nodes."""
        outcome = self._run(COMMAND)
        if outcome.code != 0:
            raise ViewError(f"sinfo: {outcome.error_line[:200]}")
        return parse(outcome.stdout)

    def node(self, name: str) -> tuple[NodeState, float] | None:
        """Return a node as it is now, and the time of its boot, 0 if Slurm does not know it; None if the node cannot be read."""
        outcome = self._run(("scontrol", "--oneliner", "show", "node", name))
        pairs = node_pairs(outcome.stdout.strip()) if outcome.code == 0 else {}
        if pairs.get("NodeName") != name or "State" not in pairs:
            return None
        # pairs end at blanks, and the report was read from sinfo: a change of the report is no reason against a change of the node.
        return node_state(name, pairs["State"], "", pairs.get("Reason", "")), _seconds(pairs.get("BootTime", ""))

    def apply(self, action: Action) -> Result:
        """Change a node, if it is still as it was judged."""
        found = self.node(action.node)
        if found is None:
            return Result(f"{action.node}: slurmctld does not show it", may_be_made=False)
        now, boot = found
        if not now.is_as(action.seen):
            return Result(f"{action.node}: changed by others since it was judged; skipped", may_be_made=False)
        report = action.seen.report
        if action.kind == DRAIN and report and report.time < boot - _SLACK:
            return Result(f"{action.node}: its report is older than its boot; skipped", may_be_made=False)
        outcome = self._run(self.argv(action))
        if outcome.code == 0:
            return Result()
        # `Socket timed out on send/recv operation`: slurmctld may make the change later.
        is_late = outcome.code is None or "timed out" in outcome.error_line
        return Result(f"{action.node}: {action.kind}: {outcome.error_line[:200]}", may_be_made=is_late)

    def argv(self, action: Action) -> Sequence[str]:
        """Return the command of an action."""
        update = ["scontrol", "update", f"NodeName={action.node}"]
        if action.kind == RESUME:
            return [*update, "State=RESUME"]
        reason = f"Reason={written(HEALTH, RUN, action.text)}"
        return [*update, "State=DRAIN", reason] if action.kind == DRAIN else [*update, reason]

    def _run(self, argv: Sequence[str]) -> command.Outcome:
        return command.run(argv, _SECONDS, environment={"SLURM_CONF": str(self.slurm_conf)})


def _seconds(time: str) -> float:
    """Return a time of scontrol, such as 2026-11-28T06:11:03 in the zone of this machine, in seconds since 1970; 0 for `None`."""
    try:
        return datetime.fromisoformat(time).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _own_names() -> tuple[str, str]:
    """Return the names under which slurm.conf may have this machine."""
    name = socket.gethostname()
    return name, name.partition(".")[0]
