# SPDX-License-Identifier: GPL-3.0-or-later
"""Match the nodes of the subnet with the plan's: by name, by GUID, by the order of a host's devices, else by place.

A planned name takes precedence over a GUID, since a GUID moves with an adapter to another host. A node without a usable name is matched by
the planned peers of its cables, so a plan without GUIDs fits a fabric in which a tier, or all switches, have no names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, SWITCH, Discovery, guid_of

from ..core.fabric_model import Hca, Plan, Switch, by_switch
from ..core.node_descriptions import is_aggregation, is_unnamed, natural, plain_name, switch_names
from ..core.places import End, place
from .merge import MergedDiscovery, MergedNode, Port, merge

NAME, GUID, ORDER, PLACE, REST = "name", "GUID", "order", "place", "being the only one left"
# Above this number, switches without a name are reported in one finding.
_MANY = 3


@dataclass
class IdentifiedFabric:
    """Discovered fabric with the plan's names where they match; an unknown node is `description [GUID]`."""

    merged: MergedDiscovery
    # GUID of the node -> name, and how it was matched.
    names: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    ports: dict[End, End] = field(default_factory=dict)
    # Matches that differ from the plan.
    rates: dict[End, tuple[str, str]] = field(default_factory=dict)
    # Name -> GUID of the node, and of an HCA's port.
    guids: dict[str, str] = field(default_factory=dict)
    port_guids: dict[str, str] = field(default_factory=dict)
    # Names that reported themselves, and names that only others reported.
    reported: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    # Name of an unknown node -> its kind.
    strangers: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    # GUIDs of nodes that are not compared, such as SHARP's.
    ignored: set[str] = field(default_factory=set)


def identify_nodes(plan: Plan, discoveries: Mapping[str, Discovery]) -> IdentifiedFabric:
    """Return the discovered fabric with the plan's names."""
    binder = _Binder(plan, merge(discoveries))
    binder.bind()
    return binder.seen


def with_learned_guids(plan: Plan, seen: IdentifiedFabric) -> Plan:
    """Return the plan with the discovered GUIDs, so that a later comparison notices a replaced adapter."""
    full = replace(plan, switches=dict(plan.switches), hcas=dict(plan.hcas))
    for name, guid in seen.guids.items():
        if name in full.switches:
            full.switches[name] = replace(full.switches[name], guid=guid)
        elif name in full.hcas:
            port = seen.port_guids.get(name) or full.hcas[name].port_guid
            full.hcas[name] = replace(full.hcas[name], guid=guid, port_guid=port)
    return full


class _Binder:
    def __init__(self, plan: Plan, merged: MergedDiscovery) -> None:
        self.plan, self.merged = plan, merged
        self.seen = IdentifiedFabric(merged, findings=list(merged.findings))
        things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
        self.on_record = {guid_of(thing.guid): thing.name for thing in things if thing.guid}
        self.taken: set[str] = set()
        # Nodes that share their name with another one, so the name is not trusted.
        self.again: dict[str, str] = {}

    # Only nodes without a match by name are matched by their cables.
    @cached_property
    def planned(self) -> dict[str, dict[int, End]]:
        """Return name -> port -> the other end, as planned."""
        return by_switch(self.plan.present)

    @cached_property
    def cables(self) -> dict[str, dict[int, Port]]:
        """Return GUID -> port -> the other end, as discovered."""
        found: dict[str, dict[int, Port]] = {guid: {} for guid in self.merged.nodes}
        for (guid, port), far in self.merged.cables.items():
            found[guid][port] = far
        return found

    def bind(self) -> None:
        nodes = list(self.merged.nodes.values())
        self.seen.ignored = {node.guid for node in nodes if node.kind == CA and is_aggregation(node.description)}
        open_boxes = [node for node in nodes if node.guid not in self.seen.ignored]
        for step in (self._by_name, self._by_guid, self._by_order, self._by_place, self._by_rest):
            step(open_boxes)
            open_boxes = [node for node in open_boxes if node.guid not in self.seen.names]
        for node in open_boxes:
            name = f"{plain_name(node.description) or 'unnamed'} [{node.guid}]"
            self.seen.names[node.guid] = name
            self.seen.strangers[name] = node.kind
        self._report()
        self._translate()

    def _bind(self, node: MergedNode, name: str, how: str) -> None:
        self.seen.names[node.guid], self.seen.how[name] = name, how
        self.taken.add(name)

    def _by_name(self, nodes: Iterable[MergedNode]) -> None:
        wanted: dict[str, list[MergedNode]] = {}
        for node in nodes:
            if name := self._called(node):
                wanted.setdefault(name, []).append(node)
        contested = {name: rivals for name, rivals in wanted.items() if len(rivals) > 1}
        for name, rivals in wanted.items():
            if name not in contested:
                self._bind(rivals[0], name, NAME)
        for name, rivals in contested.items():
            best = max(rivals, key=lambda node: (self._fits(node, name), self.on_record.get(node.guid) == name))
            self._bind(best, name, NAME)
            self.again.update((node.guid, name) for node in rivals if node is not best)

    def _called(self, node: MergedNode) -> str:
        if node.kind == SWITCH:
            return next((name for name in switch_names(node.description) if name in self.plan.switches), "")
        name = plain_name(node.description)
        return name if name in self.plan.hcas else ""

    def _fits(self, node: MergedNode, name: str) -> int:
        """Return how many cables of a node match the planned ones of `name`, as far as the other ends are known."""
        planned = self.planned.get(name, {})
        far = ((port, (self.seen.names.get(guid, ""), far)) for port, (guid, far) in self.cables[node.guid].items())
        return sum(planned.get(port) == end for port, end in far)

    def _by_guid(self, nodes: Iterable[MergedNode]) -> None:
        for node in nodes:
            name = self.on_record.get(node.guid, "")
            if name and name not in self.taken and (node.kind == SWITCH) == (name in self.plan.switches):
                self._bind(node, name, GUID)

    def _by_order(self, nodes: Iterable[MergedNode]) -> None:
        """Match the devices of a host by their order, if their number is as planned and all have other names (HCA-1 for mlx5_0)."""
        others: dict[str, list[MergedNode]] = {}
        for node in nodes:
            host, blank, _device = plain_name(node.description).partition(" ")
            if node.kind == CA and blank and not is_unnamed(node.description) and node.guid not in self.again:
                others.setdefault(host, []).append(node)
        planned: dict[str, list[str]] = {}
        for name, hca in self.plan.hcas.items():
            if hca.host in others:
                planned.setdefault(hca.host, []).append(name)
        renamed = []
        for host, names in planned.items():
            found = others[host]
            descriptions = {node.description for node in found}
            if len(found) == len(names) == len(descriptions) and not self.taken.intersection(names):
                ordered = sorted(found, key=lambda node: natural(plain_name(node.description)))
                for node, name in zip(ordered, sorted(names, key=natural), strict=False):
                    self._bind(node, name, ORDER)
                renamed.append(host)
        if renamed:
            text = f"{len(renamed)} hosts name their HCAs differently from the plan; they were matched by their order: {few(renamed)}"
            self._add("unnamed", NOTICE, self.plan.name, "", text, "name the devices in the plan as the hosts do")

    def _by_place(self, nodes: Iterable[MergedNode]) -> None:
        """Match nodes by the planned peers of known nodes' cables, until no new match is found."""
        left = list(nodes)
        while left:
            found: dict[str, list[MergedNode]] = {}
            for node in left:
                if name := self._place_of(node):
                    found.setdefault(name, []).append(node)
            new = {rivals[0].guid: name for name, rivals in found.items() if len(rivals) == 1}
            for node in left:
                if node.guid in new:
                    self._bind(node, new[node.guid], PLACE)
            left = [node for node in left if node.guid not in new] if new else []

    def _place_of(self, node: MergedNode) -> str:
        votes: Counter[str] = Counter()
        known = 0
        for port, (guid, far_port) in self.cables[node.guid].items():
            far = self.seen.names.get(guid)
            if far is None:
                continue
            known += 1
            name, planned_port = self.planned.get(far, {}).get(far_port, ("", 0))
            if name and name not in self.taken:
                # The port distinguishes two switches that both have cables to the same switches.
                votes[name] += 2 if planned_port == port else 1
        if node.kind != SWITCH:
            usable = not is_unnamed(node.description) and node.guid not in self.again
            names = [
                name for name in votes if name in self.plan.hcas and not (usable and not self._of_host(node, name))
            ]
            return names[0] if len(names) == 1 else ""
        best = [(name, count) for name, count in votes.most_common() if name in self.plan.switches]
        if not best or best[0][1] < known or (len(best) > 1 and best[1][1] == best[0][1]):
            return ""
        return best[0][0]

    def _of_host(self, node: MergedNode, name: str) -> bool:
        return plain_name(node.description).partition(" ")[0] == self.plan.hcas[name].host

    def _by_rest(self, nodes: Iterable[MergedNode]) -> None:
        nameless = [
            node for node in nodes if node.kind == CA and (is_unnamed(node.description) or node.guid in self.again)
        ]
        rest = [name for name in self.plan.hcas if name not in self.taken] if len(nameless) == 1 else []
        if len(rest) == 1:
            self._bind(nameless[0], rest[0], REST)

    def _report(self) -> None:
        nameless: list[tuple[MergedNode, str]] = []
        for node in self.merged.nodes.values():
            name = self.seen.names.get(node.guid, "")
            if node.guid in self.again:
                self._add_again(node, name)
            elif self.seen.how.get(name) in (GUID, PLACE, REST):
                nameless.append((node, name))
            if self.seen.how.get(name) == NAME:
                self._check_guid(node, name)
        switches = [name for node, name in nameless if node.kind == SWITCH]
        if many := len(switches) > _MANY:
            text = (
                f"{len(switches)} switches have no name of the plan, and were matched by their cables: {few(switches)}"
            )
            remedy = "use the node-name map of the plan with ibnetdiscover and OpenSM"
            self._add("unnamed", WARNING, self.plan.name, "", text, remedy, *((name, 0) for name in switches))
        for node, name in nameless:
            if not (many and node.kind == SWITCH):
                what, remedy = ("switch", "name it") if node.kind == SWITCH else ("HCA", "set its NodeDescription (rdma-ndd)")  # fmt: skip
                how = self.seen.how[name]
                text = f"the {what} has the description {node.description!r}; by {'its ' if how in (GUID, PLACE) else ''}{how} it is {name}"
                self._add("unnamed", WARNING, self._where(node, name), "", text, remedy, (name, 1))

    def _add_again(self, node: MergedNode, name: str) -> None:
        same = self.again[node.guid]
        known = "" if name in self.seen.strangers else f"; by its place it is {name}"
        text = f"the node has the description {node.description!r}, which {same} has as well{known}"
        ports = ((same, 1),) if name in self.seen.strangers else ((same, 1), (name, 1))
        self._add("duplicate-name", ERROR, self._where(node, name), "", text, "set a unique name", *ports)

    def _check_guid(self, node: MergedNode, name: str) -> None:
        thing = self.plan.switches.get(name) or self.plan.hcas[name]
        if thing.guid and guid_of(thing.guid) != node.guid and node.guid not in self.merged.duplicate_guids:
            owner = self.on_record.get(node.guid)
            of_whom = f", which is recorded for {owner}" if owner else ""
            expected, found = f"the recorded GUID {guid_of(thing.guid)}", f"{node.guid}{of_whom}: it was replaced"
            remedy = "record the new GUID, or reinstall the old adapter"
            self._add("replaced", WARNING, self.plan.where(name), expected, found, remedy, (name, 1))

    def _where(self, node: MergedNode, name: str) -> str:
        """Return where a node is: for an HCA, the port of the switch that it is connected to."""
        if node.kind != SWITCH and (cables := self.cables[node.guid]):
            guid, port = next(iter(cables.values()))
            far = self.seen.names.get(guid, "")
            if far in self.plan.switches:
                return place((far, port), self.plan)
        return self.plan.where(name)

    def _translate(self) -> None:
        """Replace GUIDs by names in everything that is compared."""
        seen, names = self.seen, self.seen.names
        for guid, name in names.items():
            node = self.merged.nodes[guid]
            seen.guids[name] = guid
            (seen.reported if node.reported else seen.silent).add(name)
            if node.kind == CA and node.port_guid:
                seen.port_guids[name] = node.port_guid

        cables = self.merged.cables
        seen.ports = {
            (names[guid], port): (names[far_guid], far_port)
            for (guid, port), (far_guid, far_port) in cables.items()
            if guid in names and far_guid in names
        }
        wanted = (self.plan.width, self.plan.speed)
        seen.rates = {
            (names[near[0]], near[1]): rate
            for rate, ports in self.merged.rates.items()
            if rate != wanted
            for near in ports
            if near in cables and near[0] in names
        }

    def _add(self, kind: str, severity: str, where: str, expected: str, found: str, remedy: str, *ports: End) -> None:
        self.seen.findings.append(Finding(kind, where, expected, found, remedy, severity, ports=ports))
