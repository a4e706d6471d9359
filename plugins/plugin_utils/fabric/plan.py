# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of the fabric that a cluster file describes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import (
    COMPUTE,
    STORAGE,
    Domain,
    Partition,
    Plan,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.servers import Plug, Server, attach
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    TEMPLATES,
    Host,
    Nic,
    Shape,
    TemplateError,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, Fabric, Node
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.fabric import BY_UNIT, in_fabric
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.fields import Mistakes, Path, allowed
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.fields import near as hint
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.reader import read


def plan_of(cluster: Cluster) -> Plan:
    """Return the plan; TemplateError says why there is none, with the lines of all that is wrong, and what would work."""
    fabric = cluster.fabric
    if fabric is None:
        raise TemplateError(f"{cluster.path}: there is no section `fabric`, so there is nothing to plan")
    hosts = [_host(node, fabric.kind) for node in cluster.nodes if in_fabric(node.profile, fabric.kind)]
    if not hosts:
        rail = " with a rail" if fabric.kind in BY_UNIT else ""
        raise TemplateError(
            f"{cluster.path}: no profile has `nics`{rail}, so no cable goes to a node: name the NICs of the fabric"
        )
    plan = TEMPLATES[fabric.kind](hosts, _shape(cluster, fabric))
    wrong = _Wrong(cluster.path)
    _add_servers(plan, cluster, fabric, wrong)
    _stand(plan, fabric, wrong)
    _check_spare(plan, fabric, wrong)
    _leave_out(plan, fabric, wrong)
    wrong.end()
    plan.partitions = [Partition(one.name, one.pkey, dict(one.members), one.ipoib) for one in fabric.partitions]
    plan.domains = domains_of(cluster)
    return plan


@dataclass
class _Wrong:
    """Collects what is wrong with places in the plan; the file is read again for the lines only where something is."""

    path: str
    found: list[tuple[Path, str]] = field(default_factory=list)

    def add(self, where: Path, text: str) -> None:
        self.found.append((where, text))

    def end(self) -> None:
        if not self.found:
            return
        try:
            lines = read(self.path)[1]
        except ClusterFileError:
            lines = {}
        mistakes = Mistakes(lines)
        for where, text in self.found:
            mistakes.add(where, text)
        raise TemplateError(str(ClusterFileError(self.path, mistakes.found)))


def _shape(cluster: Cluster, fabric: Fabric) -> Shape:
    spare: dict[str, list[int]] = {}
    for _number, switch, port in fabric.spare:
        spare.setdefault(switch, []).append(port)
    return Shape(
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


def _host(node: Node, kind: str) -> Host:
    rack, profile = node.rack, node.profile
    by_unit = kind in BY_UNIT
    nics = [
        Nic(nic.name, nic.rail, STORAGE if nic.rail is None else COMPUTE)
        for nic in profile.nics
        if nic.rail is not None or not by_unit
    ]
    unit = rack.leaf if by_unit else rack.pod or ""
    return Host(node.name, nics, rack.name, unit, rack.leaf)


def _add_servers(plan: Plan, cluster: Cluster, fabric: Fabric, wrong: _Wrong) -> None:
    """Add the NICs of hosts, and the leaves that are theirs."""
    servers = []
    for host in cluster.hosts.values():
        plugs = [Plug(nic.name, nic.rail, nic.purpose, nic.leaf or "", nic.port) for nic in host.nics]
        rack = cluster.racks.get(host.rack or "")
        servers.append(Server(host.name, plugs, host.rack or "", rack.leaf if rack else ""))
    for one in attach(plan, servers, fabric.leaves):
        where: Path = ("hosts", one.server, "nics", one.number) if one.server else ("fabric", "leaves", one.number)
        wrong.add(where, one.text)


def _stand(plan: Plan, fabric: Fabric, wrong: _Wrong) -> None:
    """Put the switches into the racks that are stated."""
    unknown: dict[str, list[str]] = {}
    for key, name, rack in fabric.switch_racks:
        if switch := plan.switches.get(name):
            plan.switches[name] = replace(switch, rack=rack)
        else:
            unknown.setdefault(key, []).append(name)
    for key, names in unknown.items():
        others = f", and {len(names) - 1} more of these" if len(names) > 1 else ""
        said = hint(names[0], list(plan.switches)) or allowed(list(plan.switches))
        wrong.add(("fabric", "switch_racks", key), f"the plan has no switch {names[0]!r}{others}.{said}")


def _check_spare(plan: Plan, fabric: Fabric, wrong: _Wrong) -> None:
    for number, name, port in fabric.spare:
        switch = plan.switches.get(name)
        if switch is None:
            wrong.add(("fabric", "spare", number), f"the plan has no switch {name!r}.{hint(name, list(plan.switches))}")
        elif not 1 <= port <= switch.ports:
            wrong.add(("fabric", "spare", number), f"{name} has no port {port}. Allowed: 1 to {switch.ports}.")


def _leave_out(plan: Plan, fabric: Fabric, wrong: _Wrong) -> None:
    """Mark the cables that the file leaves out."""
    if not fabric.missing:
        return
    places = {end: number for number, link in enumerate(plan.links) for end in link.ends}
    for number, name, port in fabric.missing:
        if (place := places.get((name, port))) is None:
            wrong.add(("fabric", "missing", number), f"no cable of the plan ends at {name}:{port}.")
        else:
            plan.links[place] = replace(plan.links[place], missing=True)


def domains_of(cluster: Cluster) -> list[Domain]:
    """Return the NVLink domains: the nodes of a rack whose profile has one, or as many of that size as they make."""
    members: dict[tuple[str, int], list[str]] = {}
    for node in cluster.nodes if cluster.has_domains else ():
        if size := node.nvlink_domain:
            members.setdefault((node.rack.name, size), []).append(node.name)
    found = []
    for (rack, size), names in members.items():
        # What is too few or too many by some nodes is no second domain: P12 tells of it.
        parts = len(names) // size if names and len(names) % size == 0 else 1
        each = len(names) // parts
        for part in range(parts):
            name = rack if parts == 1 else f"{rack}-{part + 1}"
            found.append(Domain(name, tuple(names[part * each : (part + 1) * each]), rack, size))
    return found
