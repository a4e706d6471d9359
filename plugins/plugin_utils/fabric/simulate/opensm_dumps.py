# SPDX-License-Identifier: GPL-3.0-or-later
"""Read OpenSM's dumps (`-D 0x43 --dump_files_dir DIR`): its nodes and cables, and its forwarding tables.

opensm-subnet.lst has a line for each end of a cable; numbers in it are hexadecimal. The tables are in opensm.fdbs and, larger, in
opensm-lfts.dump; either will do. OpenSM writes them only with `force_log_flush` or after it has ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

# Braces and blanks can be part of a name, so it ends at the last " LID:".
_HEX = "([0-9A-Fa-f]{1,16})"
_END = rf"\{{ (CA|SW|RT)\S* Ports:{_HEX} .*?NodeGUID:{_HEX} PortGUID:{_HEX} .*?\{{(.*)\}} LID:{_HEX} PN:{_HEX} \}}"
_CABLE = re.compile(rf"{_END} {_END}")
_FDBS = re.compile(r"dump_ucast_routes: Switch 0x([0-9a-f]+)")
# OpenSM names a switch by its LID, dump_fts by its path.
_LFTS = re.compile(r"Unicast lids \[.*?\] of switch .*? guid 0x([0-9a-f]+)")
_LID = re.compile(r"0x[0-9A-Fa-f]{1,4}\Z")
_NO_PORT = "255"


class DumpError(ValueError):
    """A dump that is cut short or no dump at all, with the line."""


@dataclass(frozen=True)
class RoutedNode:
    """A switch or a port of an HCA, as OpenSM knows it; `guid` is the switch's node GUID or the port's GUID."""

    name: str
    guid: str
    lid: int
    is_switch: bool
    ports: int = 1


@dataclass
class Subnet:
    """Nodes by LID; `cables` go from (LID, port) to (LID, port), both ways; `tables` are switch's LID -> LID -> port."""

    nodes: dict[int, RoutedNode] = field(default_factory=dict)
    cables: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    tables: dict[int, dict[int, int]] = field(default_factory=dict)

    def describe(self, lid: int, port: int = 0) -> str:
        """Return a node, or a port of a switch, in words."""
        node = self.nodes[lid]
        return f"{node.name} port {port}" if port and node.is_switch else node.name


def read(subnet: str, tables: str) -> Subnet:
    """Return what opensm-subnet.lst and opensm.fdbs (or opensm-lfts.dump) say; DumpError for text that is neither."""
    found = Subnet()
    for number, line in enumerate(subnet.split("\n"), 1):
        if line.strip():
            _cable(found, line, number)
    if not found.nodes:
        raise DumpError("opensm-subnet.lst has no cable: OpenSM found nothing, or had not ended when it was read")
    read_tables(found, tables)
    return found


def _cable(found: Subnet, line: str, number: int) -> None:
    match = _CABLE.match(line)
    if not match:
        raise DumpError(f"opensm-subnet.lst: line {number} is not a cable, so the file is cut short: {line[:60]!r}")
    values = match.groups()
    ends = []
    for kind, ports, guid, port_guid, name, lid, port in (values[:7], values[7:]):
        node = RoutedNode(name, guid if kind == "SW" else port_guid, int(lid, 16), kind == "SW", int(ports, 16))
        known = found.nodes.setdefault(node.lid, node)
        if known.guid != node.guid:
            raise DumpError(
                f"opensm-subnet.lst: line {number}: LID {node.lid} is {name} and {known.name}; it is of two runs"
            )
        ends.append((node.lid, int(port, 16)))
    for one, other in (ends, ends[::-1]):
        if found.cables.setdefault(one, other) != other:
            raise DumpError(
                f"opensm-subnet.lst: line {number}: a second cable at {found.describe(*one)}; it is of two runs"
            )


def read_tables(found: Subnet, text: str) -> None:
    """Read forwarding tables of all switches of a subnet; a LID without a port is not reached from that switch.

    `text` is opensm.fdbs, opensm-lfts.dump or what dump_fts prints. Raises DumpError.
    """
    lids = {node.guid: lid for lid, node in found.nodes.items() if node.is_switch}
    first = text.lstrip()[:40]
    header, start, end = (_FDBS, 9, 12) if first.startswith("dump_ucast") else (_LFTS, 7, 10)
    if not header.match(text.lstrip()):
        raise DumpError(f"these are not forwarding tables: neither opensm.fdbs nor opensm-lfts.dump: {first!r}")
    table: dict[int, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        # Millions of lines of 16,384 HCAs: no regular expression for each.
        if line[:2] == "0x":
            port = line[start:end]
            if port.isdecimal() and len(port) == end - start:
                if port != _NO_PORT:
                    try:
                        table[int(line[2:6], 16)] = int(port)
                    except ValueError:
                        raise DumpError(f"forwarding tables: line {number} names no LID: {line[:60]!r}") from None
            elif "UNREACHABLE" not in line:
                raise DumpError(f"forwarding tables: line {number} names no port: {line[:60]!r}")
        elif match := header.match(line):
            guid = match[1].zfill(16)
            if guid not in lids:
                raise DumpError(
                    f"forwarding tables: line {number}: switch {guid} is not in opensm-subnet.lst; they are of two runs"
                )
            table = found.tables[lids[guid]] = {}
    if without := [found.nodes[lid].name for lid in lids.values() if lid not in found.tables]:
        raise DumpError(f"forwarding tables: none of {', '.join(sorted(without)[:6])}, so the file is cut short")


def ca_order(text: str) -> list[int | None]:
    """Return the LIDs of opensm-ftree-ca-order.dump in order; None for a place without an HCA; DumpError for another file.

    >>> ca_order("0x0001\\tgpu1 mlx5_0\\n0xFFFF\\tDUMMY\\n")
    [1, None]
    """
    order: list[int | None] = []
    for number, line in enumerate(text.split("\n"), 1):
        word, _tab, name = line.partition("\t")
        if (word, name) == ("0xFFFF", "DUMMY"):
            order.append(None)
        elif _LID.match(word):
            order.append(int(word, 16))
        elif line.strip():
            raise DumpError(f"opensm-ftree-ca-order.dump: line {number} names no LID: {line[:60]!r}")
    return order
