# SPDX-License-Identifier: GPL-3.0-or-later
"""What several discoveries saw, as one: nodes by GUID, and cables as both of their ends tell of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import Cable, Discovery, Node

# A port by the GUID of its node.
Port = tuple[str, int]


@dataclass
class Box:
    """A node that was seen. `told` is False for one that others name, and that did not tell of itself, or not in full."""

    guid: str
    kind: str
    description: str
    ports: int = 0
    told: bool = False
    port_guid: str = ""


@dataclass
class Sight:
    """All discoveries together."""

    boxes: dict[str, Box] = field(default_factory=dict)
    # Both ways, each port once.
    cables: dict[Port, Port] = field(default_factory=dict)
    # Width and speed -> the ports whose own node tells of it.
    rates: defaultdict[tuple[str, str], list[Port]] = field(default_factory=lambda: defaultdict(list))
    # (port that tells of a cable, port of a node that told of itself and not of this cable)
    half: list[tuple[Port, Port]] = field(default_factory=list)
    # GUID that two nodes have -> ports at which one of them is; none of these is among `cables`.
    doubles: dict[str, list[Port]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def merge(discoveries: Mapping[str, Discovery]) -> Sight:
    """Return what was seen from all sides; one plane may have been discovered from several nodes, or several planes be joined."""
    sight = Sight()
    boxes, rates = sight.boxes, sight.rates
    claims: dict[Port, Port] = {}
    doubles: set[str] = set()
    for name, discovery in discoveries.items():
        for node in (*discovery.nodes.values(), *discovery.twins):
            # A line that was not read may have been of this node; others may tell it in full.
            box = _box(sight, node)
            if box is None:
                doubles.add(node.guid)
                continue
            for port, cable in node.cables.items():
                near, far = (node.guid, port), (cable.guid, cable.port)
                claim = claims.setdefault(near, far)
                if claim is far:
                    rates[cable.width, cable.speed].append(near)
                elif claim != far:
                    doubles.add(node.guid)
                if cable.guid not in boxes:
                    boxes[cable.guid] = _named_by_others(cable)
        sight.findings += _complaints(name, discovery)
    owners = {box.port_guid: guid for guid, box in sight.boxes.items()}
    for name, discovery in discoveries.items():
        told = {owners.get(guid, guid): (guid, number) for guid, number in discovery.duplicates.items()}
        doubles |= told.keys() & sight.boxes.keys()
        sight.findings += [_lost(name, *told[guid]) for guid in told if guid not in sight.boxes]
    _pair(sight, claims, doubles)
    return sight


def _box(sight: Sight, node: Node) -> Box | None:
    """Return the node's box; None if another node that told of itself has its GUID."""
    known = sight.boxes.get(node.guid)
    if known is None or not known.told:
        port_guid = node.port_guids.get(1, known.port_guid if known else "")
        known = sight.boxes[node.guid] = Box(
            node.guid, node.kind, node.description, node.ports, not node.cut, port_guid
        )
    elif known.kind != node.kind or known.description != node.description:
        return None
    return known


def _named_by_others(cable: Cable) -> Box:
    port_guid = cable.port_guid if cable.port == 1 else ""
    return Box(cable.guid, cable.kind, cable.description, port_guid=port_guid)


def _pair(sight: Sight, claims: dict[Port, Port], doubles: set[str]) -> None:
    """Make cables of what the ends claim: those of which both tell, then those of which one tells and the other is silent."""
    apart = {near: far for near, far in claims.items() if claims.get(far) != near}
    if not apart and not doubles:
        sight.cables = claims
        return
    if doubles or len(set(claims.values())) < len(claims):
        claimants: dict[Port, list[Port]] = {}
        for near, far in claims.items():
            claimants.setdefault(far, []).append(near)
        doubles |= {far[0] for far, nears in claimants.items() if len(nears) > 1}
        sight.doubles.update((guid, []) for guid in sorted(doubles))
        for far, nears in claimants.items():
            if far[0] in doubles:
                sight.doubles[far[0]].extend(nears)
    single = {near: far for near, far in claims.items() if near[0] not in doubles and far[0] not in doubles}
    sight.cables = {near: far for near, far in single.items() if near not in apart}
    for near, far in apart.items():
        if near not in single or near in sight.cables or far in sight.cables:
            continue
        sight.cables[near], sight.cables[far] = far, near
        if sight.boxes[far[0]].told:
            sight.half.append((near, far))


def _lost(name: str, guid: str, number: int) -> Finding:
    where = f"the discovery of plane {name}" if name else "the discovery"
    text = f"two nodes have the GUID {guid} (line {number}), and neither is told of"
    return Finding("partial", where, "", text, "discover again, from another node", WARNING)


def _complaints(name: str, discovery: Discovery) -> Iterable[Finding]:
    """Report what the discovery itself says of being incomplete."""
    where = f"the discovery of plane {name}" if name else "the discovery"
    if discovery.troubles:
        number, text = discovery.troubles[0]
        text = f"{len(discovery.troubles)} times the tool met trouble, first in line {number}: {text!r}"
        remedy = "what did not answer is reported as missing; discover again"
        yield Finding("partial", where, "", text, remedy, WARNING)
    if discovery.unread:
        number, text = discovery.unread[0]
        numbers = few((str(number) for number, _ in discovery.unread), 3)
        text = f"{len(discovery.unread)} lines were not understood (line {numbers}), first: {text!r}"
        yield Finding("unread", where, "", text, "if the file was cut off, discover again", WARNING)
