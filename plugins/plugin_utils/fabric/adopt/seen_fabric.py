# SPDX-License-Identifier: GPL-3.0-or-later
"""A discovered fabric with a unique name for every node: its own, or its GUID if its own cannot be used."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.gc_pause import suspend_collection
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, SWITCH, Discovery

from ..compare.merge import MergedDiscovery, MergedNode, merge
from ..core.fabric_model import Hca, Link, Plan, Switch
from ..core.link_rates import Rate
from ..core.node_descriptions import is_aggregation, is_unnamed, natural, plain_name, switch_names
from ..core.places import End
from ..core.switch_graph import tiers_of, with_empty_leaves
from ..core.unnamed_nodes import DEVICE, unnamed

_CHIP = re.compile(r"-(U[0-9]+)\Z")
# What a list of cables and Slurm take as a name.
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


@dataclass
class SeenFabric:
    """A discovered fabric in unique names; `plan` has its switches with tiers, its HCAs with rails, and its cables."""

    merged: MergedDiscovery
    plan: Plan
    # GUID of a node -> its name; aggregation nodes and routers have none.
    names: dict[str, str] = field(default_factory=dict)
    # Names of nodes without a usable description, and names that two nodes have.
    unnamed: dict[str, MergedNode] = field(default_factory=dict)
    twice: dict[str, list[str]] = field(default_factory=dict)
    # Switches and HCAs that others name and that did not report themselves.
    silent: list[str] = field(default_factory=list)
    # Rate of a port, as its own node reports it.
    rates: dict[End, Rate] = field(default_factory=dict)
    # (end that reports a cable, end that does not)
    half: list[tuple[End, End]] = field(default_factory=list)
    # Cables of HCAs with several ports; a plan has one port of an HCA.
    second_ports: list[Link] = field(default_factory=list)
    # Cables with both ends in one switch.
    loops: list[Link] = field(default_factory=list)
    aggregation: int = 0
    # Findings on names of ports that give no numbers, or several.
    unclear: list[Finding] = field(default_factory=list)


@suspend_collection
def seen_fabric(discoveries: Mapping[str, Discovery], rails: Mapping[str, int | None] | None = None) -> SeenFabric:
    """Return the discovered fabric. `rails` has the rail of an HCA by its name; without it, device names that sort alike are rails."""
    seen = _Reader(merge(discoveries), rails).read()
    # Frames of LLDP are compared with a plan alone.
    listed = [one for discovery in discoveries.values() for one in discovery.findings]
    seen.unclear = [one for one in listed if one.kind == "unclear"]
    return seen


class _Reader:
    def __init__(self, merged: MergedDiscovery, rails: Mapping[str, int | None] | None) -> None:
        self.merged, self.rails = merged, rails
        self.seen = SeenFabric(merged, Plan("discovered", "discovered"))

    def read(self) -> SeenFabric:
        nodes = list(self.merged.nodes.values())
        switches = [node for node in nodes if node.kind == SWITCH]
        hcas = [node for node in nodes if node.kind == CA and not is_aggregation(node.description)]
        self.seen.aggregation = sum(node.kind == CA and is_aggregation(node.description) for node in nodes)
        self._name_switches(switches)
        self._name_hcas(hcas)
        names = self.seen.names
        self.seen.silent = sorted((names[node.guid] for node in (*switches, *hcas) if not node.reported), key=natural)
        self._add(switches, hcas)
        self._cables()
        for rate, ports in self.merged.rates.items():
            self.seen.rates.update(((names[guid], port), rate) for guid, port in ports if guid in names)
        self.seen.half = [
            ((names[near[0]], near[1]), (names[far[0]], far[1]))
            for near, far in self.merged.half
            if near[0] in names and far[0] in names
        ]
        return self.seen

    def _name_switches(self, switches: list[MergedNode]) -> None:
        """Name switches by their descriptions; one of several in a chassis has the number of its chip behind the name."""
        plain = Counter(plain_name(node.description).lower() for node in switches)
        wanted: dict[str, list[tuple[str, MergedNode]]] = {}
        for node in switches:
            name = plain_name(node.description)
            if plain[name.lower()] > 1:
                name = next((one for one in switch_names(node.description) if one == f"{name}-{_chip(one)}"), name)
            wanted.setdefault(name.lower(), []).append((name, node))
        for rivals in wanted.values():
            for name, node in rivals:
                usable = len(rivals) == 1 and not is_unnamed(node.description) and _WORD.match(name)
                self._take(node, name if usable else "", unnamed(node.guid))
            self._note_twice([node for _name, node in rivals])

    def _name_hcas(self, hcas: list[MergedNode]) -> None:
        wanted: dict[str, list[MergedNode]] = {}
        for node in hcas:
            wanted.setdefault(plain_name(node.description).lower(), []).append(node)
        for nodes in wanted.values():
            for node in nodes:
                name = plain_name(node.description)
                words = name.split(" ")
                usable = len(nodes) == 1 and not is_unnamed(node.description) and len(words) == 2
                usable = usable and all(_WORD.match(word) for word in words)
                self._take(node, name if usable else "", f"{unnamed(node.guid)} {DEVICE}")
            self._note_twice(nodes)

    def _note_twice(self, nodes: list[MergedNode]) -> None:
        if len(nodes) > 1 and not is_unnamed(nodes[0].description):
            self.seen.twice[plain_name(nodes[0].description)] = [self.seen.names[node.guid] for node in nodes]

    def _take(self, node: MergedNode, name: str, otherwise: str) -> None:
        self.seen.names[node.guid] = name or otherwise
        if not name:
            self.seen.unnamed[otherwise] = node

    def _add(self, switches: list[MergedNode], hcas: list[MergedNode]) -> None:
        plan, names = self.seen.plan, self.seen.names
        devices = sorted({names[node.guid].partition(" ")[2] for node in hcas} - {DEVICE}, key=natural)
        highest: Counter[str] = Counter()
        for guid, port in self.merged.cables:
            highest[guid] = max(highest[guid], port)
        number = {device: place for place, device in enumerate(devices)}
        for node in sorted(switches, key=lambda node: natural(names[node.guid])):
            plan.add(Switch(names[node.guid], _ports_of(node, highest[node.guid]), 0, guid=node.guid))
        for node in sorted(hcas, key=lambda node: natural(names[node.guid])):
            name = names[node.guid]
            host, _blank, device = name.partition(" ")
            rail = number.get(device) if self.rails is None else self.rails.get(name, self.rails.get(name.lower()))
            plan.add(Hca(host, device, rail, guid=node.guid, port_guid=node.port_guid))

    def _cables(self) -> None:
        """Add every cable once, hosts' cables first, lower ends first, in natural order."""
        plan, names = self.seen.plan, self.seen.names
        found: list[Link] = []
        for (guid, port), (far_guid, far_port) in self.merged.cables.items():
            if guid not in names or far_guid not in names:
                continue
            one, other = (names[guid], port), (names[far_guid], far_port)
            if guid == far_guid:
                self.seen.loops += [Link(*one, *other, "local")] if port <= far_port else []
                continue
            if one[0] in plan.hcas or (other[0] in plan.switches and one < other):
                found.append(Link(*one, *other, "host" if one[0] in plan.hcas else "switch"))
        near: dict[str, set[str]] = {name: set() for name in plan.switches}
        hosts: Counter[str] = Counter()
        for link in found:
            if link.kind == "host":
                hosts[link.b] += link.b in near
            else:
                near[link.a].add(link.b)
                near[link.b].add(link.a)
        tiers = with_empty_leaves(tiers_of(near, hosts), near)
        for name, tier in tiers.items():
            plan.switches[name] = replace(plan.switches[name], tier=tier)
        plan.links = sorted(self._kept(found, tiers), key=lambda link: _in_order(link, tiers))

    def _kept(self, found: list[Link], tiers: Mapping[str, int]) -> Iterator[Link]:
        for link in found:
            if link.kind == "host":
                if link.a_port == 1 and link.b in tiers:
                    yield link
                else:
                    self.seen.second_ports.append(link)
            elif (tiers[link.a], natural(link.a)) <= (tiers[link.b], natural(link.b)):
                yield link
            else:
                yield replace(link, a=link.b, a_port=link.b_port, b=link.a, b_port=link.a_port)


def _chip(name: str) -> str:
    """Return the number of a chip at the end of a name, such as U2; "" without one."""
    match = _CHIP.search(name)
    return match[1] if match else ""


def _in_order(link: Link, tiers: Mapping[str, int]) -> tuple[object, ...]:
    """Return a key that sorts hosts' cables by leaf and port, then cables between switches by their lower end."""
    if link.kind == "host":
        return 0, natural(link.b), link.b_port
    return tiers[link.a], natural(link.a), link.a_port


def _ports_of(node: MergedNode, highest: int) -> int:
    """Return the ports of a switch for cables: the one behind them that SHARP's node is on does not count.

    Switches have an even number of ports for cables, so an odd number counts that port. A switch that did not report itself has
    at least its highest known port.
    """
    return node.ports - node.ports % 2 or highest + highest % 2
