# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the output of `ibnetdiscover` in any of its forms (plain, -f, -g), with any node description.

Source: ibnetdiscover.c of rdma-core. A description has up to 64 printable characters, including quotes and number signs, so a line is
parsed from its end: ` lid N WxSPEED`. Nothing is dropped: a line that matches no form is kept as unread, with its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..common.gc_pause import suspend_collection
from .discovery import CA, ROUTER, SWITCH, Cable, DiscoveredNode, Discovery, guid_of

_KINDS = {"Switch": SWITCH, "Ca": CA, "Rt": ROUTER}
_LETTERS = {"S": SWITCH, "H": CA, "R": ROUTER}
_GUID = r"[0-9a-fA-F]{1,16}"
_NODE = re.compile(rf'(Switch|Ca|Rt)\t(\d+) "[SHR]-({_GUID})"\s*# "(.*)"(.*)\Z')
_SWITCH_TAIL = re.compile(r" (?:enhanced|base) port 0 lid (\d+) lmc \d+\s*\Z")
_CA_TAIL = re.compile(r"(?: \(scp\))?\s*\Z")
# Most lines describe ports. `(?:...|)` matches the same as `(?:...)?`, and is faster if the text is absent.
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
# Messages of libibnetdisc, libibmad and the tool on stderr, if both streams went into one file.
_DUPLICATE = re.compile(
    r"\S+\.c:\d+[:;] (?:Duplicate (?:Port|Node): |Error Occurred when trying to insert new (?:port|node) guid ).*?\b0x([0-9a-fA-F]{1,16})\b"
)
_TROUBLE = re.compile(r"(?:ibwarn|ibpanic|ibdebug): |\S+\.c:\d+[:;] |discover failed|Failed to ")


@suspend_collection
def parse(lines: Iterable[str]) -> Discovery:
    """Parse the whole output. Lines end at line feeds only, so split with `text.split(chr(10))`, not with `splitlines`."""
    found = Discovery()
    nodes: list[DiscoveredNode] = []
    node: DiscoveredNode | None = None
    system = ""
    for number, raw in enumerate(lines, 1):
        if raw[:1] == "[" and node is not None and _port(raw, node):
            continue
        line = raw.rstrip("\r\n")
        if line[:1] == "#":
            if match := _ORIGIN.match(line):
                found.origin = guid_of(match[1])
        elif match := _GLOBAL.match(line):
            # Ports that follow belong to no node.
            node = None
            if match[1] == "sysimgguid":
                system = guid_of(match[2])
        elif not line.strip() or _HEADING.fullmatch(line):
            node = None
        elif (match := _NODE.match(line)) and (new := _node(match, number, system)):
            node, system = new, ""
            nodes.append(node)
        elif match := _DUPLICATE.match(line):
            found.duplicates.setdefault(guid_of(match[1]), number)
        elif _TROUBLE.match(line):
            found.troubles.append((number, line))
        else:
            found.unread.append((number, line))
            if node is not None:
                node.cut = True
    # Switches are listed before HCAs: if switches name HCAs and no HCA is listed, the last switch may be cut off.
    if nodes and all(node.kind == SWITCH for node in nodes):
        nodes[-1].cut |= any(cable.kind == CA for node in nodes for cable in node.cables.values())
    for node in nodes:
        _keep(found, node)
    return found


def _keep(found: Discovery, node: DiscoveredNode) -> None:
    known = found.nodes.setdefault(node.guid, node)
    if known is not node and not known.like(node):
        found.twice.setdefault(node.guid, [known.line]).append(node.line)
        found.twins.append(node)


def _node(match: re.Match[str], number: int, system: str) -> DiscoveredNode | None:
    kind = _KINDS[match[1]]
    tail = (_SWITCH_TAIL if kind == SWITCH else _CA_TAIL).match(match[5])
    if not tail:
        return None
    lid = int(tail[1]) if kind == SWITCH else 0
    return DiscoveredNode(guid_of(match[3]), kind, int(match[2]), match[4], number, system, lid)


def _port(line: str, node: DiscoveredNode) -> bool:
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
