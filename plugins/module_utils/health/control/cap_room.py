# SPDX-License-Identifier: GPL-3.0-or-later
"""Count unavailable nodes against the caps of the cluster, partitions, racks and NVLink domains."""

from __future__ import annotations

from collections.abc import Iterator

from .cluster_view import ClusterView
from .control_settings import DOMAINS, PARTITIONS, RACKS, ControlSettings


class Room:
    """Count all unavailable nodes, also of persons and of Slurm; a node that is drained counts before the next is judged."""

    def __init__(self, view: ClusterView, settings: ControlSettings) -> None:
        self.settings = settings
        self.all = {*view.nodes, *view.malformed}
        self.out = set(view.unavailable)

    def take(self, node: str) -> None:
        """Count a node as unavailable."""
        self.out.add(node)

    def free(self, node: str) -> None:
        """Count a node as available."""
        self.out.discard(node)

    def full(self, node: str) -> tuple[str, str] | None:
        """Return which cap a drain of a node would exceed, with the numbers; None if it fits."""
        return next(self._exceeded(node), None)

    def _exceeded(self, node: str) -> Iterator[tuple[str, str]]:
        caps = self.settings.caps
        most = min(_share(len(self.all), caps.cluster), caps.nodes)
        if len(self.out | {node}) > most:
            yield "cluster", f"cap cluster: {len(self.out)} of {most} unavailable"
        for kind, word, percent in (
            (PARTITIONS, "partition", caps.partition),
            (RACKS, "rack", caps.rack),
            (DOMAINS, "NVLink domain", caps.nvlink_domain),
        ):
            for name in self.settings.groups_of(node, kind):
                # Nodes that Slurm does not know count as members, and as unavailable.
                members = self.settings.groups[kind][name]
                out = {one for one in members if one in self.out or one not in self.all}
                most = _share(len(members), percent)
                if len(out | {node}) > most:
                    yield kind.rstrip("s"), f"cap {word} {name}: {len(out)} of {most} unavailable"
                if kind == PARTITIONS and len(members) - len(out | {node}) < caps.keep:
                    yield "keep", f"cap {word} {name}: the last {caps.keep} available nodes stay"


def _share(number: int, percent: int) -> int:
    """Return so many percent of a number of nodes, at least one."""
    return max(1, number * percent // 100)
