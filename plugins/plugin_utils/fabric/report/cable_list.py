# SPDX-License-Identifier: GPL-3.0-or-later
"""The cabling plan for installers: a row for each cable with both ends and their labels, and the bill of cables.

A cable is known by the port of its upper end (`leaf-03:17`), as in the cluster file's `missing`: another host changes no other label.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import NamedTuple

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import Link, Plan, Switch
from ..core.link_rates import rate_of
from ..core.node_descriptions import natural

# Rack -> its row, and its number in the row.
Places = Mapping[str, tuple[str, int]]
INSTALL, LEAVE_OUT = "install", "leave out"
BETWEEN_SWITCHES = "inter-switch"
# What a spreadsheet would take for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# What is before one in a CSV, so that not every cell is looked at.
_BEFORE = (",", "\n", '"')


@dataclass(frozen=True)
class Room:
    """Distances in metres, from which a cable's length is estimated.

    Rows are taken to stand beside each other in the natural order of their names, and cables to go up to a tray, along it, across and down.
    """

    # From rack to rack within a row, and from row to row.
    rack: float = 0.6
    row: float = 3.0
    # Up to the tray, once; a cable goes up and down.
    rise: float = 2.0
    # Between two devices of one rack.
    inside: float = 1.5
    # Part of the length that is added for curves and for what is wrong in the plan of the room.
    slack: float = 0.1
    # What can be bought; above the longest, whole tens of metres.
    lengths: Sequence[float] = (0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25, 30, 40, 50, 70, 100)

    def buy(self, wanted: float) -> float:
        """Return the shortest length that can be bought and is enough.

        >>> Room().buy(5.1), Room().buy(101)
        (7, 110)
        """
        return next((length for length in sorted(self.lengths) if length >= wanted - 1e-9), math.ceil(wanted / 10) * 10)

    def estimate(self, one: str, other: str, places: Places) -> float | None:
        """Return the length of a cable between two racks; None where a rack or its place is not known."""
        if not one or not other:
            return None
        if one == other:
            return self.buy(self.inside * (1 + self.slack))
        if one not in places or other not in places:
            return None
        rows = {
            row: number for number, row in enumerate(sorted({row for row, _unused in places.values()}, key=natural))
        }
        across = abs(rows[places[one][0]] - rows[places[other][0]]) * self.row
        along = abs(places[one][1] - places[other][1]) * self.rack
        return self.buy((2 * self.rise + across + along) * (1 + self.slack))


class Row(NamedTuple):
    """A cable. `a` is the lower end; a port is the number of a switch's or the device of a host's; `cage` is cage/lane as printed.

    Speed and width are empty if all links of the plan have one rate; the CSV has no columns for them then.
    """

    cable: str
    state: str
    kind: str
    purpose: str
    plane: str
    rail: str
    a_rack: str
    a_device: str
    a_port: str
    a_cage: str
    a_label: str
    b_rack: str
    b_device: str
    b_port: str
    b_cage: str
    b_label: str
    length_m: str
    speed: str = ""
    width: str = ""


# Of `Row`, those of rates, the last ones.
_RATE_COLUMNS = 2


@dataclass(frozen=True)
class Item:
    """Cables of one sort, and how many of them are needed; a length that is not known is blank."""

    kind: str
    purpose: str
    speed: str
    length_m: str
    count: int


def rows(plan: Plan, places: Places | None = None, room: Room | None = None) -> list[Row]:
    """Return all cables in the order of the plan; `places` are the places of racks."""
    work = _RowBuilder(plan, places or {}, room or Room())
    return [work.row(link) for link in plan.links]


class _RowBuilder:
    def __init__(self, plan: Plan, places: Places, room: Room) -> None:
        self.plan, self.places, self.room = plan, places, room
        # Between the same racks, all cables are alike.
        self.known: dict[tuple[str, str], float | None] = {}
        self.mixed = any(link.speed or link.width for link in plan.links)

    def row(self, link: Link) -> Row:
        one, other = self.plan.switches.get(link.a), self.plan.switches.get(link.b)
        hca = None if one and other else self.plan.hcas.get(link.b if one else link.a)
        a_rack, a_device, a_port, a_cage, a = self._end(link.a, link.a_port, one)
        b_rack, b_device, b_port, b_cage, b = self._end(link.b, link.b_port, other)
        # Of a host's cable, the only switch is both.
        low, high = one or other, other or one
        plane = low.plane if low and high and low.plane == high.plane else ""
        rail = hca.rail if hca else _rail(low, high)
        return Row(
            f"{link.b}:{link.b_port}",
            LEAVE_OUT if link.missing else INSTALL,
            link.kind,
            hca.purpose if hca else BETWEEN_SWITCHES,
            plane,
            "" if rail is None else str(rail),
            *(a_rack, a_device, a_port, a_cage, f"{a} > {b}"),
            *(b_rack, b_device, b_port, b_cage, f"{b} > {a}"),
            self._length(a_rack, b_rack),
            *(rate_of(self.plan, link)[::-1] if self.mixed else ()),
        )

    def _end(self, name: str, port: int, switch: Switch | None) -> tuple[str, str, str, str, str]:
        """Return rack, device, port, cage and label of an end."""
        if switch:
            rack, device, shown = switch.rack, name, str(port)
            cage = switch.cage(port) if switch.lanes > 1 else ""
        else:
            hca = self.plan.hcas[name]
            rack, device, cage = hca.rack, hca.host, ""
            shown = hca.device if port == 1 else f"{hca.device}/{port}"
        label = f"{device} {cage or shown}"
        return rack, device, shown, cage, f"{rack} {label}" if rack else label

    def _length(self, one: str, other: str) -> str:
        key = (one, other)
        if key not in self.known:
            self.known[key] = self.room.estimate(one, other, self.places)
        length = self.known[key]
        return "" if length is None else f"{length:g}"


def _rail(low: Switch | None, high: Switch | None) -> int | None:
    """Return the rail of a cable between switches: of both, or of the end that has any."""
    if not low or not high or low.rail == high.rail:
        return low.rail if low else None
    return None if None not in (low.rail, high.rail) else high.rail if low.rail is None else low.rail


def bill(plan: Plan, cables: Iterable[Row]) -> list[Item]:
    """Return the number of cables of each sort to buy, without cables that are left out."""
    counts = Counter(
        (row.kind, row.purpose, row.width or plan.width, row.speed or plan.speed, row.length_m)
        for row in cables
        if row.state == INSTALL
    )
    return [
        Item(kind, purpose, f"{width} {speed}", length, count)
        for (kind, purpose, width, speed, length), count in sorted(counts.items(), key=_in_order)
    ]


def unmeasured(plan: Plan, cables: Iterable[Row], places: Places) -> tuple[str, str] | None:
    """Return why planned cables have no length, and the keys to state in the cluster file; None if all have one."""
    without = [row for row in cables if not row.length_m and row.state == INSTALL]
    if not without:
        return None
    ends = [end for row in without for end in ((row.a_rack, row.a_device), (row.b_rack, row.b_device))]
    nowhere = list(dict.fromkeys(device for rack, device in ends if not rack))
    switches = [name for name in nowhere if name in plan.switches]
    hosts = [name for name in nowhere if name not in plan.switches]
    racks = list(dict.fromkeys(rack for rack, _device in ends if rack and rack not in places))
    wrong = [
        (switches, "the rack of switches is unknown", "fabric.switch_racks"),
        (hosts, "the rack of hosts is unknown", "their `rack` under `hosts`"),
        (racks, "of racks no row and column is known", "`row` and `column` under `racks`"),
    ]
    why = "; ".join(f"{text}: {few(names)}" for names, text, _key in wrong if names)
    return f"{len(without)} have no length: {why}", "state " + ", ".join(key for names, _text, key in wrong if names)


def _in_order(item: tuple[tuple[str, str, str, str, str], int]) -> tuple[str, str, str, str, float]:
    kind, purpose, width, speed, length = item[0]
    return kind, purpose, width, speed, float(length or "inf")


def as_csv(listed: Sequence[Row] | Sequence[Item], sort: type[Row] | type[Item] = Row) -> str:
    """Return rows or items as CSV with a header, also without any row; no cell is a formula to a spreadsheet."""
    cells = [tuple(sort.__annotations__), *(one if isinstance(one, Row) else _cells(one) for one in listed)]
    if sort is Row and not any(isinstance(one, Row) and one.speed for one in listed):
        cells = [row[:-_RATE_COLUMNS] for row in cells]
    text = _lines(cells)
    if any(before + sign in text for sign in _FORMULA if sign in text for before in _BEFORE):
        text = _lines([tuple(map(_plain, row)) for row in cells])
    return text


def _cells(item: Item) -> tuple[str, ...]:
    return tuple(map(str, astuple(item)))


def _lines(cells: Sequence[tuple[str, ...]]) -> str:
    """Return rows of the same length as CSV. Mostly no cell needs quotes, and no character is read by itself."""
    text = "\n".join(map(",".join, cells)) + "\n"
    commas, ends = (len(cells[0]) - 1) * len(cells), len(cells)
    if '"' in text or "\r" in text or (text.count(","), text.count("\n")) != (commas, ends):
        file = io.StringIO()
        csv.writer(file, lineterminator="\n").writerows(cells)
        text = file.getvalue()
    return text


def _plain(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell
