# SPDX-License-Identifier: GPL-3.0-or-later
"""The planned fabric against the one that was discovered: every difference once, classified, with where to go and what to do.

Both sides are maps of ports, in the plan's names: `(name, port) -> (name, port)`. What the subnet calls otherwise is bound to the plan
by GUID, then by name, then by its place: an HCA without a usable name is the one that the plan has at its leaf's port.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import CA, SWITCH, Discovery, Node
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Link, Plan, by_switch

End = tuple[str, int]

ERROR, WARNING, INFO = "error", "warning", "info"
# NodeDescription of a managed switch: MF0;name:MQM9700/U1.
_MANAGED = re.compile(r"MF\d+;([^:;]+):[^/]*(?:/U(\d+))?\Z")
_AGGREGATION = "Aggregation Node"
_UNNAMED = re.compile(r"(MT\d+ .*|.*Mellanox Technologies.*|localhost\b.*|ubuntu\b.*|debian\b.*|)\Z")
# In Gbit/s a lane; what is not here is not compared.
_SPEEDS = {"SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10.3, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200}


@dataclass(frozen=True)
class Finding:
    """One difference. `kind` is its class, `where` the first place to go, `cables` the planned links it is about, as end and end."""

    kind: str
    severity: str
    where: str
    text: str
    action: str = ""
    ends: tuple[End, ...] = ()

    def __str__(self) -> str:
        return f"{self.where}: {self.text}" + (f"; {self.action}" if self.action else "")


@dataclass
class Seen:
    """What was discovered, in the plan's names where it has one."""

    ports: dict[End, End] = field(default_factory=dict)
    rates: dict[End, tuple[str, str]] = field(default_factory=dict)
    # Name -> GUID of the node, HCAs by their port's GUID.
    guids: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    # Nodes that have no part in the comparison, such as SHARP's.
    ignored: list[str] = field(default_factory=list)


def compare(plan: Plan, discoveries: Mapping[str, Discovery]) -> list[Finding]:
    """Return every difference between a plan and what was discovered, plane -> discovery ("" where there is one plane)."""
    seen = bind(plan, discoveries)
    found = [*seen.findings, *_links(plan, seen), *_islands(plan, seen, discoveries)]
    order = {ERROR: 0, WARNING: 1, INFO: 2}
    return sorted(found, key=lambda one: (order[one.severity], one.where, one.text))


def describe(end: End, plan: Plan) -> str:
    """Return a port in words: `leaf-03 port 17`, `gpu012 mlx5_4`."""
    name, port = end
    if name in plan.switches:
        switch = plan.switches[name]
        cage = f" (cage {switch.cage(port)})" if switch.lanes > 1 else ""
        return f"{name} port {port}{cage}"
    return name if name in plan.hcas else f"{name} port {port}"


def place(end: End, plan: Plan) -> str:
    """Return where to go for a port: `rack b04, leaf-03 port 17`."""
    thing = plan.switches.get(end[0]) or plan.hcas.get(end[0])
    return f"rack {thing.rack}, {describe(end, plan)}" if thing and thing.rack else describe(end, plan)


def plain_name(description: str) -> str:
    """Return the name in a switch's or an HCA's NodeDescription.

    >>> plain_name("MF0;leaf-03:MQM9700/U1"), plain_name("gpu01.example.com mlx5_0"), plain_name("gpu01 HCA-1")
    ('leaf-03', 'gpu01 mlx5_0', 'gpu01 HCA-1')
    """
    if match := _MANAGED.match(description):
        return match[1]
    host, blank, device = description.strip().partition(" ")
    return f"{host.split('.')[0]}{blank}{device.strip()}" if blank else description.strip()


class _Binder:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.seen = Seen()
        self.by_guid = {switch.guid: switch.name for switch in plan.switches.values() if switch.guid}
        self.by_guid |= {hca.guid: hca.name for hca in plan.hcas.values() if hca.guid}
        self.planned = by_switch(plan.links)
        self.names: dict[str, str] = {}

    def run(self, discoveries: Mapping[str, Discovery]) -> Seen:
        for discovery in discoveries.values():
            self._names(discovery)
        for discovery in discoveries.values():
            self._by_place(discovery)
        for discovery in discoveries.values():
            self._take(discovery)
        return self.seen

    def _names(self, discovery: Discovery) -> None:
        taken: dict[str, str] = {}
        for node in discovery.nodes.values():
            if _AGGREGATION in node.description:
                self.seen.ignored.append(node.guid)
                continue
            name = self.by_guid.get(node.guid) or self._known(node)
            if not name:
                continue
            if name in taken:
                self._add(
                    "duplicate-name", ERROR, name, f"two nodes call themselves so: GUIDs {taken[name]} and {node.guid}"
                )
                continue
            taken[name] = node.guid
            self.names[node.guid] = name

    def _known(self, node: Node) -> str:
        name = plain_name(node.description)
        known: Mapping[str, object] = self.plan.switches if node.kind == SWITCH else self.plan.hcas
        return name if name in known else ""

    def _by_place(self, discovery: Discovery) -> None:
        """Name what has no usable name by the plan's other end of its cable, leaves first."""
        taken = set(self.names.values())
        for node in discovery.nodes.values():
            if node.guid in self.names or node.guid in self.seen.ignored or node.kind != CA:
                continue
            wanted = self._wanted_at(node)
            if len(wanted) == 1 and wanted[0] not in taken and _UNNAMED.match(node.description):
                name = self.names[node.guid] = wanted[0]
                taken.add(name)
                text = f"its HCA calls itself {node.description!r}; by its cable it is {name}"
                self._add("unnamed", WARNING, self._where(name), text, "set its NodeDescription (rdma-ndd)")

    def _wanted_at(self, node: Node) -> list[str]:
        ends = []
        for cable in node.cables.values():
            leaf = self.names.get(cable.guid)
            planned = self.planned.get(leaf or "", {}).get(cable.port)
            if planned and planned[0] in self.plan.hcas:
                ends.append(planned[0])
        return list(dict.fromkeys(ends))

    def _take(self, discovery: Discovery) -> None:
        for guid, lines in discovery.twice.items():
            name = self.names.get(guid, guid)
            places = ", ".join(str(line) for line in lines)
            self._add(
                "duplicate-guid",
                ERROR,
                name,
                f"two nodes have the GUID {guid} (lines {places})",
                "replace one of the two adapters",
            )
        for number, text in discovery.unread:
            self._add("unread", WARNING, f"line {number}", f"was not understood: {text!r}")
        for node in discovery.nodes.values():
            if node.guid in self.seen.ignored:
                continue
            name = self.names.get(node.guid) or self._stranger(node)
            self._guid(name, node)
            for port, cable in node.cables.items():
                if cable.guid in self.seen.ignored:
                    continue
                other = self.names.get(cable.guid) or _stranger_name(
                    discovery.nodes.get(cable.guid), cable.description, cable.guid
                )
                self.seen.ports[name, port] = (other, cable.port)
                self.seen.rates[name, port] = (cable.width, cable.speed)

    def _stranger(self, node: Node) -> str:
        name = _stranger_name(node, node.description, node.guid)
        what = {SWITCH: "switch", CA: "HCA"}.get(node.kind, "router")
        self._add(
            "unknown", WARNING, name, f"this {what} is not in the plan", "add it to the plan, or take it off the fabric"
        )
        return name

    def _guid(self, name: str, node: Node) -> None:
        self.seen.guids[name] = node.guid
        thing = self.plan.switches.get(name) or self.plan.hcas.get(name)
        if thing and thing.guid and thing.guid != node.guid:
            text = f"has GUID {node.guid}, and {thing.guid} is on record: it was replaced"
            self._add("replaced", WARNING, self._where(name), text, "record the new GUID, or put the old one back")

    def _where(self, name: str) -> str:
        return self.plan.where(name)

    def _add(self, kind: str, severity: str, where: str, text: str, action: str = "") -> None:
        self.seen.findings.append(Finding(kind, severity, where, text, action))


def bind(plan: Plan, discoveries: Mapping[str, Discovery]) -> Seen:
    """Return what was discovered in the plan's names."""
    return _Binder(plan).run(discoveries)


def _stranger_name(node: Node | None, description: str, guid: str) -> str:
    name = plain_name(node.description if node else description)
    return f"{name or 'unnamed'} [{guid}]"


def _links(plan: Plan, seen: Seen) -> list[Finding]:
    return _Links(plan, seen).findings()


class _Links:
    """Compares ports. Each planned and each discovered link is told of once."""

    def __init__(self, plan: Plan, seen: Seen) -> None:
        self.plan, self.seen = plan, seen
        self.planned: dict[End, End] = {}
        self.spare: set[frozenset[End]] = set()
        for link in plan.links:
            one, other = link.ends
            if link.missing:
                self.spare.add(frozenset(link.ends))
            else:
                self.planned[one], self.planned[other] = other, one
        self.found: list[Finding] = []
        self.told: set[frozenset[End]] = set()

    def findings(self) -> list[Finding]:
        broken = [link for link in self.plan.present if not self._right(link)]
        wrong = self._wrong()
        for link in broken:
            self._swap(link, wrong)
        for link in broken:
            if frozenset(link.ends) not in self.told:
                self._one(link, wrong)
        for pair in wrong:
            if pair not in self.told:
                self._extra(pair)
        return self.found

    def _right(self, link: Link) -> bool:
        one, other = link.ends
        to, back = self.seen.ports.get(one), self.seen.ports.get(other)
        if to != other and back != one:
            return False
        if to != other or back != one:
            silent = one if to != other else other
            if self.seen.ports.get(silent) is not None:
                return False
            self._add("half-seen", WARNING, silent, f"only {describe(one if silent == other else other, self.plan)} tells of the cable "
                      "between the two", "ask again; a port that keeps silent has trouble", link)  # fmt: skip
        self._rate(link)
        return True

    def _rate(self, link: Link) -> None:
        wanted = (self.plan.width, self.plan.speed)
        rates = [self.seen.rates[end] for end in link.ends if end in self.seen.rates]
        slow = [rate for rate in rates if _slower(rate, wanted)]
        if slow:
            one, other = link.ends
            width, speed = slow[0]
            text = f"the cable to {describe(one, self.plan)} runs at {width}{speed}, planned is {wanted[0]}{wanted[1]}"
            self._add("slow", ERROR, other, text, "reseat the cable at both ends, then replace it", link)

    def _wrong(self) -> dict[frozenset[End], tuple[End, End]]:
        """Return the links that are there and not planned."""
        return {
            frozenset((one, other)): (one, other)
            for one, other in self.seen.ports.items()
            if self.planned.get(one) != other and self.planned.get(other) != one
        }

    def _swap(self, link: Link, wrong: Mapping[frozenset[End], tuple[End, End]]) -> None:
        """Two planned cables a-b and c-d that are there as a-d and c-b."""
        if frozenset(link.ends) in self.told:
            return
        for a, b in (link.ends, link.ends[::-1]):
            d = self.seen.ports.get(a)
            c = self.planned.get(d) if d else None
            if d is None or c is None or frozenset((a, d)) not in wrong or frozenset((c, b)) not in wrong:
                continue
            if c == b or len({a, b, c, d}) < 4:
                continue
            self.told |= {frozenset((a, b)), frozenset((c, d)), frozenset((a, d)), frozenset((c, b))}
            text = (
                f"expected {describe(a, self.plan)}, found {describe(c, self.plan)}; "
                f"{describe(d, self.plan)} has {describe(a, self.plan)} instead"
            )
            action = f"swap the cables in {describe(b, self.plan)} and {describe(d, self.plan)}"
            self.found.append(Finding("swapped", ERROR, place(b, self.plan), text, action, (a, b, c, d)))
            return

    def _one(self, link: Link, wrong: Mapping[frozenset[End], tuple[End, End]]) -> None:
        low, high = link.ends
        for here, there in ((high, low), (low, high)):
            now = self.seen.ports.get(here)
            pair = frozenset((here, now)) if now else frozenset()
            if now is None or pair not in wrong:
                continue
            self.told |= {frozenset(link.ends), pair}
            if now[0] == there[0]:
                text = f"the cable to {there[0]} is in its port {now[1]}, planned is {there[1]}"
                self._add("wrong-port", ERROR, here, text, f"move it to {describe(there, self.plan)}", link)
            else:
                text = f"expected {describe(there, self.plan)}, found {describe(now, self.plan)}"
                self._add(
                    "miswired",
                    ERROR,
                    here,
                    text,
                    f"follow the cable, and put it into {describe(there, self.plan)}",
                    link,
                )
            return
        text = f"the cable to {describe(low, self.plan)} is missing or dead"
        self._add("missing", ERROR, high, text, "plug it in at both ends; if it is, replace it", link)

    def _extra(self, pair: frozenset[End]) -> None:
        one, other = sorted(pair) if len(pair) == 2 else (next(iter(pair)),) * 2
        spare = pair in self.spare
        text = f"a cable to {describe(other, self.plan)} that the plan {'leaves out' if spare else 'does not have'}"
        self.told.add(pair)
        severity = WARNING if self._stranger(one) or self._stranger(other) else ERROR
        self.found.append(
            Finding("extra", severity, place(one, self.plan), text, "take it out, or add it to the plan", (one, other))
        )

    def _stranger(self, end: End) -> bool:
        return end[0] not in self.plan.switches and end[0] not in self.plan.hcas

    def _add(self, kind: str, severity: str, end: End, text: str, action: str, link: Link) -> None:
        self.found.append(Finding(kind, severity, place(end, self.plan), text, action, link.ends))


def _slower(rate: tuple[str, str], wanted: tuple[str, str]) -> bool:
    lanes, speed = rate[0].rstrip("x"), _SPEEDS.get(rate[1])
    if not lanes.isdigit() or speed is None or wanted[1] not in _SPEEDS:
        return False
    return int(lanes) < int(wanted[0].rstrip("x")) or speed < _SPEEDS[wanted[1]]


def _islands(plan: Plan, seen: Seen, discoveries: Mapping[str, Discovery]) -> list[Finding]:
    """Find planes that are joined."""
    del discoveries
    found = []
    for members in components(seen.ports):
        planes = sorted({plan.switches[name].plane for name in members if name in plan.switches})
        if len(planes) > 1:
            names = [
                next(name for name in members if name in plan.switches and plan.switches[name].plane == plane)
                for plane in planes
            ]
            text = f"the planes {' and '.join(planes)} are joined: {', '.join(names)} reach each other"
            found.append(Finding("joined", ERROR, names[0], text, "find the cable among the extra and miswired ones"))
    return found


def components(ports: Mapping[End, End]) -> list[list[str]]:
    """Return the sets of nodes that reach each other, each in the order of discovery."""
    near: dict[str, list[str]] = {}
    for (one, _), (other, _) in ports.items():
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    left, found = dict.fromkeys(near), []
    while left:
        members: list[str] = []
        stack: list[str] = [next(iter(left))]
        while stack:
            name = stack.pop()
            if name in left:
                del left[name]
                members.append(name)
                stack += near[name]
        found.append(members)
    return found


def worst(findings: Iterable[Finding]) -> str:
    """Return the gravest severity among findings; "" when there is none."""
    severities = {one.severity for one in findings}
    return next((level for level in (ERROR, WARNING, INFO) if level in severities), "")


__all__: Sequence[str] = ("Finding", "Seen", "bind", "compare", "worst")
