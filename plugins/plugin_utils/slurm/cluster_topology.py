# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topology: that of the planned fabric, or a leaf switch for each rack where no profile states the NICs of one.

Where all nodes are in NVLink domains, these are its blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse

from ..cluster import Cluster
from ..fabric.plan.cluster_plan import plan_of
from ..fabric.topology import slurm_topology
from ..fabric.topology.planned_topologies import partition_topologies, topologies
from ..fabric.topology.slurm_topology import SlurmSwitch, Topology
from .tables.conf_text import HEADER, file_of, line_of

_HEAD = re.compile(r"# slurm\.conf: (Topology(?:Plugin|Param))=(\S+)", re.IGNORECASE)


def options(cluster: Cluster, own: str = "") -> dict[str, str]:
    """Return the options of slurm.conf for the topology; `own` is the text of a topology.conf that replaces the plan's.

    Of an own one its first lines say them, as bedplate writes them, or else what is in it does. The plan's follow from the kind of
    the fabric alone: every node's slurmd has them, and none may cost the plan of the whole.
    """
    if own:
        blocks = any(line.lower().startswith("blockname") for line in own.splitlines())
        plain = dict(slurm_topology.OF_BLOCKS) if blocks else Topology().options
        return plain | {match[1]: match[2] for match in map(_HEAD.match, own.splitlines()) if match}
    cluster = cluster.view()
    if cluster.fabric is None:
        return {}
    if cluster.has_blocks:
        return dict(slurm_topology.OF_BLOCKS)
    return Topology(param=slurm_topology.PARAMS.get(cluster.fabric.kind, "") if _has_nics(cluster) else "").options


def topology_of(cluster: Cluster) -> Topology:
    """Return the topology; raises TemplateError where no fabric can be built as the cluster file says."""
    cluster = cluster.view()
    if cluster.fabric is None:
        return Topology()
    if not _has_nics(cluster):
        return _of_racks(cluster, cluster.fabric.top)
    return next(iter(_named(cluster).values()))


def _named(cluster: Cluster) -> Mapping[str, Topology]:
    """Return the topologies of a fabric with NICs by name, the first for partitions that name none."""
    cluster = cluster.view()
    both = cluster.has_tree_and_blocks
    return topologies(cluster, plan_of(cluster), cluster.slurm.version, several=both).named


def _has_nics(cluster: Cluster) -> bool:
    return any(node.profile.nics for node in cluster.nodes)


def _of_racks(cluster: Cluster, top: str) -> Topology:
    """Return a switch for each rack, or for each leaf that racks share, and one switch above all of them."""
    members: dict[str, list[str]] = {}
    for node in cluster.nodes:
        members.setdefault(node.rack.leaf, []).append(node.name)
    leaves = [SlurmSwitch(name, 0, tuple(nodes), (), tuple(nodes), (name,)) for name, nodes in members.items()]
    every = tuple(node.name for node in cluster.nodes)
    return Topology([*leaves, SlurmSwitch(top, 1, (), tuple(members), every, (top,))])


def of_partitions(cluster: Cluster, own: str = "") -> dict[str, str]:
    """Return partition -> name of its topology; {} where all have the same. `own` is as for `options`."""
    return partition_topologies(cluster) if cluster.has_tree_and_blocks and not own else {}


def files(cluster: Cluster, own: str = "") -> dict[str, str]:
    """Return topology.conf, and topology.yaml where partitions have several topologies. `own` is as for `options`.

    Slurm reads topology.yaml first. Raises TopologyError if this Slurm does not support the topology.
    """
    if own:
        return {"topology.conf": file_of({}, own.splitlines())}
    version = cluster.slurm.version
    if not cluster.has_tree_and_blocks:
        return {"topology.conf": file_of({}, lines(cluster))}
    named = _named(cluster)
    first = next(iter(named.values()))
    return {
        "topology.conf": file_of({}, slurm_topology.conf(first, version).splitlines()),
        "topology.yaml": HEADER + slurm_topology.yaml(named, version),
    }


def reported(cluster: Cluster, own: str = "") -> dict[str, dict[str, dict[str, str]]]:
    """Return topology -> switches as `switches` returns them, for topologies beside that of partitions that name none."""
    if own or not cluster.has_tree_and_blocks:
        return {}
    return {name: _reported(one) for name, one in list(_named(cluster).items())[1:]}


def switches(cluster: Cluster, own: str = "") -> dict[str, dict[str, str]]:
    """Return switch -> level, folded nodes (all below) and folded switches directly below, as Slurm reports them.

    A block is on the level `block`. `own` is as for `options`.
    """
    return _reported(_read(own, [node.name for node in cluster.nodes]) if own else topology_of(cluster))


def _reported(topology: Topology) -> dict[str, dict[str, str]]:
    shown = slurm_topology.shown(topology).items()
    blocks = {name: ("block", fold(nodes), "") for name, nodes in topology.blocks.items()}
    return {
        name: {"level": str(level), "nodes": nodes, "switches": below}
        for name, (level, nodes, below) in (blocks.items() or shown)
    }


def _read(text: str, known: list[str]) -> Topology:
    """Return the topology of a topology.conf; Slurm leaves out the nodes that it does not know."""
    rows = parse(text).lines
    there = set(known)
    named = {name: pairs for pairs in rows if (name := pairs.get("SwitchName"))}
    made: dict[str, SlurmSwitch] = {}

    def make(name: str) -> SlurmSwitch:
        if name not in made:
            nodes = tuple(node for node in expand(named[name].get("Nodes", "")) if node in there)
            children = tuple(expand(named[name].get("Switches", "")))
            below = [make(child) for child in children if child in named]
            level = 1 + max((one.level for one in below), default=-1)
            every = nodes or tuple(node for one in below for node in one.all_nodes)
            made[name] = SlurmSwitch(name, level, nodes, children, every, (name,))
        return made[name]

    found = Topology([make(name) for name in named])
    found.blocks = {
        name: [node for node in expand(pairs.get("Nodes", "")) if node in there]
        for pairs in rows
        if (name := pairs.get("BlockName"))
    }
    return found


def of_cluster(text: str, nodes: Iterable[str]) -> tuple[str, list[str], list[str]]:
    """Return a topology.conf with these nodes alone, the nodes that were left out, and the nodes that it lacks.

    A switch or block without nodes is left out, too. Lines that need no change stay as they are written.
    """
    wanted = list(nodes)
    known, strangers, seen, gone = set(wanted), [], set(), set()
    kept: list[tuple[str, dict[str, str]]] = []
    for line in text.splitlines():
        pairs = next(iter(parse(line).lines), {})
        members = list(expand(pairs.get("Nodes", "")))
        seen.update(members)
        if unknown := [name for name in members if name not in known]:
            strangers += unknown
            pairs["Nodes"] = fold(name for name in members if name in known)
            line = line_of(pairs)
        if members and not pairs["Nodes"]:
            gone.add(pairs.get("SwitchName", ""))
        else:
            kept.append((line, pairs))
    while gone:
        above, kept = _without(kept, gone)
        gone = above
    return "\n".join(line for line, _unused in kept) + "\n", strangers, [name for name in wanted if name not in seen]


def _without(
    rows: list[tuple[str, dict[str, str]]], gone: set[str]
) -> tuple[set[str], list[tuple[str, dict[str, str]]]]:
    """Return the switches that have no more switches below them, and the other lines."""
    empty, kept = set(), []
    for line, pairs in rows:
        below = list(expand(pairs.get("Switches", "")))
        if gone.intersection(below):
            pairs["Switches"] = fold(name for name in below if name not in gone)
            line = line_of(pairs)
        if below and not pairs["Switches"]:
            empty.add(pairs["SwitchName"])
        else:
            kept.append((line, pairs))
    return empty, kept


def lines(cluster: Cluster) -> list[str]:
    """Return the lines of topology.conf, leaves first; raises TopologyError if this Slurm does not support the topology."""
    return slurm_topology.conf(topology_of(cluster), cluster.slurm.version).splitlines()
