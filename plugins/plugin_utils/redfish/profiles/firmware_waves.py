# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan firmware updates of many nodes in waves: BMC first, then BIOS, then the rest. Each wave is bounded. Nothing is applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ..resources.firmware_versions import OLDER, UNKNOWN
from .firmware import MISSING, ORDER, FirmwareRow


@dataclass(frozen=True)
class NodePlace:
    """Hold where a node is, for the bounds of a wave: its rack, and its partitions of Slurm."""

    name: str
    rack: str = ""
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bounds:
    """Hold the bounds of one wave in nodes; None: no bound. `nodes` bounds all, `per_rack` and `per_partition` each rack and partition."""

    nodes: int = 8
    per_rack: int | None = None
    per_partition: int | None = None

    def __post_init__(self) -> None:
        for name in ("nodes", "per_rack", "per_partition"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise ValueError(f"{name}: {number} is not a bound of a wave. Allowed: 1 or more.")


@dataclass(frozen=True)
class Wave:
    """Hold one wave: its number from 1, the kind of firmware (bmc, bios, other), and node -> ids of the items to update."""

    number: int
    kind: str
    nodes: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class WavePlan:
    """Hold the waves in order. `left`: node -> the reasons why rows of it are in no wave."""

    waves: tuple[Wave, ...] = ()
    left: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def plan_waves(rows: Mapping[str, Iterable[FirmwareRow]], places: Iterable[NodePlace], bounds: Bounds) -> WavePlan:
    """Return the waves for nodes with older firmware, by node -> rows of its comparison.

    All waves of a kind come before the next kind, so a node has its new BMC before its BIOS is updated. Within a kind, each node is in the
    first wave with room, in the order of `places`. Rows that are unknown or missing are in no wave, and neither are nodes that have such a
    row for a kind that must be right first. ValueError: a node without a place.
    """
    ordered = [one for one in places if one.name in rows]
    missing = sorted(set(rows) - {one.name for one in ordered})
    if missing:
        raise ValueError(f"no rack and partitions for {', '.join(missing)}")
    left: dict[str, list[str]] = {}
    blocked: set[str] = set()
    waves: list[Wave] = []
    for kind in ORDER:
        todo: dict[str, tuple[str, ...]] = {}
        for place in ordered:
            mine = [row for row in rows[place.name] if row.kind == kind]
            doubtful = [row for row in mine if row.state in (UNKNOWN, MISSING)]
            older = tuple(row.item.id for row in mine if row.state == OLDER and row.item)
            left.setdefault(place.name, []).extend(_reason(row) for row in doubtful)
            if older and place.name in blocked:
                left[place.name].append(f"{', '.join(older)}: waits for the firmware above")
            elif older:
                todo[place.name] = older
            if doubtful and kind != ORDER[-1]:
                blocked.add(place.name)
        for names in _filled([one for one in ordered if one.name in todo], bounds):
            waves.append(Wave(len(waves) + 1, kind, {name: todo[name] for name in names}))
    return WavePlan(tuple(waves), {name: tuple(one) for name, one in left.items() if one})


def _reason(row: FirmwareRow) -> str:
    if row.item is None:
        return f"{row.component.pattern}: no item of the inventory matches"
    return f"{row.item.id}: {row.item.version or 'no version'} and {row.component.version} are not comparable: {row.reason}"


def _filled(places: list[NodePlace], bounds: Bounds) -> list[list[str]]:
    """Return the names of each wave: each node is in the first wave that has room for it."""
    waves: list[list[NodePlace]] = []
    for place in places:
        room = next((wave for wave in waves if _has_room(wave, place, bounds)), None)
        if room is None:
            waves.append([place])
        else:
            room.append(place)
    return [[one.name for one in wave] for wave in waves]


def _has_room(wave: list[NodePlace], place: NodePlace, bounds: Bounds) -> bool:
    if len(wave) >= bounds.nodes:
        return False
    if bounds.per_rack is not None and sum(one.rack == place.rack for one in wave) >= bounds.per_rack:
        return False
    return bounds.per_partition is None or all(
        sum(name in one.partitions for one in wave) < bounds.per_partition for name in place.partitions
    )
