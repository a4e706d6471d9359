# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the cables of a discovered fabric as a list of cables, in the names of the cluster file."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ...cluster import Cluster, HostNic, Nic
from ..core.fabric_model import Hca, Link
from ..core.guid_record import Record
from ..core.link_rates import USUAL_WIDTH, Rate, named_rate
from ..core.node_descriptions import natural
from ..core.places import counted
from ..core.unnamed_nodes import guid_in_name
from ..plan.cable_rows import NEEDED, RATE_COLUMNS
from ..plan.listed_ends import known_hcas
from .audit_links import meant_rates
from .seen_fabric import SeenFabric


@dataclass
class AdoptedList:
    """The list as text, the GUIDs of its nodes, the NICs that are in it, and what could not be written."""

    text: str
    guids: Record
    # Name of an HCA in the list -> HCA of the cluster file.
    hcas: dict[str, Hca] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    # Host that the cluster file does not have -> its devices.
    strangers: dict[str, list[str]] = field(default_factory=dict)
    # Names of the list by name in the discovery, where they differ in case.
    renamed: dict[str, str] = field(default_factory=dict)


def adopted_list(cluster: Cluster, seen: SeenFabric, speed: str) -> AdoptedList:
    """Return the list of the cables whose ends both have a name of the cluster file, of a switch, or none at all.

    `speed` is the fabric's: cables with another rate have it in their rows, unless their NIC states one.
    """
    return _ListWriter(cluster, seen, speed).write()


class _ListWriter:
    def __init__(self, cluster: Cluster, seen: SeenFabric, speed: str) -> None:
        self.cluster, self.seen = cluster, seen
        self.usual = (USUAL_WIDTH, speed)
        self.meant = meant_rates(seen)
        nics: list[tuple[str, Nic | HostNic]] = [
            (node.name, nic) for node in cluster.nodes for nic in node.profile.nics
        ]
        nics += [(host.name, nic) for host in cluster.hosts.values() for nic in host.nics]
        # Host and device of NICs whose rates the cluster file states.
        self.stated = {(name, nic.name) for name, nic in nics if nic.speed or nic.width}
        self.known = known_hcas(cluster, by_unit=False)
        self.folded = {host.lower(): host for host in self.known}
        self.found = AdoptedList("", {})
        # Devices that a known host does not have in the cluster file, by host.
        self.foreign: dict[str, list[str]] = {}
        self.twice = {node for nodes in seen.twice.values() for node in nodes}

    def write(self) -> AdoptedList:
        names = self._names()
        rows = [
            (link, names[link.a], names[link.b]) for link in self.seen.plan.links if {link.a, link.b} <= names.keys()
        ]
        self.found.text = self._csv(rows)
        joined = {name for _link, one, other in rows for name in (one, other)}
        for name, mine in names.items():
            if mine in joined:
                self._record(name, mine)
        self._report()
        return self.found

    def _names(self) -> dict[str, str]:
        """Return discovered name -> name of the list."""
        plan = self.seen.plan
        clash = [name for name in plan.switches if name.lower() in self.folded]
        if clash:
            text = f"{counted(len(clash), 'switch')} with the name of a machine, so their cables are not in the list: {few(clash)}"
            self._add("duplicate-name", clash[0], text, "rename the switch", ERROR)
        found = {name: name for name in plan.switches if name not in clash}
        for name, hca in plan.hcas.items():
            if guid_in_name(name):
                # Two nodes with one name are no nodes without one.
                if name not in self.twice:
                    found[name] = name
                continue
            host = hca.host if hca.host in self.known else self.folded.get(hca.host.lower(), "")
            if not host:
                self.found.strangers.setdefault(hca.host, []).append(hca.device)
            elif hca.device not in self.known[host]:
                self.foreign.setdefault(host, []).append(hca.device)
            else:
                found[name] = f"{host} {hca.device}"
                self.found.hcas[found[name]] = self.known[host][hca.device]
                if host != hca.host:
                    self.found.renamed[name] = found[name]
        return found

    def _csv(self, rows: list[tuple[Link, str, str]]) -> str:
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        rates = [self._rate(link, one) for link, one, _other in rows]
        columns = RATE_COLUMNS if any(rates) else ()
        writer.writerow((*NEEDED, *columns, "comment"))
        for (link, one, other), rate in zip(rows, rates, strict=True):
            port = "" if link.a in self.seen.plan.hcas else str(link.a_port)
            cells = (rate or ("", ""))[::-1] if columns else ()
            writer.writerow((one, port, other, str(link.b_port), *cells, self._comment(link)))
        return file.getvalue()

    def _rate(self, link: Link, hca: str) -> Rate | None:
        """Return the rate that a row states; None if it follows from the cluster file, or is unknown."""
        host, _blank, device = hca.partition(" ")
        rate = named_rate(self.meant.get(link, ("", "")))
        return None if rate == self.usual or (host, device) in self.stated else rate

    def _comment(self, link: Link) -> str:
        node = self.seen.unnamed.get(link.a)
        if node is None or link.a in self.seen.plan.switches:
            return ""
        text = "".join(sign if sign.isprintable() and sign not in '"#' else "?" for sign in node.description).strip()
        return f"without a name: {text}" if text else "without a name"

    def _record(self, name: str, mine: str) -> None:
        thing = self.seen.plan.switches.get(name) or self.seen.plan.hcas[name]
        self.found.guids[mine] = {"node": thing.guid}
        if isinstance(thing, Hca) and thing.port_guid:
            self.found.guids[mine]["port"] = thing.port_guid

    def _report(self) -> None:
        """Report HCAs whose names fit no NIC of the cluster file."""
        for devices, hosts in _alike(self.found.strangers):
            text = f"not in the cluster file, so their cables are not in the list; their devices: {few(devices, 10)}"
            remedy = "add them under `hosts` or to a rack, with `nics`, and adopt again"
            self._add("unknown", fold(hosts), text, remedy, WARNING)
        for devices, hosts in _alike(self.foreign):
            has = self.known[hosts[0]]
            text = f"devices {few(devices, 10)} differ from the NICs in the cluster file, which are {few(has, 10) or 'none'}"
            text += "; their cables are not in the list"
            remedy = "state the names of devices as the hosts have them, in `nics`, and adopt again"
            self._add("unknown", fold(hosts), text, remedy, ERROR)
        if self.found.renamed:
            text = f"{len(self.found.renamed)} names of HCAs differ from the cluster file in case alone: {few(self.found.renamed)}"
            self._add("unknown", self.cluster.name, text, "use one spelling", WARNING)

    def _add(self, kind: str, where: str, text: str, remedy: str, severity: str) -> None:
        self.found.findings.append(Finding(kind, where, "", text, remedy, severity))


def _alike(devices_of: Mapping[str, list[str]]) -> list[tuple[list[str], list[str]]]:
    """Return devices and the hosts that have them, for all hosts with the same."""
    found: dict[tuple[str, ...], list[str]] = {}
    for host, devices in devices_of.items():
        found.setdefault(tuple(sorted(devices, key=natural)), []).append(host)
    return [(list(devices), sorted(hosts, key=natural)) for devices, hosts in found.items()]


def cables_of_text(text: str) -> dict[tuple[str, ...], None]:
    """Return the cables of a list that was written here, without comments: what two lists are compared by."""
    rows = list(csv.reader(io.StringIO(text)))
    return {tuple(cell.strip() for cell in row[:4]): None for row in rows[1:] if len(row) >= len(NEEDED)}


def difference(old: str, new: str) -> str:
    """Return which cables a new list has and an old one has not, and the reverse; "" if they have the same."""
    before, after = cables_of_text(old), cables_of_text(new)
    parts = []
    for what, one, other in (("more", after, before), ("less", before, after)):
        if listed := [cable for cable in one if cable not in other]:
            parts.append(f"{counted(len(listed), 'cable')} {what}: {few((_words(cable) for cable in listed), 4)}")
    return "; ".join(parts)


def _words(cable: tuple[str, ...]) -> str:
    a, a_port, b, b_port = cable
    return f"{a}{f' port {a_port}' if a_port else ''} to {b} port {b_port}"


def merged_record(old: Mapping[str, Mapping[str, str]], new: Record) -> Record:
    """Return a record with what was discovered now; other names keep their GUIDs, as long as no other node has them."""
    taken = {guid for guids in new.values() for guid in guids.values()}
    found = {name: dict(guids) for name, guids in new.items()}
    for name, guids in old.items():
        if name not in found and not taken.intersection(guids.values()) and not guid_in_name(name):
            found[name] = dict(guids)
    return found
