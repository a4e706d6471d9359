# SPDX-License-Identifier: GPL-3.0-or-later
"""Count unavailable nodes against the caps of the cluster, partitions, racks and NVLink domains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .cluster_view import ClusterView
from .control_settings import DOMAINS, PARTITIONS, RACKS, ControlSettings


class Room:
    """Count all unavailable nodes, also of persons and of Slurm; a node that is drained counts before the next is judged."""

    def __init__(self, view: ClusterView, settings: ControlSettings) -> None:
        self.settings = settings
        known = {*view.nodes, *view.malformed}
        self.total = len(known)
        self.out = set(view.unavailable)
        self._counts: Counter[tuple[str, str]] = Counter()
        # Nodes that Slurm does not know count as members of their groups, and as unavailable.
        for name in self.out | (settings.of_node.keys() - known):
            self._count(name)

    def take(self, node: str) -> None:
        """Count a node as unavailable."""
        if node not in self.out:
            self.out.add(node)
            self._count(node)

    def full(self, node: str) -> tuple[str, str] | None:
        """Return which cap a drain of a node in service would exceed, with the numbers; None if it fits."""
        return next(self._exceeded(node), None)

    def _exceeded(self, node: str) -> Iterator[tuple[str, str]]:
        caps = self.settings.caps
        most = min(_share(self.total, caps.cluster), caps.nodes)
        if len(self.out) + 1 > most:
            yield "cluster", f"cap cluster: {len(self.out)} of {most} unavailable"
        for kind, word, percent in (
            (PARTITIONS, "partition", caps.partition),
            (RACKS, "rack", caps.rack),
            (DOMAINS, "NVLink domain", caps.nvlink_domain),
        ):
            for name in self.settings.groups_of(node, kind):
                members, out = len(self.settings.groups[kind][name]), self._counts[kind, name]
                most = _share(members, percent)
                if out + 1 > most:
                    yield kind.rstrip("s"), f"cap {word} {name}: {out} of {most} unavailable"
                if kind == PARTITIONS and members - out - 1 < caps.keep:
                    yield "keep", f"cap {word} {name}: the last {caps.keep} available nodes stay"

    def _count(self, node: str) -> None:
        for kind in (PARTITIONS, RACKS, DOMAINS):
            for name in self.settings.groups_of(node, kind):
                self._counts[kind, name] += 1


def _share(number: int, percent: int) -> int:
    """Return so many percent of a number of nodes, at least one."""
    return max(1, number * percent // 100)
