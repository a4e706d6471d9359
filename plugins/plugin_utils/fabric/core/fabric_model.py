# SPDX-License-Identifier: GPL-3.0-or-later
"""Model a planned fabric: switches, HCAs and the links between them.

Names identify everything, since GUIDs are unknown before delivery; a GUID is a property that may be added later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import filterfalse
from operator import attrgetter

COMPUTE, STORAGE, MANAGEMENT = "compute", "storage", "management"
# Value of `Plan.technology` that has subnet managers.
INFINIBAND = "infiniband"


@dataclass(frozen=True)
class Switch:
    """A switch. Tier 1 holds hosts (leaf), 2 is above it (spine), 3 above that (core); 0 is unknown."""

    name: str
    ports: int
    tier: int
    rail: int | None = None
    # Scalable unit, pod or dragonfly group.
    group: str = ""
    # Switches and HCAs of one plane are one subnet; planes are not connected.
    plane: str = ""
    rack: str = ""
    # Ports a cage holds: 2 on a Quantum-2, whose 64 ports are 32 cages.
    lanes: int = 1
    model: str = ""
    guid: str = ""

    def cage(self, port: int) -> str:
        """Return a port as it is printed on the switch: its number, or cage and lane.

        >>> Switch("leaf1", 64, 1, lanes=2).cage(4)
        '2/2'
        """
        return str(port) if self.lanes == 1 else f"{(port - 1) // self.lanes + 1}/{(port - 1) % self.lanes + 1}"


@dataclass(frozen=True)
class Hca:
    """A host's adapter, with one port. Its name, as it appears in a subnet, is `host device`."""

    host: str
    device: str
    rail: int | None = None
    plane: str = ""
    purpose: str = COMPUTE
    rack: str = ""
    group: str = ""
    guid: str = ""
    port_guid: str = ""
    # Its device's name in NodeDescriptions, if that is not `device`.
    label: str = ""

    # Cached: it is read some twenty times, and its parts do not change.
    @cached_property
    def name(self) -> str:
        """Return the name in the subnet."""
        return f"{self.host} {self.device}"


@dataclass(frozen=True)
class Link:
    """A cable between two ports, the lower end first; an HCA's port is 1."""

    a: str
    a_port: int
    b: str
    b_port: int
    # host, leaf-spine, spine-core, local (inside a dragonfly group), global (between groups)
    kind: str
    # A planned cable that is missing on purpose.
    missing: bool = False
    # Of this cable, if not the plan's: speed of a lane, and width; `link_rates.rate_of` has the rate of every cable.
    speed: str = ""
    width: str = ""
    # The key or file that states them.
    rate_from: str = field(default="", compare=False)

    @property
    def ends(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Return both ends."""
        return (self.a, self.a_port), (self.b, self.b_port)


@dataclass(frozen=True)
class TenantPartition:
    """A tenant's ports: `members` are hosts (with all their HCAs) or HCAs, each `full`, `limited` or `both`. `pkey` has 15 bits."""

    name: str
    pkey: int
    members: dict[str, str]
    ipoib: bool = True


@dataclass(frozen=True)
class SubnetManager:
    """An HCA whose host runs OpenSM; the highest priority (0 to 15) is master of its plane."""

    hca: str
    priority: int


@dataclass(frozen=True)
class Domain:
    """Hosts that one NVLink fabric joins; `expected` is their planned number. UUID and clique are known after delivery.

    `racks` are those of a domain over several, `rack` is the first. `absent` is how many hosts more like domains of the profile have.
    """

    name: str
    hosts: tuple[str, ...]
    rack: str = ""
    expected: int = 18
    uuid: str = ""
    clique: str = ""
    racks: tuple[str, ...] = ()
    absent: int = 0


@dataclass
class Plan:
    """A whole fabric. Switches and HCAs by name; `links` in the order of the cabling plan."""

    name: str
    # leaf-spine, rail-optimised, three-tier, rail-only, dragonfly
    kind: str
    technology: str = "infiniband"
    speed: str = "HDR"
    width: str = "4x"
    # Maximum ratio of hosts' ports to uplinks of a leaf.
    oversubscription: float = 1.0
    # Whether each switch has SHARP's aggregation node on the port after its last one.
    sharp: bool = False
    switches: dict[str, Switch] = field(default_factory=dict)
    hcas: dict[str, Hca] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    partitions: list[TenantPartition] = field(default_factory=list)
    managers: list[SubnetManager] = field(default_factory=list)
    domains: list[Domain] = field(default_factory=list)
    # Switch -> ports that are kept free on purpose.
    spare: dict[str, list[int]] = field(default_factory=dict)
    # A list of cables states it: its shape is that of the fabric that exists, and `uncabled` are the HCAs that the list does not have.
    listed: bool = False
    uncabled: list[str] = field(default_factory=list)
    # Of a further fabric of the cluster: what names of its directories and units begin with. A digest of the plan does not have it.
    part: str = field(default="", repr=False)
    # Name in lower case -> fabric, of adapters and switches of the cluster's other fabrics.
    elsewhere: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    # Switch or HCA -> highest port that `join` used; cables upwards use a switch's last ports, and do not count.
    used: dict[str, int] = field(default_factory=dict, repr=False, compare=False)

    def join(self, a: str, b: str, kind: str) -> None:
        """Add a link between the next free ports of both."""
        for name in (a, b):
            self.used[name] = self.used.get(name, 0) + 1
            while self.spare and self.used[name] in self.spare.get(name, ()):
                self.used[name] += 1
        self.links.append(Link(a, self.used[a], b, self.used[b], kind))

    def add(self, *things: Switch | Hca) -> None:
        """Add switches and HCAs; their names must be unique, which `checks` verifies before."""
        for thing in things:
            if isinstance(thing, Switch):
                self.switches[thing.name] = thing
            else:
                self.hcas[thing.name] = thing

    @property
    def planes(self) -> list[str]:
        """Return the planes, in the order of their first switch."""
        return list(dict.fromkeys(switch.plane for switch in self.switches.values()))

    @property
    def present(self) -> Iterator[Link]:
        """Yield the links whose cable must be present."""
        return filterfalse(attrgetter("missing"), self.links)

    @property
    def tiers(self) -> int:
        """Return how many tiers of switches there are."""
        return max((switch.tier for switch in self.switches.values()), default=0)

    def roots(self, plane: str | None = None) -> list[Switch]:
        """Return the switches of the top tier, of one plane or of all."""
        chosen = [switch for switch in self.switches.values() if plane is None or switch.plane == plane]
        top = max((switch.tier for switch in chosen), default=0)
        return [switch for switch in chosen if switch.tier == top]

    def leaf_of(self) -> dict[str, tuple[str, int]]:
        """Return HCA -> leaf and port of its link."""
        hcas = self.hcas
        return {link.a: (link.b, link.b_port) for link in self.links if link.a in hcas and not link.missing}

    def where(self, name: str) -> str:
        """Return where to go for a switch or an HCA: `rack a01, leaf-a01`."""
        thing = self.switches.get(name) or self.hcas.get(name)
        return f"rack {thing.rack}, {name}" if thing and thing.rack else name


@dataclass(frozen=True)
class PlanProblem:
    """A mistake in a plan: the invariant (P1 to P6, P9 to P12), place and text; `error` or `warning`."""

    rule: str
    where: str
    text: str
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.where}: {self.text} [{self.rule}]"


def by_switch(links: Iterable[Link]) -> dict[str, dict[int, tuple[str, int]]]:
    """Return switch or HCA -> port -> the end at the other side, both ways."""
    found: dict[str, dict[int, tuple[str, int]]] = {}
    for link in links:
        found.setdefault(link.a, {})[link.a_port] = (link.b, link.b_port)
        found.setdefault(link.b, {})[link.b_port] = (link.a, link.a_port)
    return found
