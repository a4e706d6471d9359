# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep new jobs off nodes and partitions in the seconds between the last question for jobs and the reconfigure that changes them.

A free node whose line changes, or that leaves, is drained with a reason of bedplate's own; a partition that leaves takes no new job. Then
Slurm is asked for its jobs again: what got a job meanwhile keeps its line and is given back at once, all else once the change is in force
or was taken back. A run that was killed in between leaves the reason behind, and the next run gives the nodes back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import Live

# A reason that does not begin so is somebody else's.
OWNER = "bedplate:edit:"
REASON = f"{OWNER} the line of this node is about to change"


@dataclass
class Fence:
    """Nodes that are drained, and partitions that take no new job, by bedplate."""

    nodes: list[str] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, object]:
        """Return the fence as plain data."""
        return {"nodes": fold(self.nodes), "partitions": self.partitions}


def present(live: Live) -> list[str]:
    """Return the nodes that bedplate has drained."""
    return [name for name, pairs in live.nodes.items() if pairs.get("Reason", "").startswith(OWNER)]


def targets(live: Live, nodes: Iterable[str], partitions: Iterable[str]) -> Fence:
    """Return what of these may get a job at any moment: no job is there now, and nobody has taken it out of service."""
    busy = live.jobs_by_node()
    used = {name for job in live.jobs for name in job.partitions}
    return Fence(
        [name for name in nodes if name not in busy and _takes_jobs(live.nodes.get(name, {}).get("State", ""))],
        [name for name in partitions if name not in used and live.partitions.get(name, {}).get("State") == "UP"],
    )


def _takes_jobs(state: str) -> bool:
    """Return whether a node may get a job; one that a person has marked FAIL, or that reboots, is left as it is."""
    closed = ("DOWN", "FUTURE", "UNKNOWN", "DRAIN", "FAIL", "REBOOT")
    return bool(state) and not any(word in state for word in closed)


def raise_commands(fence: Fence) -> list[list[str]]:
    """Return the commands that put a fence up."""
    drain = [["scontrol", "update", f"NodeName={fold(fence.nodes)}", "State=DRAIN", f"Reason={REASON}"]]
    close = [["scontrol", "update", f"PartitionName={name}", "State=DRAIN"] for name in fence.partitions]
    return (drain if fence.nodes else []) + close


def lift_commands(live: Live, nodes: Collection[str], partitions: Iterable[str]) -> list[list[str]]:
    """Return the commands that give back what of these is still fenced: a reason that a person has set since is theirs."""
    own = [name for name in present(live) if name in nodes]
    resume = [["scontrol", "update", f"NodeName={fold(own)}", "State=RESUME"]]
    there = [name for name in partitions if live.partitions.get(name, {}).get("State") == "DRAIN"]
    return (resume if own else []) + [["scontrol", "update", f"PartitionName={name}", "State=UP"] for name in there]
