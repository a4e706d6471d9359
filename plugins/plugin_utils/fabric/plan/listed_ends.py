# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the port of a switch or HCA for each end in a list of cables, and every mistake of the ends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, few

from ...cluster import Cluster, Fabric, SwitchTraits
from ...cluster.schema.text_rules import WORD
from ..core.fabric_model import COMPUTE, STORAGE, Hca
from ..core.places import End
from ..core.unnamed_nodes import DEVICE, guid_in_name
from .cable_rows import WrittenCable, WrittenCables, WrittenEnd

_PORT = re.compile(r"[0-9]{1,5}\Z")
_CAGE = re.compile(r"([0-9]{1,5})/([0-9]{1,2})\Z")
_SECOND = re.compile(r"(.+)/[0-9]+\Z")
_WORD = re.compile(WORD["pattern"])


@dataclass(frozen=True)
class ListedCable:
    """A cable of the list between two ports that exist."""

    written: WrittenCable
    ends: tuple[End, End]


@dataclass
class ListedCables:
    """The cables of a list, with the HCAs by name and the names of the switches at their ends."""

    cables: list[ListedCable] = field(default_factory=list)
    hcas: dict[str, Hca] = field(default_factory=dict)
    switches: dict[str, None] = field(default_factory=dict)


def known_hcas(cluster: Cluster, by_unit: bool) -> dict[str, dict[str, Hca]]:
    """Return machine -> device -> HCA of all NICs in the cluster file; planes follow from the cables."""
    found: dict[str, dict[str, Hca]] = {}
    for node in cluster.nodes:
        rack = node.rack
        # Without a stated leaf, a rack is not a unit: cables say which leaves it is on.
        stated = by_unit and rack.leaf != cluster.stated.leaf(f"leaf-{rack.name}")
        unit = rack.leaf if stated else rack.pod or ""
        found[node.name] = {
            nic.name: Hca(node.name, nic.name, nic.rail, "", STORAGE if nic.rail is None else COMPUTE, rack.name, unit)
            for nic in node.profile.nics
        }
    for host in cluster.hosts.values():
        found[host.name] = {
            nic.name: Hca(host.name, nic.name, nic.rail, "", nic.purpose, host.rack or "") for nic in host.nics
        }
    return found


def resolve(written: WrittenCables, fabric: Fabric, known: Mapping[str, Mapping[str, Hca]]) -> ListedCables:
    """Return the cables between ports that exist; mistakes are added to `written`."""
    return _EndResolver(written, fabric, known).go()


class _EndResolver:
    def __init__(self, written: WrittenCables, fabric: Fabric, known: Mapping[str, Mapping[str, Hca]]) -> None:
        self.written, self.fabric, self.known = written, fabric, known
        self.traits: dict[str, SwitchTraits] = {one.name: one for one in fabric.switches}
        self.found = ListedCables()
        # Port -> line of its cable.
        self.taken: dict[End, int] = {}
        # Name of a switch in lower case -> as its first row writes it, and the line of that row.
        self.spelt: dict[str, tuple[str, int]] = {}

    def go(self) -> ListedCables:
        for row in self.written.rows:
            ends = [self._end(row.line, key, end) for key, end in (("a", row.a), ("b", row.b))]
            one, other = ends
            if one and other and self._is_cable(row.line, one, other):
                self.found.cables.append(ListedCable(row, (one, other)))
        return self.found

    def _is_cable(self, line: int, one: End, other: End) -> bool:
        hcas = self.found.hcas
        if one[0] == other[0]:
            self.written.add(line, f"both ends are at {one[0]}. A cable joins two devices.")
            return False
        if one[0] in hcas and other[0] in hcas:
            self.written.add(line, f"{one[0]} and {other[0]} are both HCAs. One end of a cable is a switch.")
            return False
        twice = False
        for end in (one, other):
            first = self.taken.setdefault(end, line)
            if first != line:
                which = end[0] if end[0] in hcas else f"{end[0]} port {end[1]}"
                self.written.add(line, f"{which} has a cable already, in line {first}. A port has one cable.")
                twice = True
        return not twice

    def _end(self, line: int, key: str, end: WrittenEnd) -> End | None:
        """Return an end of a row; None after a mistake."""
        host, *words = end.name.split()
        if len(words) > 1:
            self.written.add(line, f"{key}: {end.name!r} is neither a switch nor a host with one device.")
            return None
        if words:
            if end.port not in ("", "1"):
                text = (
                    f"{end.name} has one port. Leave the cell empty; Linux names the second port of a card as a device."
                )
                self.written.add(line, f"{key}_port: {text}")
                return None
            return self._hca(line, key, host, words[0])
        if host in self.known or (guid_in_name(host) and end.port == DEVICE):
            return self._hca(line, f"{key}_port", host, end.port)
        return self._switch(line, key, end)

    def _hca(self, line: int, key: str, host: str, device: str) -> End | None:
        if guid := guid_in_name(host):
            hca = Hca(host, device, guid=guid)
        elif host not in self.known:
            hint = did_you_mean(host, list(self.known)) or f" Allowed: {few(self.known)}."
            self.written.add(line, f"{key}: {host!r} is neither a node nor a host of the cluster file.{hint}")
            return None
        elif device not in self.known[host]:
            self._unknown_device(line, key, host, device)
            return None
        else:
            hca = self.known[host][device]
        self.found.hcas[hca.name] = hca
        return hca.name, 1

    def _unknown_device(self, line: int, key: str, host: str, device: str) -> None:
        devices = list(self.known[host])
        second = _SECOND.match(device)
        if second and second[1] in devices:
            text = f"{device!r}: Linux names the second port of a card as a device. Name that device."
        elif not devices:
            text = f"{host} has no NIC in the cluster file. Give it `nics`, a node in its profile."
        else:
            hint = did_you_mean(device, devices) or f" Allowed: {few(devices)}."
            text = f"{host} has no NIC {device!r}.{hint}"
        self.written.add(line, f"{key}: {text}")

    def _switch(self, line: int, key: str, end: WrittenEnd) -> End | None:
        name = end.name
        if not _WORD.fullmatch(name):
            self.written.add(line, f"{key}: {name!r} is not the name of a switch. {WORD['allowed']}.")
            return None
        traits = self.traits.get(name, SwitchTraits("", name))
        ports = traits.ports or self.fabric.switch_ports
        lanes = traits.cage_ports or self.fabric.cage_ports
        port = self._number(line, key, end, lanes)
        if port is None:
            return None
        spelt, first = self.spelt.setdefault(name.lower(), (name, line))
        if spelt != name:
            text = (
                f"{name!r} and {spelt!r} in line {first} are one name, because case does not count. Write one of them."
            )
            self.written.add(line, f"{key}: {text}")
            return None
        self.found.switches[name] = None
        if not 1 <= port <= ports:
            where = "fabric.switches" if name in self.traits else "fabric.switch_ports"
            text = f"{name} has no port {end.port}. Allowed: 1 to {ports} ({where})."
            self.written.add(line, f"{key}_port: {text}")
            return None
        return name, port

    def _number(self, line: int, key: str, end: WrittenEnd, lanes: int) -> int | None:
        if _PORT.match(end.port):
            return int(end.port)
        if cage := _CAGE.match(end.port):
            if 1 <= int(cage[2]) <= lanes and int(cage[1]):
                return (int(cage[1]) - 1) * lanes + int(cage[2])
            text = f"{end.name} has cages of {lanes} port{'s' * (lanes > 1)} (fabric.cage_ports), so {end.port} does not exist."
            self.written.add(line, f"{key}_port: {text}")
            return None
        if not end.port:
            self.written.add(line, f"{key}_port: is empty. Write the port of {end.name}, such as 17 or 9/1.")
            return None
        hint = did_you_mean(end.name, list(self.known))
        text = f"{end.name!r} is not a machine of the cluster file, and {end.port!r} is not a port of a switch.{hint}"
        self.written.add(line, f"{key}: {text} Allowed: a number, or cage/lane such as 9/1.")
        return None


def uncabled(known: Mapping[str, Mapping[str, Hca]], listed: ListedCables, by_unit: bool) -> Iterator[str]:
    """Yield the HCAs of the fabric for which the list has no cable."""
    for devices in known.values():
        for hca in devices.values():
            if hca.name not in listed.hcas and not (by_unit and hca.rail is None):
                yield hca.name
