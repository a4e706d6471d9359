# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's tree topology: a leaf switch per rack (or per leaf that racks share), and one switch above all leaves.

Spines are not told apart: for Slurm they are one tier, and every spine listed with the same children makes no tree.
"""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from .conf import line_of
from .nodes import folded


def has_topology(cluster: Cluster) -> bool:
    """Tell whether the cluster file describes a fabric."""
    return cluster.fabric is not None


def leaves(cluster: Cluster) -> dict[str, list[str]]:
    """Return leaf -> names of its nodes, in file order; a leaf whose nodes have all gone is left out."""
    members: dict[str, list[str]] = {}
    for node in cluster.nodes:
        members.setdefault(node.rack.leaf, []).append(node.name)
    return members


def switches(cluster: Cluster) -> dict[str, dict[str, str]]:
    """Return switch -> level, folded nodes (all below) and folded switches directly below, as Slurm reports them."""
    if cluster.fabric is None:
        return {}
    by_leaf = leaves(cluster)
    found = {name: {"level": "0", "nodes": fold(members), "switches": ""} for name, members in by_leaf.items()}
    every = fold(node.name for node in cluster.nodes)
    found[cluster.fabric.top] = {"level": "1", "nodes": every, "switches": fold(by_leaf)}
    return found


def lines(cluster: Cluster) -> list[str]:
    """Return the lines of topology.conf, leaves first."""
    found = []
    for name, switch in switches(cluster).items():
        kind = "Switches" if switch["switches"] else "Nodes"
        found.append(line_of({"SwitchName": name, kind: folded(cluster, expand(switch[kind.lower()]))}))
    return found
