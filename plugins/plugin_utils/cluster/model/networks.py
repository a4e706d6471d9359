# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks and fabrics as the file states them."""

from __future__ import annotations

from dataclasses import dataclass

from ..schema.fabric_keys import StatedFabric
from .scheduler import Tenant


@dataclass(frozen=True, slots=True)
class Network:
    """A network; addresses are numbers, so that ten thousand of them cost nothing."""

    name: str
    cidr: str
    first: int
    last: int
    gateway: int | None
    start: int
    # Whose NICs have their addresses here; several have equal parts of it, in this order.
    rails: tuple[int, ...] = ()
    # Of rails with a gateway: the networks behind it, such as 10.40.8.0/22.
    routes: tuple[str, ...] = ()

    @property
    def part(self) -> int:
        """Return how many addresses the part of a rail has."""
        size = (self.last - self.first + 1) // len(self.rails)
        return 1 << (size.bit_length() - 1) if size else 0


@dataclass(frozen=True, slots=True)
class SwitchTraits:
    """A switch with values that differ from the fabric's; `key` is the key of the file that names it."""

    key: str
    name: str
    ports: int | None = None
    cage_ports: int | None = None
    group: str = ""
    # Fastest speed of a lane of its ports; "": the fabric's.
    speed: str = ""


@dataclass(frozen=True, slots=True)
class Fabric:
    """The fabric as the file states it; `plugin_utils/fabric` makes the plan of it."""

    spines: tuple[str, ...]
    top: str
    rails: int | None
    kind: str = "leaf-spine"
    technology: str = "infiniband"
    speed: str = "NDR"
    switch_ports: int = 64
    cage_ports: int = 1
    uplinks: int | None = None
    cores: tuple[str, ...] = ()
    global_links: int = 1
    oversubscription: int = 1
    # Whether switches have SHARP's aggregation nodes.
    sharp: bool = False
    # Of each, which entry of the file names it, switch and port.
    missing: tuple[tuple[int, str, int], ...] = ()
    spare: tuple[tuple[int, str, int], ...] = ()
    leaves: tuple[str, ...] = ()
    partitions: tuple[Tenant, ...] = ()
    # Of each, which key of the file names it, switch and rack.
    switch_racks: tuple[tuple[str, str, str], ...] = ()
    # The list of cables that states the fabric, as the file names it; None: the shape is planned from the other keys.
    cables: str | None = None
    # Those that differ from the values above.
    switches: tuple[SwitchTraits, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedFabric:
    """A fabric of the file: its name and keys, its section (None: not stated, so it has no plan), and the hosts of its OpenSM in order."""

    stated: StatedFabric
    fabric: Fabric | None
    subnet_managers: tuple[str, ...] = ()
