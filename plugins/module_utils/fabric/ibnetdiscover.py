# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what `ibnetdiscover` prints, in any of its forms (plain, -f, -g), with any description a user may have set.

Source: ibnetdiscover.c of rdma-core. A description has up to 64 printable signs, quotes and number signs among them, so a line is read
from its tail: ` lid N WxSPEED`. Nothing is dropped: a line that fits no form is kept as unread, with its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.bulk import bulk

SWITCH, CA, ROUTER = "switch", "ca", "router"
_KINDS = {"Switch": SWITCH, "Ca": CA, "Rt": ROUTER}
_LETTERS = {"S": SWITCH, "H": CA, "R": ROUTER}
_GUID = r"[0-9a-fA-F]{1,16}"
_NODE = re.compile(rf'(Switch|Ca|Rt)\t(\d+) "[SHR]-({_GUID})"\s*# "(.*)"(.*)\Z')
_SWITCH_TAIL = re.compile(r" (?:enhanced|base) port 0 lid (\d+) lmc \d+\s*\Z")
_CA_TAIL = re.compile(r"(?: \(scp\))?\s*\Z")
# Lines of ports are most of all; `(?:...|)` is what `(?:...)?` is, and takes less time where there is nothing.
_OWN = r"\[(\d+)\](?:\[ext \d+\]|)"
_FAR = rf'"([SHR])-({_GUID})"\[(\d+)\](?:\[ext \d+\]|) ?(?:\(({_GUID})\)|)'
_RATE = r"(\d+x|\?\?)([A-Z0-9?]+)(?:(?: [swv]=-?\d+)+|)(?: slot \d+| \(scp\)|)"
_OF_SWITCH = re.compile(rf'{_OWN}\s+{_FAR}\s*# "(.*)" lid (\d+) {_RATE}\s*\Z')
_OF_CA = re.compile(rf'{_OWN}(?:\(({_GUID})\)|)\s+{_FAR}\s*# lid (\d+) lmc \d+ "(.*)" lid (\d+) {_RATE}\s*\Z')
_GLOBAL = re.compile(
    rf"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x({_GUID})(?:\({_GUID}\)|)(?:\t+# .*|)\s*\Z"
)
_HEADING = re.compile(r"Chassis \d+(?: \(guid 0x[0-9a-fA-F]+\))?|Non-Chassis Nodes|Hostname: .*")
_ORIGIN = re.compile(rf"# Initiated from node ({_GUID}) port {_GUID}")
# What libibnetdisc, libibmad and the tool say on stderr, where both streams went into one file.
_DUPLICATE = re.compile(
    r"\S+\.c:\d+[:;] (?:Duplicate (?:Port|Node): |Error Occurred when trying to insert new (?:port|node) guid ).*?\b0x([0-9a-fA-F]{1,16})\b"
)
_TROUBLE = re.compile(r"(?:ibwarn|ibpanic|ibdebug): |\S+\.c:\d+[:;] |discover failed|Failed to ")


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
    # The output breaks off in its ports.
    cut: bool = False

    def like(self, other: Node) -> bool:
        """Tell whether both are one node told of twice, as -g does with the switches of a chassis."""
        return (self.kind, self.description, self.cables) == (other.kind, other.description, other.cables)

    def far(self) -> dict[int, tuple[str, int]]:
        """Return port -> the end at the other side."""
        return {port: (cable.guid, cable.port) for port, cable in self.cables.items()}


@dataclass
class Discovery:
    """All that was seen, by node GUID of 16 hex digits; lines that fit no form as (number, text)."""

    nodes: dict[str, Node] = field(default_factory=dict)
    unread: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs under which two nodes told different things of themselves, with the lines; the later ones are `twins`.
    twice: dict[str, list[int]] = field(default_factory=dict)
    twins: list[Node] = field(default_factory=list)
    # What the tool complained of: packets that were lost, nodes that did not answer.
    troubles: list[tuple[int, str]] = field(default_factory=list)
    # GUIDs of ports or nodes that the tool met at two places: it prints one of them, with the description of the other.
    duplicates: dict[str, int] = field(default_factory=dict)
    # GUID of the node from which the fabric was discovered, if the output says it.
    origin: str = ""

    @property
    def switches(self) -> list[Node]:
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


@bulk
def parse(lines: Iterable[str]) -> Discovery:
    """Read the whole output; lines end at line feeds only, so split with `text.split(chr(10))` and not with `splitlines`."""
    found = Discovery()
    told: list[Node] = []
    node: Node | None = None
    system = ""
    for number, raw in enumerate(lines, 1):
        if raw[:1] == "[" and node is not None and _port(raw, node):
            continue
        line = raw.rstrip("\r\n")
        if line[:1] == "#":
            if match := _ORIGIN.match(line):
                found.origin = guid_of(match[1])
        elif match := _GLOBAL.match(line):
            # A port that follows belongs to no node.
            node = None
            if match[1] == "sysimgguid":
                system = guid_of(match[2])
        elif not line.strip() or _HEADING.fullmatch(line):
            node = None
        elif (match := _NODE.match(line)) and (new := _node(match, number, system)):
            node, system = new, ""
            told.append(node)
        elif match := _DUPLICATE.match(line):
            found.duplicates.setdefault(guid_of(match[1]), number)
        elif _TROUBLE.match(line):
            found.troubles.append((number, line))
        else:
            found.unread.append((number, line))
            if node is not None:
                node.cut = True
    # Switches come before HCAs, so where switches name HCAs and none tells of itself, the last switch may be told in part.
    if told and all(node.kind == SWITCH for node in told):
        told[-1].cut |= any(cable.kind == CA for node in told for cable in node.cables.values())
    for node in told:
        _keep(found, node)
    return found


def _keep(found: Discovery, node: Node) -> None:
    known = found.nodes.setdefault(node.guid, node)
    if known is not node and not known.like(node):
        found.twice.setdefault(node.guid, [known.line]).append(node.line)
        found.twins.append(node)


def _node(match: re.Match[str], number: int, system: str) -> Node | None:
    kind = _KINDS[match[1]]
    tail = (_SWITCH_TAIL if kind == SWITCH else _CA_TAIL).match(match[5])
    if not tail:
        return None
    lid = int(tail[1]) if kind == SWITCH else 0
    return Node(guid_of(match[3]), kind, int(match[2]), match[4], number, system, lid)


def _port(line: str, node: Node) -> bool:
    own: str | None = None
    if node.kind == SWITCH:
        if not (match := _OF_SWITCH.match(line)):
            return False
        port, letter, guid, far, far_guid, description, lid, width, speed = match.groups()
    else:
        if not (match := _OF_CA.match(line)):
            return False
        port, own, letter, guid, far, far_guid, own_lid, description, lid, width, speed = match.groups()
        node.lid = node.lid or int(own_lid)
    number = int(port)
    if number in node.cables:
        return False
    if own:
        node.port_guids[number] = guid_of(own)
    kind, far_guid = _LETTERS[letter], guid_of(far_guid) if far_guid else ""
    node.cables[number] = Cable(guid_of(guid), int(far), width, speed, description, int(lid), kind, far_guid)
    return True
