# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the discovered fabric in the names of the plan, and how each name was found."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA

from ..core.fabric_model import Plan
from ..core.places import End
from .merge import MergedDiscovery

# How a node was matched. DEVICE: the node names its host, and the other hosts of its kind show which of the plan's devices its device is.
# EXCHANGED: its name is that of another node, and its cables are those of this one. RENUMBERED: a card before it is absent. RECORDED: its
# name is that of another device of its host, and the GUID on record and the cable are those of this one.
NAME, GUID, DEVICE, ORDER, PLACE, REST = "name", "GUID", "device", "order", "place", "being the only one left"
EXCHANGED, RENUMBERED, RECORDED = "cables", "place behind an absent card", "GUID and cable"


@dataclass(frozen=True)
class Exchange:
    """Nodes whose names are in each other's place: `names[n]` has the cables of `places[n]`; all are switches, or all are hosts.

    `fitting` of `cables` cables fit. `confirmed`: "places" or "names", if the GUIDs on record confirm one of the two; else "".
    """

    names: tuple[str, ...]
    places: tuple[str, ...]
    switches: bool
    fitting: int
    cables: int
    confirmed: str
    # Ports for the finding: switches, or all adapters of the hosts.
    ports: tuple[End, ...]


@dataclass
class IdentifiedFabric:
    """Discovered fabric with the plan's names where they match; an unknown node is `description [GUID]`."""

    merged: MergedDiscovery
    # GUID of the node -> name, and how it was matched.
    names: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    ports: dict[End, End] = field(default_factory=dict)
    # Rates that differ from the plan's usual one, and all rates of cables that are planned with another.
    rates: dict[End, tuple[str, str]] = field(default_factory=dict)
    # Name -> GUID of the node, and of an HCA's port.
    guids: dict[str, str] = field(default_factory=dict)
    port_guids: dict[str, str] = field(default_factory=dict)
    # Names that reported themselves, and names that only others reported.
    reported: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    # Name of an unknown node -> its kind.
    strangers: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    # GUIDs of nodes that are not compared, such as SHARP's.
    ignored: set[str] = field(default_factory=set)
    # Name -> why the GUID of its node is not recorded.
    unrecorded: dict[str, str] = field(default_factory=dict)
    # GUID on record -> host of the plan that its node names now, which is another one than on record.
    moved: dict[str, str] = field(default_factory=dict)
    exchanges: list[Exchange] = field(default_factory=list)
    # Host -> its adapters that have other numbers, since one before them is absent.
    renumbered: dict[str, list[str]] = field(default_factory=dict)
    # Host -> (device that it names, its adapter by GUID and cable).
    misnamed: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def translate(self, plan: Plan) -> None:
        """Replace GUIDs by names in everything that is compared."""
        names, cables = self.names, self.merged.cables
        for guid, name in names.items():
            node = self.merged.nodes[guid]
            self.guids[name] = guid
            (self.reported if node.reported else self.silent).add(name)
            if node.kind == CA and node.port_guid:
                self.port_guids[name] = node.port_guid
        self.ports = {
            (names[guid], port): (names[far_guid], far_port)
            for (guid, port), (far_guid, far_port) in cables.items()
            if guid in names and far_guid in names
        }
        wanted = (plan.width, plan.speed)
        others = {end for link in plan.links if link.speed or link.width for end in link.ends}
        self.rates = {
            (names[near[0]], near[1]): rate
            for rate, ports in self.merged.rates.items()
            if rate != wanted or others
            for near in ports
            if near in cables and near[0] in names and (rate != wanted or (names[near[0]], near[1]) in others)
        }
