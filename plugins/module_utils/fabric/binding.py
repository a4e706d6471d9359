# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node of the subnet is which of the plan: by name, by GUID, by the order of a host's devices, else by its place.

A name that the plan has counts for more than a GUID, since GUIDs go with an adapter into another host. What has no usable name is what
the plan has at the other end of its cables, so a plan without GUIDs binds a fabric in which a tier, or all switches, have no names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import End, few, place
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import (
    CA,
    SWITCH,
    Discovery,
    guid_of,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Hca, Plan, Switch, by_switch
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.names import (
    is_aggregation,
    is_unnamed,
    natural,
    plain_name,
    switch_names,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sight import Box, Port, Sight, merge

NAME, GUID, ORDER, PLACE, REST = "name", "GUID", "order", "place", "being the only one left"
# More switches without a name than this are told of in one finding.
_MANY = 3


@dataclass
class Seen:
    """What was discovered, in the plan's names where it has one; a stranger is `description [GUID]`."""

    sight: Sight
    # GUID of the node -> name, and how that is known.
    names: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    ports: dict[End, End] = field(default_factory=dict)
    # Those that are not as planned.
    rates: dict[End, tuple[str, str]] = field(default_factory=dict)
    # Name -> GUID of the node, and of an HCA's port.
    guids: dict[str, str] = field(default_factory=dict)
    port_guids: dict[str, str] = field(default_factory=dict)
    # Names that told of themselves, and names that others told of only.
    told: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)
    # Name of a stranger -> its kind.
    strangers: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    # GUIDs of nodes that have no part in the comparison, such as SHARP's.
    ignored: set[str] = field(default_factory=set)


def bind(plan: Plan, discoveries: Mapping[str, Discovery]) -> Seen:
    """Return what was discovered in the plan's names."""
    binder = _Binder(plan, merge(discoveries))
    binder.bind()
    return binder.seen


def learned(plan: Plan, seen: Seen) -> Plan:
    """Return the plan with the GUIDs of what was seen, so that a later comparison notices a replaced adapter."""
    full = replace(plan, switches=dict(plan.switches), hcas=dict(plan.hcas))
    for name, guid in seen.guids.items():
        if name in full.switches:
            full.switches[name] = replace(full.switches[name], guid=guid)
        elif name in full.hcas:
            port = seen.port_guids.get(name) or full.hcas[name].port_guid
            full.hcas[name] = replace(full.hcas[name], guid=guid, port_guid=port)
    return full


class _Binder:
    def __init__(self, plan: Plan, sight: Sight) -> None:
        self.plan, self.sight = plan, sight
        self.seen = Seen(sight, findings=list(sight.findings))
        things: list[Switch | Hca] = [*plan.switches.values(), *plan.hcas.values()]
        self.on_record = {guid_of(thing.guid): thing.name for thing in things if thing.guid}
        self.taken: set[str] = set()
        # Nodes with the name of another, which cannot be taken at their word.
        self.again: dict[str, str] = {}

    # Only nodes that are not known by their names are asked for their cables.
    @cached_property
    def planned(self) -> dict[str, dict[int, End]]:
        """Return name -> port -> the other end, as planned."""
        return by_switch(self.plan.present)

    @cached_property
    def cables(self) -> dict[str, dict[int, Port]]:
        """Return GUID -> port -> the other end, as it was seen."""
        found: dict[str, dict[int, Port]] = {guid: {} for guid in self.sight.boxes}
        for (guid, port), far in self.sight.cables.items():
            found[guid][port] = far
        return found

    def bind(self) -> None:
        boxes = list(self.sight.boxes.values())
        self.seen.ignored = {box.guid for box in boxes if box.kind == CA and is_aggregation(box.description)}
        open_boxes = [box for box in boxes if box.guid not in self.seen.ignored]
        for step in (self._by_name, self._by_guid, self._by_order, self._by_place, self._by_rest):
            step(open_boxes)
            open_boxes = [box for box in open_boxes if box.guid not in self.seen.names]
        for box in open_boxes:
            name = f"{plain_name(box.description) or 'unnamed'} [{box.guid}]"
            self.seen.names[box.guid] = name
            self.seen.strangers[name] = box.kind
        self._report()
        self._translate()

    def _bind(self, box: Box, name: str, how: str) -> None:
        self.seen.names[box.guid], self.seen.how[name] = name, how
        self.taken.add(name)

    def _by_name(self, boxes: Iterable[Box]) -> None:
        wanted: dict[str, list[Box]] = {}
        for box in boxes:
            if name := self._called(box):
                wanted.setdefault(name, []).append(box)
        contested = {name: rivals for name, rivals in wanted.items() if len(rivals) > 1}
        for name, rivals in wanted.items():
            if name not in contested:
                self._bind(rivals[0], name, NAME)
        for name, rivals in contested.items():
            best = max(rivals, key=lambda box: (self._fits(box, name), self.on_record.get(box.guid) == name))
            self._bind(best, name, NAME)
            self.again.update((box.guid, name) for box in rivals if box is not best)

    def _called(self, box: Box) -> str:
        if box.kind == SWITCH:
            return next((name for name in switch_names(box.description) if name in self.plan.switches), "")
        name = plain_name(box.description)
        return name if name in self.plan.hcas else ""

    def _fits(self, box: Box, name: str) -> int:
        """Return how many cables of a node are where the plan has those of `name`, as far as the other ends are known."""
        planned = self.planned.get(name, {})
        far = ((port, (self.seen.names.get(guid, ""), far)) for port, (guid, far) in self.cables[box.guid].items())
        return sum(planned.get(port) == end for port, end in far)

    def _by_guid(self, boxes: Iterable[Box]) -> None:
        for box in boxes:
            name = self.on_record.get(box.guid, "")
            if name and name not in self.taken and (box.kind == SWITCH) == (name in self.plan.switches):
                self._bind(box, name, GUID)

    def _by_order(self, boxes: Iterable[Box]) -> None:
        """Take the devices of a host in their order, where it has as many as planned and all are named otherwise (HCA-1 for mlx5_0)."""
        others: dict[str, list[Box]] = {}
        for box in boxes:
            host, blank, _device = plain_name(box.description).partition(" ")
            if box.kind == CA and blank and not is_unnamed(box.description) and box.guid not in self.again:
                others.setdefault(host, []).append(box)
        planned: dict[str, list[str]] = {}
        for name, hca in self.plan.hcas.items():
            if hca.host in others:
                planned.setdefault(hca.host, []).append(name)
        renamed = []
        for host, names in planned.items():
            found = others[host]
            descriptions = {box.description for box in found}
            if len(found) == len(names) == len(descriptions) and not self.taken.intersection(names):
                ordered = sorted(found, key=lambda box: natural(plain_name(box.description)))
                for box, name in zip(ordered, sorted(names, key=natural)):
                    self._bind(box, name, ORDER)
                renamed.append(host)
        if renamed:
            text = (
                f"{len(renamed)} hosts name their HCAs otherwise than the plan; their order was taken: {few(renamed)}"
            )
            self._add("unnamed", NOTICE, self.plan.name, "", text, "name the devices in the plan as the hosts do")

    def _by_place(self, boxes: Iterable[Box]) -> None:
        """Name what the plan has at the other end of known nodes' cables, until nothing new is found."""
        left = list(boxes)
        while left:
            found: dict[str, list[Box]] = {}
            for box in left:
                if name := self._place_of(box):
                    found.setdefault(name, []).append(box)
            new = {rivals[0].guid: name for name, rivals in found.items() if len(rivals) == 1}
            for box in left:
                if box.guid in new:
                    self._bind(box, new[box.guid], PLACE)
            left = [box for box in left if box.guid not in new] if new else []

    def _place_of(self, box: Box) -> str:
        votes: Counter[str] = Counter()
        known = 0
        for port, (guid, far_port) in self.cables[box.guid].items():
            far = self.seen.names.get(guid)
            if far is None:
                continue
            known += 1
            name, planned_port = self.planned.get(far, {}).get(far_port, ("", 0))
            if name and name not in self.taken:
                # The right port tells two switches apart that both have cables to the same ones.
                votes[name] += 2 if planned_port == port else 1
        if box.kind != SWITCH:
            usable = not is_unnamed(box.description) and box.guid not in self.again
            names = [name for name in votes if name in self.plan.hcas and not (usable and not self._of_host(box, name))]
            return names[0] if len(names) == 1 else ""
        best = [(name, count) for name, count in votes.most_common() if name in self.plan.switches]
        if not best or best[0][1] < known or (len(best) > 1 and best[1][1] == best[0][1]):
            return ""
        return best[0][0]

    def _of_host(self, box: Box, name: str) -> bool:
        return plain_name(box.description).partition(" ")[0] == self.plan.hcas[name].host

    def _by_rest(self, boxes: Iterable[Box]) -> None:
        nameless = [box for box in boxes if box.kind == CA and (is_unnamed(box.description) or box.guid in self.again)]
        rest = [name for name in self.plan.hcas if name not in self.taken] if len(nameless) == 1 else []
        if len(rest) == 1:
            self._bind(nameless[0], rest[0], REST)

    def _report(self) -> None:
        nameless: list[tuple[Box, str]] = []
        for box in self.sight.boxes.values():
            name = self.seen.names.get(box.guid, "")
            if box.guid in self.again:
                self._add_again(box, name)
            elif self.seen.how.get(name) in (GUID, PLACE, REST):
                nameless.append((box, name))
            if self.seen.how.get(name) == NAME:
                self._check_guid(box, name)
        switches = [name for box, name in nameless if box.kind == SWITCH]
        if many := len(switches) > _MANY:
            text = (
                f"{len(switches)} switches carry no name of the plan, and were known by their cables: {few(switches)}"
            )
            remedy = "give ibnetdiscover and OpenSM the node-name map of the plan"
            self._add("unnamed", WARNING, self.plan.name, "", text, remedy, *((name, 0) for name in switches))
        for box, name in nameless:
            if not (many and box.kind == SWITCH):
                what, remedy = ("switch", "name it") if box.kind == SWITCH else ("HCA", "set its NodeDescription (rdma-ndd)")  # fmt: skip
                how = self.seen.how[name]
                text = f"the {what} there calls itself {box.description!r}; by {'its ' if how in (GUID, PLACE) else ''}{how} it is {name}"
                self._add("unnamed", WARNING, self._where(box, name), "", text, remedy, (name, 1))

    def _add_again(self, box: Box, name: str) -> None:
        same = self.again[box.guid]
        known = "" if name in self.seen.strangers else f"; by its place it is {name}"
        text = f"the node there calls itself {box.description!r}, as does the one that is {same}{known}"
        ports = ((same, 1),) if name in self.seen.strangers else ((same, 1), (name, 1))
        self._add("duplicate-name", ERROR, self._where(box, name), "", text, "give it a name of its own", *ports)

    def _check_guid(self, box: Box, name: str) -> None:
        thing = self.plan.switches.get(name) or self.plan.hcas[name]
        if thing.guid and guid_of(thing.guid) != box.guid and box.guid not in self.sight.doubles:
            owner = self.on_record.get(box.guid)
            of_whom = f", which is on record for {owner}" if owner else ""
            expected, found = f"the GUID {guid_of(thing.guid)} on record", f"{box.guid}{of_whom}: it was replaced"
            remedy = "record the new GUID, or put the old one back"
            self._add("replaced", WARNING, self.plan.where(name), expected, found, remedy, (name, 1))

    def _where(self, box: Box, name: str) -> str:
        """Return where a node is: the switch's port it is at, for an HCA."""
        if box.kind != SWITCH and (cables := self.cables[box.guid]):
            guid, port = next(iter(cables.values()))
            far = self.seen.names.get(guid, "")
            if far in self.plan.switches:
                return place((far, port), self.plan)
        return self.plan.where(name)

    def _translate(self) -> None:
        """Turn GUIDs into names in all that is compared."""
        seen, names = self.seen, self.seen.names
        for guid, name in names.items():
            box = self.sight.boxes[guid]
            seen.guids[name] = guid
            (seen.told if box.told else seen.mute).add(name)
            if box.kind == CA and box.port_guid:
                seen.port_guids[name] = box.port_guid

        cables = self.sight.cables
        seen.ports = {
            (names[guid], port): (names[far_guid], far_port)
            for (guid, port), (far_guid, far_port) in cables.items()
            if guid in names and far_guid in names
        }
        wanted = (self.plan.width, self.plan.speed)
        seen.rates = {
            (names[near[0]], near[1]): rate
            for rate, ports in self.sight.rates.items()
            if rate != wanted
            for near in ports
            if near in cables and near[0] in names
        }

    def _add(self, kind: str, severity: str, where: str, expected: str, found: str, remedy: str, *ports: End) -> None:
        self.seen.findings.append(Finding(kind, where, expected, found, remedy, severity, ports=ports))
