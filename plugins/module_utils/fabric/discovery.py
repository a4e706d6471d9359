# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen of a fabric: nodes with their cables, whichever tool printed them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

SWITCH, CA, ROUTER = "switch", "ca", "router"


@dataclass
class Cable:
    """One end of a link as the node at that end tells it; the other end is `(guid, port)`."""

    guid: str
    port: int
    width: str
    speed: str
    # NodeDescription, LID, kind and port's GUID of the node at the other end; a switch's port has no GUID.
    description: str
    lid: int
    kind: str = SWITCH
    port_guid: str = ""


@dataclass
class DiscoveredNode:
    """A switch, HCA or router; `cables` by its own port, `port_guids` where the output has them."""

    guid: str
    kind: str
    ports: int
    description: str
    line: int
    system: str = ""
    lid: int = 0
    cables: dict[int, Cable] = field(default_factory=dict)
    port_guids: dict[int, str] = field(default_factory=dict)
    # The output breaks off in its ports.
    cut: bool = False

    def like(self, other: DiscoveredNode) -> bool:
        """Return whether both describe one node: with -g, ibnetdiscover lists the switches of a chassis twice."""
        return (self.kind, self.description, self.cables) == (other.kind, other.description, other.cables)

    def far(self) -> dict[int, tuple[str, int]]:
        """Return port -> the end at the other side."""
        return {port: (cable.guid, cable.port) for port, cable in self.cables.items()}


@dataclass
class Discovery:
    """All that was seen, by node GUID of 16 hex digits; lines that fit no form as (number, text)."""

    nodes: dict[str, DiscoveredNode] = field(default_factory=dict)
    unread: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs under which two nodes told different things of themselves, with the lines; the later ones are `twins`.
    twice: dict[str, list[int]] = field(default_factory=dict)
    twins: list[DiscoveredNode] = field(default_factory=list)
    # What the tool complained of: packets that were lost, nodes that did not answer.
    troubles: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs of ports or nodes that the tool met at two places: it prints one of them, with the description of the other.
    duplicates: dict[str, int] = field(default_factory=dict)
    # GUID of the node from which the fabric was discovered, if the output says it.
    origin: str = ""

    @property
    def switches(self) -> list[DiscoveredNode]:
        """Return the switches."""
        return [node for node in self.nodes.values() if node.kind == SWITCH]


# Of a large fabric, each GUID is asked for many times.
@lru_cache(maxsize=1 << 16)
def guid_of(text: str) -> str:
    """Return a GUID as 16 hex digits in lower case.

    >>> guid_of("0x2C9000100D")
    '0000002c9000100d'
    """
    text = text.lower()
    return (text[2:] if text.startswith("0x") else text).zfill(16)


def normalised(found: Discovery) -> list[dict[str, Any]]:
    """Return the nodes in the order of their GUIDs, without LIDs, so that two discoveries of one fabric are the same."""
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
    """Return how much there is of everything; a cable of which both ends tell is one."""
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
