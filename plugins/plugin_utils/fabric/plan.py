# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the fabric that a cluster file describes."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import COMPUTE, STORAGE, Plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    TEMPLATES,
    Host,
    Nic,
    Shape,
    TemplateError,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, Node


def plan_of(cluster: Cluster) -> Plan:
    """Return the plan; TemplateError says why there is none, and what would work."""
    fabric = cluster.fabric
    if fabric is None:
        raise TemplateError(f"{cluster.path}: there is no section `fabric`, so there is nothing to plan")
    hosts = [_host(node, fabric.kind) for node in cluster.nodes if node.profile.nics]
    if not hosts:
        raise TemplateError(
            f"{cluster.path}: no profile has `nics`, so no cable goes to a node: name the NICs of the fabric"
        )
    shape = Shape(
        name=cluster.name,
        technology=fabric.technology,
        speed=fabric.speed,
        ports=fabric.switch_ports,
        lanes=fabric.cage_ports,
        uplinks=fabric.uplinks or 0,
        spines=fabric.spines,
        cores=fabric.cores,
        oversubscription=float(fabric.oversubscription),
        global_links=fabric.global_links,
    )
    plan = TEMPLATES[fabric.kind](hosts, shape)
    _leave_out(plan, fabric.missing, cluster.path)
    return plan


def _host(node: Node, kind: str) -> Host:
    rack, profile = node.rack, node.profile
    by_unit = kind in ("rail-optimised", "rail-only")
    nics = [
        Nic(nic.name, nic.rail, STORAGE if nic.rail is None else COMPUTE)
        for nic in profile.nics
        if nic.rail is not None or not by_unit
    ]
    unit = rack.leaf if by_unit else rack.pod or ""
    return Host(node.name, nics, rack.name, unit, rack.leaf)


def _leave_out(plan: Plan, missing: tuple[tuple[str, int], ...], path: str) -> None:
    """Mark the cables that the file leaves out."""
    if not missing:
        return
    places = {end: number for number, link in enumerate(plan.links) for end in link.ends}
    unknown = [f"{name}:{port}" for name, port in missing if (name, port) not in places]
    if unknown:
        raise TemplateError(f"{path}: fabric.missing: no cable of the plan ends at {', '.join(unknown)}")
    for end in missing:
        plan.links[places[end]] = replace(plan.links[places[end]], missing=True)
