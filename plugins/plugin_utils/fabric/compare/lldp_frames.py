# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the largest frames that LLDP reports of ports (802.3 MFS): the two ends of a cable, and what the site's RoCE needs.

A vendor counts the header, tags and checksum of a frame, or does not: frames that differ by no more than these are not a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery

# MTU of RoCE interfaces if the site states none: `rdma_mtu` of the role rdma.
ROCE_MTU = 9000
# Header 14, two VLAN tags 8, checksum 4.
_OVERHEAD = 26

# GUID of a node and its port.
Port = tuple[str, int]


def frame_findings(
    found: Discovery, frames: Mapping[Port, int], mtu: int = 0, where: Callable[[str], str] = str
) -> list[Finding]:
    """Return findings about `frames`, port -> its largest frame in bytes.

    `mtu` is that of the site's RoCE interfaces, 0 for 9000; `where` gives the place of a device by its name.
    """
    wanted = mtu or ROCE_MTU
    small: dict[tuple[str, int], list[str]] = {}
    unequal: dict[tuple[str, str, int, int], list[str]] = {}
    for (guid, port), frame in sorted(frames.items()):
        node = found.nodes[guid]
        cable = node.cables.get(port)
        if cable is None:
            continue
        other = frames.get((cable.guid, cable.port), 0)
        if frame < wanted:
            small.setdefault((node.description, frame), []).append(_port(found, guid, port))
        elif other and abs(frame - other) > _OVERHEAD and frame < other:
            key = (node.description, found.nodes[cable.guid].description, frame, other)
            unequal.setdefault(key, []).append(_port(found, guid, port))
    return [*_small(small, wanted, where), *_unequal(unequal, where)]


def _port(found: Discovery, guid: str, port: int) -> str:
    return found.nodes[guid].port_names.get(port, str(port))


def _small(small: Mapping[tuple[str, int], list[str]], wanted: int, where: Callable[[str], str]) -> Iterable[Finding]:
    for (name, frame), ports in small.items():
        text = f"at most {frame} bytes on {few(ports)}"
        remedy = "raise the MTU of these ports; rdma_mtu is the MTU of the hosts"
        expected = f"frames of {wanted} bytes and their header"
        yield Finding("mtu", where(name), expected, text, remedy, ERROR, ports=((name, 0),))


def _unequal(unequal: Mapping[tuple[str, str, int, int], list[str]], where: Callable[[str], str]) -> Iterable[Finding]:
    for (name, other, frame, far), ports in unequal.items():
        text = f"frames of at most {frame} bytes on {few(ports)}, and {other} sends up to {far}"
        yield Finding("mtu", where(name), "", text, "set one MTU at both ends", WARNING, ports=((name, 0), (other, 0)))
