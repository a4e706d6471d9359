# SPDX-License-Identifier: GPL-3.0-or-later
"""Number the ports of a switch by the names that its system gives to them. The rows are in port_dialects.json.

One name seldom says which system wrote it: Ethernet1/5 is the fifth port of a Nexus, and the fifth lane of an Arista's first cage. So all
names of a switch are read together, with the layout of the plan: a reading is valid if every name has a number by it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Line cards of the largest chassis.
_CARDS = 18
# Ports outside the fabric, by which people reach a switch.
_MANAGEMENT = re.compile(r"(?:eth|mgmt|em|fxp|me|ma|vme|oob)\d*(?:[/.]\d+)*|Management\S*|re\d+:mgmt-\d+|M-\S+|MEth\S+")


@dataclass(frozen=True)
class Dialect:
    """One way to name ports.

    Groups of `pattern`: `port` is a running number that grows by one of `steps`; or `cage` with `lane` (a letter from a, or a number that
    grows by one of `lane_steps`), on the line card or member `slot`; `pic` must be the same in all names. `first_cage`, `first_lane` and
    `first_slot` are the numbers of the first ones. `recognised` is a pattern of LLDP's system description. `examples` has name -> number
    and the ports of a cage; `sources` the published outputs. `remedy` is what to do if the names are not sent.
    """

    name: str
    system: str
    recognised: re.Pattern[str]
    pattern: re.Pattern[str]
    first_cage: int
    first_lane: int = 0
    first_slot: int = 0
    steps: tuple[int, ...] = ()
    lane_steps: tuple[int, ...] = (1,)
    examples: dict[str, tuple[int, int]] = field(default_factory=dict, hash=False)
    sources: tuple[str, ...] = ()
    remedy: str = ""


@dataclass(frozen=True)
class Reading:
    """Numbers of all ports by one dialect; `detail` distinguishes its readings, such as `step 4`."""

    dialect: Dialect
    numbers: dict[str, int]
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.dialect.name} ({self.detail})" if self.detail else self.dialect.name


@functools.cache
def dialects() -> tuple[Dialect, ...]:
    """Return all rows."""
    table = json.loads(Path(__file__).with_name("port_dialects.json").read_text(encoding="utf-8"))
    return tuple(_dialect(row) for row in table["rows"])


def _dialect(row: dict[str, Any]) -> Dialect:
    plain = {
        key: row[key] for key in ("name", "system", "first_cage", "first_lane", "first_slot", "remedy") if key in row
    }
    return Dialect(
        **plain,
        recognised=re.compile(row["recognised"]),
        pattern=re.compile(row["pattern"]),
        steps=tuple(row.get("steps", ())),
        lane_steps=tuple(row.get("lane_steps", (1,))),
        examples={name: (number, lanes) for name, (number, lanes) in row["examples"].items()},
        sources=tuple(row["from"]),
    )


def is_management(name: str) -> bool:
    """Return whether a switch's port is one for people, which no plan has."""
    return bool(_MANAGEMENT.fullmatch(name))


def is_port_of_switch(names: Iterable[str]) -> bool:
    """Return whether all names are names of ports in one dialect, as no host names its interfaces."""
    listed = list(names)
    return bool(listed) and any(all(row.pattern.fullmatch(name) for name in listed) for row in dialects())


def rows_for(names: Sequence[str], system: str = "") -> list[Dialect]:
    """Return the rows whose pattern fits all names; of the system alone, if a row recognises LLDP's description of it."""
    known = [row for row in dialects() if system and row.recognised.search(system)]
    return [row for row in known or dialects() if all(row.pattern.fullmatch(name) for name in names)]


def readings(
    names: Iterable[str], ports: int, lanes: int = 1, *, system: str = "", step: int = 1, stated: str = ""
) -> list[Reading]:
    """Return all readings by which every name has its own number from 1 to `ports`, each set of numbers once.

    `lanes` is the number of ports to a cage, `system` LLDP's description of the switch, `step` the stated step of SONiC's numbers or 1,
    `stated` the name of the dialect that the site states; it applies to switches whose names fit it.

    >>> [one.numbers["Ethernet8"] for one in readings(["Ethernet0", "Ethernet8", "Ethernet248"], 32)]
    [2]
    """
    listed = list(dict.fromkeys(names))
    rows = rows_for(listed, system)
    only = [row for row in rows if row.name == stated]
    found = _readings(only, listed, ports, lanes, step)
    return found or _readings(rows, listed, ports, lanes, step)


def _readings(rows: Iterable[Dialect], listed: Sequence[str], ports: int, lanes: int, step: int) -> list[Reading]:
    found: list[Reading] = []
    for row in rows:
        for numbers, detail in _numbered(row, listed, ports, lanes, step):
            used = set(numbers.values())
            is_valid = len(used) == len(numbers) and all(1 <= number <= ports for number in used)
            if is_valid and all(numbers != one.numbers for one in found):
                found.append(Reading(row, numbers, detail))
    return found


def _numbered(
    row: Dialect, names: Sequence[str], ports: int, lanes: int, step: int
) -> Iterator[tuple[dict[str, int], str]]:
    parts = [match.groupdict() for name in names if (match := row.pattern.fullmatch(name))]
    if row.steps:
        for one in (step,) if step > 1 else row.steps:
            values = [int(part["port"]) for part in parts]
            if all(value % one == 0 for value in values):
                yield {name: value // one + 1 for name, value in zip(names, values, strict=True)}, f"step {one}"
        return
    # A stated step says that Ethernet4 is SONiC's, not the fourth port of another system.
    if step > 1 and all(re.fullmatch(r"Ethernet\d+", name) for name in names):
        return
    slots = {part.get("slot") for part in parts}
    if len({part.get("pic") for part in parts}) > 1 or (None in slots and len(slots) > 1):
        return
    for cards in range(1, _CARDS + 1) if slots != {None} else (1,):
        if ports % cards == 0:
            for numbers, detail in _in_cages(row, parts, ports // cards, lanes):
                number = dict(zip(names, numbers, strict=True))
                yield number, ", ".join(filter(None, (f"{cards} line cards" if cards > 1 else "", detail)))


def _in_cages(
    row: Dialect, parts: Sequence[dict[str, str | None]], size: int, lanes: int
) -> Iterator[tuple[list[int], str]]:
    """Yield the numbers of ports in cages, on line cards of `size` ports; 0 for a name beyond them."""
    cages = [int(part["cage"] or 0) - row.first_cage for part in parts]
    inside = [_lane(part.get("lane"), row.first_lane) for part in parts]
    cards = [int(slot) - row.first_slot if (slot := part.get("slot")) else 0 for part in parts]

    def numbers(places: Iterable[int]) -> list[int]:
        on_card = ((card, place) for card, place in zip(cards, places, strict=True))
        return [card * size + place + 1 if card >= 0 and 0 <= place < size else 0 for card, place in on_card]

    for step in row.lane_steps:
        steps = [0 if lane is None else lane for lane in inside]
        if all(0 <= lane < lanes * step and lane % step == 0 for lane in steps):
            places = [cage * lanes + lane // step for cage, lane in zip(cages, steps, strict=True)]
            yield numbers(places), f"lanes in steps of {step}" if any(steps) and step > 1 else ""
    if lanes > 1 and not any(lane is not None for lane in inside):
        yield numbers(cages), "a number for each port, not for each cage"


def _lane(text: str | None, first: int) -> int | None:
    if text is None:
        return None
    return int(text) - first if text.isdigit() else ord(text) - ord("a")
