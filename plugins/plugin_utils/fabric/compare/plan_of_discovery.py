# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a plan from a discovery, for sites without their own plan: the present cables count as planned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    CA,
    SWITCH,
    DiscoveredNode,
    Discovery,
)

from ..core.fabric_model import STORAGE, Hca, Link, Plan, Switch
from ..core.node_descriptions import is_aggregation, is_unnamed, plain_name
from ..core.switch_graph import tiers_of

# A host's name, with or without a domain, at the start of an HCA's description.
HOST = r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_-]*)(?:\.[A-Za-z0-9_.-]*)?(?: .*)?"


def plan_of(
    discoveries: Mapping[str, Discovery],
    *,
    name: str = "fabric",
    hosts: Iterable[str] | None = None,
    host: str = HOST,
    storage: str = "",
    group: str = "",
) -> tuple[Plan, list[Finding]]:
    """Return discoveries (plane -> discovery) as a plan, and findings about unused parts.

    `host` is the pattern of an HCA's whole description, with the host as group `host`; `hosts`, if given, are all hosts.
    HCAs whose description matches the pattern `storage` have that purpose. `group` is the pattern of the dragonfly group in a
    switch's name: cabling cannot distinguish groups of two routers from a ring.
    """
    reader = _PlanBuilder(name, None if hosts is None else set(hosts), re.compile(host), storage, group)
    for plane, discovery in discoveries.items():
        reader.names(plane, discovery)
    for discovery in discoveries.values():
        reader.cables(discovery)
    reader.silent(discoveries.values())
    plan = reader.plan
    for switch, tier in _tiers(plan).items():
        plan.switches[switch] = replace(plan.switches[switch], tier=tier)
    return plan, reader.report()


class _PlanBuilder:
    def __init__(self, name: str, hosts: set[str] | None, host: re.Pattern[str], storage: str, group: str) -> None:
        self.plan = Plan(name, "dragonfly" if group else "discovered")
        self.known = hosts
        self.host = host
        self.storage = re.compile(storage) if storage else None
        self.group = re.compile(group) if group else None
        self.by_guid: dict[str, str] = {}
        self.unnamed: list[tuple[DiscoveredNode, str]] = []
        self.strangers: list[str] = []
        self.aggregation = 0
        self.findings: list[Finding] = []

    def names(self, plane: str, discovery: Discovery) -> None:
        """Add all nodes of a plane, sorted by GUID, so that the order of discovery does not matter."""
        nodes = sorted(discovery.nodes.values(), key=lambda node: node.guid)
        count = Counter(plain_name(node.description) for node in nodes if node.kind == SWITCH)
        for node in nodes:
            if node.guid in self.by_guid:
                continue
            if node.kind == SWITCH:
                self._switch(plane, node, count)
            elif node.kind == CA:
                self._hca(plane, node)
        if discovery.troubles:
            number, text = discovery.troubles[0]
            text = f"the tool reported {len(discovery.troubles)} errors, first in line {number}: {text!r}"
            self.findings.append(Finding("partial", self._plane(plane), "", text, "discover again", WARNING))
        for number, text in discovery.unread:
            found = f"could not be parsed: {text!r}"
            self.findings.append(Finding("unread", f"line {number}", "", found, severity=WARNING))

    def silent(self, discoveries: Iterable[Discovery]) -> None:
        """Report switches that others name and whose own report is missing or incomplete: their cables are unknown."""
        nodes = [node for discovery in discoveries for node in discovery.nodes.values()]
        reported = {node.guid for node in nodes if not node.cut}
        named = {node.guid: node.description for node in nodes if node.kind == SWITCH}
        for node in nodes:
            named.update({cable.guid: cable.description for cable in node.cables.values() if cable.kind == SWITCH})
        if missing := {guid: text for guid, text in named.items() if guid not in reported}:
            names = few(sorted(plain_name(text) or guid for guid, text in missing.items()))
            text = (
                f"{len(missing)} switches are named by others, and their own report is missing or incomplete: {names}"
            )
            remedy = "the discovery was cut off, or they do not answer: discover again"
            self.findings.append(Finding("partial", self.plan.name, "", text, remedy))

    def _plane(self, plane: str) -> str:
        return f"the discovery of {plane}" if plane else "the discovery"

    def _switch(self, plane: str, node: DiscoveredNode, count: Counter[str]) -> None:
        name = plain_name(node.description) or "switch"
        if count[name] > 1 or name in self.plan.switches or is_unnamed(name):
            name = f"{name.split(';')[0].split(' ')[0]}-{node.guid}"
        match = self.group.search(name) if self.group else None
        group = match[match.lastindex or 0] if match else ""
        self.by_guid[node.guid] = name
        self.plan.add(Switch(name, node.ports, 0, None, group, plane, guid=node.guid))

    def _hca(self, plane: str, node: DiscoveredNode) -> None:
        if is_aggregation(node.description):
            self.aggregation += 1
            return
        match = None if is_unnamed(node.description) else self.host.fullmatch(node.description.strip())
        if not match:
            self.unnamed.append((node, plane))
            return
        host = match["host"]
        if self.known is not None and host not in self.known:
            self.strangers.append(host)
            return
        device = node.description.strip().partition(" ")[2].strip() or node.guid
        purpose = STORAGE if self.storage and self.storage.search(node.description) else "compute"
        hca = Hca(host, device, None, plane, purpose, guid=node.guid)
        if hca.name in self.plan.hcas:
            hca = replace(hca, device=f"{device} {node.guid}")
        self.by_guid[node.guid] = hca.name
        self.plan.add(hca)

    def cables(self, discovery: Discovery) -> None:
        """Add every cable once, HCAs and lower names first."""
        done = {end for link in self.plan.links for end in link.ends}
        for node in discovery.nodes.values():
            one = self.by_guid.get(node.guid, "")
            for port, cable in sorted(node.cables.items()):
                other = self.by_guid.get(cable.guid, "")
                ends = sorted(((one, port), (other, cable.port)), key=lambda end: (end[0] in self.plan.switches, end))
                if not one or not other or done.intersection(ends):
                    continue
                done.update(ends)
                kind = "host" if ends[0][0] in self.plan.hcas else "switch"
                self.plan.links.append(Link(*ends[0], *ends[1], kind))
        self.plan.links.sort(key=lambda link: (link.kind, link.ends))

    def report(self) -> list[Finding]:
        """Return findings about unused parts, with the reason."""
        for node, _plane in self.unnamed:
            cable = next(iter(node.cables.values()), None)
            leaf = self.by_guid.get(cable.guid, cable.guid) if cable else f"GUID {node.guid}"
            where = f"{leaf} port {cable.port}" if cable else leaf
            text = f"the HCA has the description {node.description!r}, which names no host"
            remedy = "set its NodeDescription (rdma-ndd), or set the pattern of your names"
            self.findings.append(Finding("unnamed", where, "", text, remedy, WARNING))
        if self.strangers:
            names = fold(sorted(set(self.strangers)))
            text = f"{len(self.strangers)} HCAs do not belong to a host of the cluster and were left out: {names}"
            self.findings.append(Finding("unknown", self.plan.name, "", text, severity=NOTICE))
        if self.aggregation:
            text = f"{self.aggregation} aggregation nodes (SHARP) are not hosts and were left out"
            self.findings.append(Finding("aggregation", self.plan.name, "", text, severity=NOTICE))
        return self.findings


def _tiers(plan: Plan) -> dict[str, int]:
    """Return the tier of each switch."""
    near: dict[str, set[str]] = {name: set() for name in plan.switches}
    hosts: Counter[str] = Counter()
    for link in plan.links:
        if link.kind == "host":
            hosts[link.b] += 1
        else:
            near[link.a].add(link.b)
            near[link.b].add(link.a)
    return tiers_of(near, hosts)
