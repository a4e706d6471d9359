# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what `ibnetdiscover` prints, in any of its forms (plain, -f, -g), with any description a user may have set.

Source: ibnetdiscover.c of rdma-core. A description has up to 64 printable signs, quotes and number signs among them, so a line is read
from its tail: ` lid N WxSPEED`. Nothing is dropped: a line that fits no form is kept as unread, with its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

SWITCH, CA, ROUTER = "switch", "ca", "router"
_KINDS = {"Switch": SWITCH, "Ca": CA, "Rt": ROUTER}
_GUID = r"[0-9a-fA-F]{1,16}"
_NODE = re.compile(rf'(Switch|Ca|Rt)\t(\d+) "[SHR]-({_GUID})"\s*# "(.*)"(.*)\Z')
_SWITCH_TAIL = re.compile(r"(?: (?:enhanced|base) port 0 lid (\d+) lmc (\d+))?\s*\Z")
_NAME = rf'"[SHR]-({_GUID})"\[(\d+)\](?:\[ext \d+\])?(?:\(({_GUID})\))?'
_RATE = r"(\d+x|\?\?)(\S*)((?: [swv]=-?\d+)*)(?: slot \d+| \(scp\))?"
_OF_SWITCH = re.compile(rf'\[(\d+)\](?:\[ext \d+\])?\s+{_NAME}\s*# "(.*)" lid (\d+) {_RATE}\s*\Z')
_OF_CA = re.compile(
    rf'\[(\d+)\](?:\[ext \d+\])?(?:\(({_GUID})\))?\s+{_NAME}\s*# lid (\d+) lmc (\d+) "(.*)" lid (\d+) {_RATE}\s*\Z'
)
_GLOBAL = re.compile(
    rf"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x({_GUID})(?:\(({_GUID})\))?(?:\t+# .*)?\s*\Z"
)
_HEADINGS = re.compile(r"Chassis \d+( \(guid 0x[0-9a-fA-F]+\))?.*|Non-Chassis Nodes")


@dataclass
class Cable:
    """One end of a link as the node at that end tells it; the other end is `(guid, port)`."""

    guid: str
    port: int
    width: str
    speed: str
    description: str
    lid: int


@dataclass
class Node:
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


@dataclass
class Discovery:
    """All that was seen, by node GUID of 16 hex digits; lines that fit no form as (number, text)."""

    nodes: dict[str, Node] = field(default_factory=dict)
    unread: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs under which two nodes told of themselves, with the lines.
    twice: dict[str, list[int]] = field(default_factory=dict)

    @property
    def switches(self) -> list[Node]:
        """Return the switches."""
        return [node for node in self.nodes.values() if node.kind == SWITCH]


def guid_of(text: str) -> str:
    """Return a GUID as 16 hex digits in lower case.

    >>> guid_of("0x2C9000100D")
    '0000002c9000100d'
    """
    return text.lower().removeprefix("0x").zfill(16)


def parse(lines: Iterable[str]) -> Discovery:
    """Read the whole output."""
    found = Discovery()
    node: Node | None = None
    system = ""
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")
        first = line[:1]
        if first == "[" and node is not None and _port(line, node):
            continue
        if not line.strip() or first == "#":
            continue
        if match := _GLOBAL.match(line):
            if match[1] == "sysimgguid":
                system = guid_of(match[2])
            continue
        if match := _NODE.match(line):
            node = _node(match, number, system)
            system = ""
            if node.guid in found.nodes:
                found.twice.setdefault(node.guid, [found.nodes[node.guid].line]).append(number)
            else:
                found.nodes[node.guid] = node
            continue
        if not _HEADINGS.fullmatch(line):
            found.unread.append((number, line))
    return found


def _node(match: re.Match[str], number: int, system: str) -> Node:
    kind = _KINDS[match[1]]
    node = Node(guid_of(match[3]), kind, int(match[2]), match[4], number, system)
    if kind == SWITCH and (tail := _SWITCH_TAIL.match(match[5])) and tail[1]:
        node.lid = int(tail[1])
    return node


def _port(line: str, node: Node) -> bool:
    if node.kind == SWITCH:
        if not (match := _OF_SWITCH.match(line)):
            return False
        port, guid, far, far_guid, description, lid, width, speed, _more = match.groups()
    else:
        if not (match := _OF_CA.match(line)):
            return False
        port, own, guid, far, far_guid, own_lid, _lmc, description, lid, width, speed, _more = match.groups()
        node.lid = node.lid or int(own_lid)
        if own:
            node.port_guids[int(port)] = guid_of(own)
    node.cables[int(port)] = Cable(guid_of(guid), int(far), width, speed, description, int(lid))
    del far_guid
    return True
