# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the batches in which nodes are drained: a canary of each profile first, so many of each partition, switch by switch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..cluster import Cluster
from ..slurm import cluster_topology

PERCENT = 5
OUT, RESERVED = "out of service", "in the active reservation"
"""How the reason begins why a node is left to others."""


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of a partition, a switch or a block; `most` of them may be out of service, 0 where only `apart` matters."""

    where: str
    nodes: tuple[str, ...]
    most: int = 0

    def argument(self) -> dict[str, Any]:
        """Return it as bedplate.cluster.slurm_node takes it."""
        found: dict[str, Any] = {"where": self.where, "nodes": fold(self.nodes)}
        return {**found, "most": self.most} if self.most else found


@dataclass(frozen=True)
class SlurmSide:
    """Hold Slurm's report: node -> state of nodes that others have out of service, nodes that this run has drained, and nodes with jobs.

    Nodes that others have out count for the limits, and are in no batch. `failed` are nodes of the run that failed in an earlier call: they
    prove nothing.
    """

    out: Mapping[str, str] = field(default_factory=dict)
    own: Collection[str] = ()
    busy: Collection[str] = ()
    failed: Collection[str] = ()


@dataclass(frozen=True)
class RollPlan:
    """Batches in their order, the canaries among their nodes, and for each node that is in no batch, why."""

    batches: tuple[tuple[str, ...], ...] = ()
    canaries: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    limits: tuple[NodeGroup, ...] = ()
    apart: tuple[NodeGroup, ...] = ()


def limits(cluster: Cluster, percent: float = PERCENT) -> tuple[NodeGroup, ...]:
    """Return how many nodes of each partition may be out, at least one; nodes of no partition count together."""
    groups = {f"partition {one.name}": one.nodes for one in cluster.partitions.values()}
    named = {name for nodes in groups.values() for name in nodes}
    groups["nodes of no partition"] = tuple(node.name for node in cluster.nodes if node.name not in named)
    return tuple(
        NodeGroup(where, tuple(nodes), max(1, int(len(nodes) * percent / 100)))
        for where, nodes in groups.items()
        if nodes
    )


def apart(cluster: Cluster, own_topology: str = "") -> tuple[NodeGroup, ...]:
    """Return the nodes below each lowest switch of Slurm's topology, or in each block; `own_topology` is a topology.conf of the site."""
    found = cluster_topology.switches(cluster, own_topology)
    return tuple(
        NodeGroup(f"{'block' if one['level'] == 'block' else 'switch'} {name}", tuple(expand(one["nodes"])))
        for name, one in found.items()
        if one["level"] in ("0", "block")
    )


def plan(
    cluster: Cluster,
    pending: Collection[str],
    slurm: SlurmSide,
    percent: float = PERCENT,
    own_topology: str = "",
) -> RollPlan:
    """Return the batches of pending nodes.

    Nodes that this run has drained before are first, because their GPUs are idle. One of them without jobs proves the change for its
    profile; each other profile has a canary, if possible without jobs.
    """
    bounds, groups = limits(cluster, percent), apart(cluster, own_topology)
    order = _ordered(cluster, pending, groups)
    left = {name: f"{OUT}: {slurm.out[name]}" for name in order if name in slurm.out}
    wanted = [name for name in order if name not in slurm.out]
    own, busy, unfit = set(slurm.own), set(slurm.busy), {*slurm.busy, *slurm.failed}
    first = [name for name in wanted if name in own]
    proofs = _canaries(cluster, [name for name in first if name not in unfit], ())
    rest = [name for name in wanted if name not in own]
    canaries = _canaries(cluster, sorted(rest, key=lambda name: name in busy), proofs)
    # Nodes that are out already need no limit.
    batches = [tuple(batch) for batch in (proofs, [name for name in first if name not in proofs]) if batch]
    for queue in (canaries, [name for name in rest if name not in canaries]):
        # What this run has drained is back by then; if it is not, Slurm's nodes are counted again before each batch.
        cut, full = _cut(queue, bounds, slurm.out)
        batches += cut
        left |= full
    return RollPlan(tuple(batches), (*proofs, *canaries), left, bounds, groups)


def _ordered(cluster: Cluster, pending: Collection[str], groups: Iterable[NodeGroup]) -> list[str]:
    """Return pending nodes by lowest switch or block, so that few batches touch each, and then in the cluster file's order."""
    places = {name: number for number, group in enumerate(groups) for name in group.nodes}
    wanted = set(pending)
    names = [node.name for node in cluster.nodes if node.name in wanted]
    return sorted(names, key=lambda name: places.get(name, len(places)))


def _canaries(cluster: Cluster, wanted: Sequence[str], proofs: Sequence[str]) -> list[str]:
    """Return one node of each profile that has no proof."""
    profiles = {node.name: node.profile.name for node in cluster.nodes}
    seen = {profiles[name] for name in proofs}
    found = []
    for name in wanted:
        if profiles[name] not in seen:
            seen.add(profiles[name])
            found.append(name)
    return found


def _cut(
    queue: Sequence[str], bounds: Sequence[NodeGroup], out: Collection[str]
) -> tuple[list[tuple[str, ...]], dict[str, str]]:
    """Cut a queue into batches that fit the limits beside nodes that stay out; the second part has nodes that do not fit."""
    within: dict[str, list[NodeGroup]] = {}
    for group in bounds:
        for name in group.nodes:
            within.setdefault(name, []).append(group)
    stay = {group.where: sorted(set(group.nodes) & set(out)) for group in bounds}
    full: dict[str, str] = {}
    for name in queue:
        whys = [_full(group, stay[group.where]) for group in within.get(name, ())]
        if why := "; ".join(filter(None, whys)):
            full[name] = why
    batches: list[tuple[str, ...]] = []
    rest = [name for name in queue if name not in full]
    while rest:
        counts = {where: len(nodes) for where, nodes in stay.items()}
        batch, later = [], []
        for name in rest:
            groups = within.get(name, ())
            if all(counts[group.where] < group.most for group in groups):
                batch.append(name)
                for group in groups:
                    counts[group.where] += 1
            else:
                later.append(name)
        batches.append(tuple(batch))
        rest = later
    return batches, full


def _full(group: NodeGroup, out: Sequence[str]) -> str:
    """Return why no further node of a group may be drained, or ""."""
    return (
        f"{group.where}: {len(out)} of at most {group.most} nodes are out: {few(out)}" if len(out) >= group.most else ""
    )
