# SPDX-License-Identifier: GPL-3.0-or-later
"""Merge several discoveries: nodes by GUID, and cables from the reports of both ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    Cable,
    DiscoveredNode,
    Discovery,
)

# A port by the GUID of its node.
Port = tuple[str, int]


@dataclass
class MergedNode:
    """A discovered node. `reported` is False if only others report it, or if its own report is incomplete."""

    guid: str
    kind: str
    description: str
    ports: int = 0
    reported: bool = False
    port_guid: str = ""
    # 0 if it is not known.
    cage_ports: int = 0


@dataclass
class MergedDiscovery:
    """All discoveries together."""

    nodes: dict[str, MergedNode] = field(default_factory=dict)
    # Both directions, each port once.
    cables: dict[Port, Port] = field(default_factory=dict)
    # Width and speed -> the ports whose own node reports it.
    rates: defaultdict[tuple[str, str], list[Port]] = field(default_factory=lambda: defaultdict(list))
    # (port that reports a cable, port of a node that reported itself without this cable)
    half: list[tuple[Port, Port]] = field(default_factory=list)
    # GUID that two nodes share -> ports at which one of them is; none of these is among `cables`.
    duplicate_guids: dict[str, list[Port]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def merge(discoveries: Mapping[str, Discovery]) -> MergedDiscovery:
    """Return the merged discovery; one plane may have been discovered from several nodes, or several planes may be joined."""
    merged = MergedDiscovery()
    nodes, rates = merged.nodes, merged.rates
    claims: dict[Port, Port] = {}
    duplicates: set[str] = set()
    for name, discovery in discoveries.items():
        for node in (*discovery.nodes.values(), *discovery.twins):
            # An unread line may have belonged to this node; another discovery may have it in full.
            if _node(merged, node) is None:
                duplicates.add(node.guid)
                continue
            for port, cable in node.cables.items():
                near, far = (node.guid, port), (cable.guid, cable.port)
                claim = claims.setdefault(near, far)
                if claim is far:
                    rates[cable.width, cable.speed].append(near)
                elif claim != far:
                    duplicates.add(node.guid)
                if cable.guid not in nodes:
                    nodes[cable.guid] = _named_by_others(cable)
        merged.findings += _complaints(name, discovery)
    owners = {node.port_guid: guid for guid, node in merged.nodes.items()}
    for name, discovery in discoveries.items():
        twice = {owners.get(guid, guid): (guid, number) for guid, number in discovery.duplicates.items()}
        duplicates |= twice.keys() & merged.nodes.keys()
        merged.findings += [_lost(name, *twice[guid]) for guid in twice if guid not in merged.nodes]
    _pair(merged, claims, duplicates)
    return merged


def _node(merged: MergedDiscovery, node: DiscoveredNode) -> MergedNode | None:
    """Return the merged node of a GUID; None if another node that reported itself has the GUID."""
    known = merged.nodes.get(node.guid)
    if known is None or not known.reported:
        port_guid = node.port_guids.get(1, known.port_guid if known else "")
        known = merged.nodes[node.guid] = MergedNode(
            node.guid, node.kind, node.description, node.ports, not node.cut, port_guid, node.cage_ports
        )
    elif known.kind != node.kind or known.description != node.description:
        return None
    return known


def _named_by_others(cable: Cable) -> MergedNode:
    port_guid = cable.port_guid if cable.port == 1 else ""
    return MergedNode(cable.guid, cable.kind, cable.description, port_guid=port_guid)


def _pair(merged: MergedDiscovery, claims: dict[Port, Port], duplicates: set[str]) -> None:
    """Pair the ends' claims into cables: first claims of both ends, then claims of one end alone."""
    apart = {near: far for near, far in claims.items() if claims.get(far) != near}
    if not apart and not duplicates:
        merged.cables = claims
        return
    if duplicates or len(set(claims.values())) < len(claims):
        claimants: dict[Port, list[Port]] = {}
        for near, far in claims.items():
            claimants.setdefault(far, []).append(near)
        duplicates |= {far[0] for far, nears in claimants.items() if len(nears) > 1}
        merged.duplicate_guids.update((guid, []) for guid in sorted(duplicates))
        for far, nears in claimants.items():
            if far[0] in duplicates:
                merged.duplicate_guids[far[0]].extend(nears)
    single = {near: far for near, far in claims.items() if near[0] not in duplicates and far[0] not in duplicates}
    merged.cables = {near: far for near, far in single.items() if near not in apart}
    for near, far in apart.items():
        if near not in single or near in merged.cables or far in merged.cables:
            continue
        merged.cables[near], merged.cables[far] = far, near
        if merged.nodes[far[0]].reported:
            merged.half.append((near, far))


def _lost(name: str, guid: str, number: int) -> Finding:
    where = f"the discovery of plane {name}" if name else "the discovery"
    text = f"two nodes have the GUID {guid} (line {number}), and neither is compared"
    return Finding("partial", where, "", text, "discover again, from another node", WARNING)


def _complaints(name: str, discovery: Discovery) -> Iterable[Finding]:
    """Report the tool's own messages about an incomplete discovery."""
    where = f"the discovery of plane {name}" if name else "the discovery"
    if discovery.troubles:
        number, text = discovery.troubles[0]
        text = f"the tool reported {len(discovery.troubles)} errors, first in line {number}: {text!r}"
        remedy = "nodes that did not answer are reported as missing; discover again"
        yield Finding("partial", where, "", text, remedy, WARNING)
    if discovery.unread:
        number, text = discovery.unread[0]
        numbers = few((str(number) for number, _unused in discovery.unread), 3)
        text = f"{len(discovery.unread)} lines could not be parsed (line {numbers}), first: {text!r}"
        yield Finding("unread", where, "", text, "if the file was cut off, discover again", WARNING)
