# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the fabric that a cluster file describes."""

from __future__ import annotations

from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ...cluster import Cluster, Fabric, Node
from ...cluster.fabric_checks import BY_UNIT, in_fabric
from ...cluster.nvlink_domains import split
from ...cluster.schema.fields import Path, allowed
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core.fabric_model import COMPUTE, STORAGE, Domain, Plan, TenantPartition
from .plan_mistakes import check_ports
from .servers import Plug, Server, attach
from .templates import TEMPLATES, FabricShape, TemplateError, WiredHost, WiredNic, unjoined


def plan_of(cluster: Cluster) -> Plan:
    """Return the plan; TemplateError has the reasons against one, with their lines and alternatives."""
    fabric, wrong = cluster.fabric, MistakeCollector(cluster.path)
    if fabric is None:
        wrong.add(("fabric",), "there is no section `fabric`, so there is nothing to plan")
        raise TemplateError("\n".join(wrong.lines()))
    hosts = [_host(node, fabric.kind) for node in cluster.nodes if in_fabric(node.profile, fabric.kind)]
    if not hosts:
        rail = " with a rail" if fabric.kind in BY_UNIT else ""
        wrong.add(
            ("profiles",), f"no profile has `nics`{rail}, so no cable goes to a node: name the NICs of the fabric"
        )
        raise TemplateError("\n".join(wrong.lines()))
    shape, whole = _shape(cluster, fabric), True
    try:
        plan = TEMPLATES[fabric.kind](hosts, shape)
    except TemplateError as error:
        for key, text in error.mistakes:
            wrong.add(("fabric", key), text)
        plan, whole = unjoined(fabric.kind, hosts, shape), False
    plugged = _add_servers(plan, cluster, fabric, wrong, whole)
    _stand(plan, fabric, wrong)
    check_ports(plan, fabric.spare, "spare", wrong)
    check_ports(plan, fabric.missing, "missing", wrong)
    # Leaves of servers have uplinks when all servers are plugged in.
    whole = whole and (plugged or not fabric.leaves)
    if whole:
        _leave_out(plan, fabric, wrong)
    if plugged:
        plan.partitions = [
            TenantPartition(one.name, one.pkey, dict(one.members), one.ipoib) for one in fabric.partitions
        ]
    plan.domains = domains_of(cluster)
    if wrong.found:
        why = TemplateError("\n".join(wrong.lines()))
        why.plan, why.whole = plan, whole
        raise why
    return plan


def _shape(cluster: Cluster, fabric: Fabric) -> FabricShape:
    spare: dict[str, list[int]] = {}
    for _number, switch, port in fabric.spare:
        # What is no port, or comes twice, must not count as one that is lost.
        if 1 <= port <= fabric.switch_ports and port not in spare.setdefault(switch, []):
            spare[switch].append(port)
    return FabricShape(
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
        spare=spare,
    )


def _host(node: Node, kind: str) -> WiredHost:
    rack, profile = node.rack, node.profile
    by_unit = kind in BY_UNIT
    nics = [
        WiredNic(nic.name, nic.rail, STORAGE if nic.rail is None else COMPUTE, nic.fabric_name)
        for nic in profile.nics
        if nic.rail is not None or not by_unit
    ]
    unit = rack.leaf if by_unit else rack.pod or ""
    return WiredHost(node.name, nics, rack.name, unit, rack.leaf)


def _add_servers(plan: Plan, cluster: Cluster, fabric: Fabric, wrong: MistakeCollector, whole: bool) -> bool:
    """Add the NICs of hosts, and the leaves that are theirs; return whether all are plugged in."""
    servers = []
    for host in cluster.hosts.values():
        plugs = [Plug(nic.name, nic.rail, nic.purpose, nic.leaf or "", nic.port, nic.fabric_name) for nic in host.nics]
        rack = cluster.racks.get(host.rack or "")
        servers.append(Server(host.name, plugs, host.rack or "", rack.leaf if rack else ""))
    found = attach(plan, servers, fabric.leaves, whole)
    for one in found:
        where: Path = ("hosts", one.server, "nics", one.number) if one.server else ("fabric", "leaves", one.number)
        wrong.add(where, one.text)
    return whole and not found


def _stand(plan: Plan, fabric: Fabric, wrong: MistakeCollector) -> None:
    """Put the switches into the racks that are stated."""
    unknown: dict[str, list[str]] = {}
    for key, name, rack in fabric.switch_racks:
        if switch := plan.switches.get(name):
            plan.switches[name] = replace(switch, rack=rack)
        else:
            unknown.setdefault(key, []).append(name)
    for key, names in unknown.items():
        others = f", and {len(names) - 1} more of these" if len(names) > 1 else ""
        said = did_you_mean(names[0], list(plan.switches)) or allowed(list(plan.switches))
        wrong.add(("fabric", "switch_racks", key), f"the plan has no switch {names[0]!r}{others}.{said}")


def _leave_out(plan: Plan, fabric: Fabric, wrong: MistakeCollector) -> None:
    """Mark the cables that the file leaves out."""
    if not fabric.missing:
        return
    places = {end: number for number, link in enumerate(plan.links) for end in link.ends}
    without: dict[int, list[str]] = {}
    for number, name, port in fabric.missing:
        if (place := places.get((name, port))) is not None:
            plan.links[place] = replace(plan.links[place], missing=True)
        elif name in plan.switches and 1 <= port <= plan.switches[name].ports:
            without.setdefault(number, []).append(f"{name}:{port}")
    for number, ends in without.items():
        wrong.add(("fabric", "missing", number), f"no cable of the plan ends at {fold(ends)}.")


def domains_of(cluster: Cluster) -> list[Domain]:
    """Return the NVLink domains: the nodes of a rack whose profile has one, or as many of that size as they make."""
    members: dict[tuple[str, int], list[str]] = {}
    for node in cluster.nodes if cluster.has_domains else ():
        if size := node.nvlink_domain:
            members.setdefault((node.rack.name, size), []).append(node.name)
    found = []
    for (rack, size), names in members.items():
        parts = split(names, size)
        for number, hosts in enumerate(parts, start=1):
            found.append(Domain(rack if len(parts) == 1 else f"{rack}-{number}", hosts, rack, size))
    return found
