# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the fabric that a cluster file describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ...cluster import Cluster, Fabric, Node
from ...cluster.fabric_checks import in_fabric
from ...cluster.nvlink_domains import split, whole_sizes
from ...cluster.schema.fabric_section import BY_UNIT
from ...cluster.schema.fields import Path, allowed
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core.fabric_model import COMPUTE, STORAGE, Domain, Plan, TenantPartition
from .cable_rows import WrittenCables
from .listed_plan import ListError, listed_plan
from .plan_mistakes import check_ports
from .planned_rates import plan_rates
from .servers import Plug, Server, attach
from .templates import TEMPLATES, FabricShape, TemplateError, WiredHost, WiredNic, unjoined


def plan_of(cluster: Cluster, written: WrittenCables | None = None) -> Plan:
    """Return the plan; TemplateError has the reasons against one, with their lines and alternatives.

    `written` replaces the list of cables that `fabric.cables` names.
    """
    fabric, wrong = cluster.fabric, MistakeCollector(cluster.path, cluster.stated)
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
    if fabric.cables:
        plan, whole, plugged = _listed(cluster, fabric, wrong, written), True, True
    else:
        plan, whole, plugged = _templated(cluster, fabric, hosts, wrong)
    _stand(plan, fabric, wrong)
    plan_rates(plan, cluster, fabric, wrong)
    check_ports(plan, fabric.spare, "spare", wrong)
    check_ports(plan, fabric.missing, "missing", wrong)
    if whole:
        _leave_out(plan, fabric, wrong)
    if plugged:
        plan.partitions = [
            TenantPartition(one.name, one.pkey, dict(one.members), one.ipoib) for one in fabric.partitions
        ]
    plan.part, plan.elsewhere = cluster.stated.part, cluster.elsewhere
    if cluster.stated.first:
        plan.domains = domains_of(cluster)
    if wrong.found:
        why = TemplateError("\n".join(wrong.lines()))
        why.plan, why.whole = plan, whole
        raise why
    return plan


def _listed(cluster: Cluster, fabric: Fabric, wrong: MistakeCollector, written: WrittenCables | None) -> Plan:
    """Return the plan of a list of cables; mistakes of the list are the only ones then."""
    try:
        return listed_plan(cluster, fabric, wrong, written)
    except ListError as error:
        raise TemplateError("\n".join([*wrong.lines(), cluster.stated.text(str(error))])) from None


def _templated(
    cluster: Cluster, fabric: Fabric, hosts: Sequence[WiredHost], wrong: MistakeCollector
) -> tuple[Plan, bool, bool]:
    """Return the plan of a shape, whether it has all cables between switches, and whether all servers are plugged in."""
    shape, whole = _shape(cluster, fabric), True
    try:
        plan = TEMPLATES[fabric.kind](hosts, shape)
    except TemplateError as error:
        for key, text in error.mistakes:
            wrong.add(("fabric", key), text)
        plan, whole = unjoined(fabric.kind, hosts, shape), False
    plugged = _add_servers(plan, cluster, fabric, wrong, shape, whole)
    _check_traits(plan, fabric, wrong)
    # Leaves of servers have uplinks when all servers are plugged in.
    return plan, whole and (plugged or not fabric.leaves), plugged


def _check_traits(plan: Plan, fabric: Fabric, wrong: MistakeCollector) -> None:
    """Note the names in fabric.switches that the plan lacks."""
    unknown: dict[str, list[str]] = {}
    for one in fabric.switches:
        if one.name not in plan.switches:
            unknown.setdefault(one.key, []).append(one.name)
    _note_unknown(plan, "switches", unknown, wrong)


def _shape(cluster: Cluster, fabric: Fabric) -> FabricShape:
    spare: dict[str, list[int]] = {}
    ports = {one.name: one.ports for one in fabric.switches if one.ports}
    for _number, switch, port in fabric.spare:
        # What is no port, or comes twice, must not count as one that is lost.
        if 1 <= port <= ports.get(switch, fabric.switch_ports) and port not in spare.setdefault(switch, []):
            spare[switch].append(port)
    return FabricShape(
        name=cluster.fabric_title,
        technology=fabric.technology,
        speed=fabric.speed,
        ports=fabric.switch_ports,
        lanes=fabric.cage_ports,
        uplinks=fabric.uplinks or 0,
        spines=fabric.spines,
        cores=fabric.cores,
        oversubscription=float(fabric.oversubscription),
        sharp=fabric.sharp,
        global_links=fabric.global_links,
        spare=spare,
        own_ports=ports,
        own_lanes={one.name: one.cage_ports for one in fabric.switches if one.cage_ports},
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


def _add_servers(
    plan: Plan, cluster: Cluster, fabric: Fabric, wrong: MistakeCollector, shape: FabricShape, whole: bool
) -> bool:
    """Add the NICs of hosts, and the leaves that are theirs; return whether all are plugged in."""
    servers = []
    for host in cluster.hosts.values():
        plugs = [Plug(nic.name, nic.rail, nic.purpose, nic.leaf or "", nic.port, nic.fabric_name) for nic in host.nics]
        rack = cluster.racks.get(host.rack or "")
        servers.append(Server(host.name, plugs, host.rack or "", rack.leaf if rack else ""))
    found = attach(plan, servers, fabric.leaves, whole, shape.sized)
    for one in found:
        where: Path = (
            cluster.nic_path(("hosts", one.server), one.number) if one.server else ("fabric", "leaves", one.number)
        )
        wrong.add(where, one.text)
    return whole and not found


def _note_unknown(plan: Plan, section: str, unknown: Mapping[str, Sequence[str]], wrong: MistakeCollector) -> None:
    """Note the switches that keys of a section of the fabric name and the plan lacks."""
    for key, names in unknown.items():
        others = f", and {len(names) - 1} more of these" if len(names) > 1 else ""
        said = did_you_mean(names[0], list(plan.switches)) or allowed(list(plan.switches))
        wrong.add(("fabric", section, key), f"the plan has no switch {names[0]!r}{others}.{said}")


def _stand(plan: Plan, fabric: Fabric, wrong: MistakeCollector) -> None:
    """Put the switches into the racks that are stated."""
    unknown: dict[str, list[str]] = {}
    for key, name, rack in fabric.switch_racks:
        if switch := plan.switches.get(name):
            plan.switches[name] = replace(switch, rack=rack)
        else:
            unknown.setdefault(key, []).append(name)
    _note_unknown(plan, "switch_racks", unknown, wrong)


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
    """Return the NVLink domains: the nodes of a rack or of racks with one name, or as many of the planned size as they make."""
    if not cluster.has_domains:
        return []
    whole = whole_sizes(cluster)
    parts = [
        (name, size, part) for (name, size), nodes in cluster.nodes_by_domain.items() for part in split(nodes, size)
    ]
    counts, number = Counter(name for name, _size, _part in parts), Counter[str]()
    found = []
    for name, size, part in parts:
        number[name] += 1
        racks = tuple(dict.fromkeys(node.rack.name for node in part))
        absent = max(0, *(whole[node.profile.name] - size for node in part))
        label = name if counts[name] == 1 else f"{name}-{number[name]}"
        several = racks if len(racks) > 1 else ()
        found.append(Domain(label, tuple(node.name for node in part), racks[0], size, racks=several, absent=absent))
    return found
