# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold a discovered fabric: nodes with their cables, independent of the tool that printed them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..common.finding import Finding

SWITCH, CA, ROUTER = "switch", "ca", "router"


@dataclass
class Cable:
    """Hold one end of a link as the node at that end reports it; the other end is `(guid, port)`."""

    guid: str
    port: int
    width: str
    speed: str
    # NodeDescription, LID, kind and port GUID of the node at the other end; a switch's port has no GUID.
    description: str
    lid: int
    kind: str = SWITCH
    port_guid: str = ""


@dataclass
class DiscoveredNode:
    """Hold a switch, HCA or router; `cables` by its own port, `port_guids` if the output has them."""

    guid: str
    kind: str
    ports: int
    description: str
    line: int
    system: str = ""
    lid: int = 0
    cables: dict[int, Cable] = field(default_factory=dict)
    port_guids: dict[int, str] = field(default_factory=dict)
    # The output ends in the middle of this node's ports.
    cut: bool = False
    # Names that the device itself gives to its ports, where the tool has them (LLDP).
    port_names: dict[int, str] = field(default_factory=dict)
    # Ports to a cage, if their names say so (LLDP); else 0.
    cage_ports: int = 0

    def like(self, other: DiscoveredNode) -> bool:
        """Return whether both describe one node: with -g, ibnetdiscover lists the switches of a chassis twice."""
        return (self.kind, self.description, self.cables) == (other.kind, other.description, other.cables)

    def far(self) -> dict[int, tuple[str, int]]:
        """Return port -> the other end of its cable."""
        return {port: (cable.guid, cable.port) for port, cable in self.cables.items()}


@dataclass
class Discovery:
    """Hold a discovered fabric by node GUID (16 hex digits); `unread` has the lines that match no form, as (number, text)."""

    nodes: dict[str, DiscoveredNode] = field(default_factory=dict)
    unread: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs that two different nodes report, with the lines; the later nodes are in `twins`.
    twice: dict[str, list[int]] = field(default_factory=dict)
    twins: list[DiscoveredNode] = field(default_factory=list)
    # Complaints of the tool: lost packets, nodes that did not answer.
    troubles: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs of ports or nodes that the tool found at two places: it prints one of them, with the description of the other.
    duplicates: dict[str, int] = field(default_factory=dict)
    # GUID of the node on which the discovery ran, if the output has it.
    origin: str = ""
    # What the tool's output shows without any plan, such as frames of two sizes at one cable.
    findings: list[Finding] = field(default_factory=list)
    # Names of switches whose ports could not be numbered: none of their cables is in `nodes`.
    unclear: set[str] = field(default_factory=set)

    @property
    def switches(self) -> list[DiscoveredNode]:
        """Return the switches."""
        return [node for node in self.nodes.values() if node.kind == SWITCH]


# In a large fabric, each GUID is looked up many times.
@lru_cache(maxsize=1 << 16)
def guid_of(text: str) -> str:
    """Return a GUID as 16 lower-case hex digits.

    >>> guid_of("0x2C9000100D")
    '0000002c9000100d'
    """
    text = text.lower()
    return (text[2:] if text.startswith("0x") else text).zfill(16)


def normalised(found: Discovery) -> list[dict[str, Any]]:
    """Return the nodes sorted by GUID and without LIDs, so that two discoveries of one fabric are equal."""
    return [
        {
            "guid": node.guid,
            "kind": node.kind,
            "description": node.description,
            "ports": node.ports,
            "cables": [
                {"port": port, "guid": cable.guid, "far_port": cable.port, "rate": f"{cable.width}{cable.speed}"}
                for port, cable in sorted(node.cables.items())
            ],
        }
        for node in sorted([*found.nodes.values(), *found.twins], key=lambda node: (node.guid, node.description))
    ]


def counts(found: Discovery) -> dict[str, int]:
    """Return the number of nodes of each kind and of cables; a cable that both ends report counts once."""
    ends = {
        frozenset(((node.guid, port), (cable.guid, cable.port)))
        for node in found.nodes.values()
        for port, cable in node.cables.items()
    }
    switches = len(found.switches)
    return {
        "switches": switches,
        "hcas": sum(node.kind == CA for node in found.nodes.values()),
        "cables": len(ends),
        "unread": len(found.unread),
        "troubles": len(found.troubles),
    }
