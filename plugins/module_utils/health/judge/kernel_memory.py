# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the events that a later judgement needs, so that a flood of lines fits into bounded memory.

An event of a class above `note` is kept until its GPU is reset or the node boots; an event that is a note is kept for a day. Notes in quick
succession become one event: 13,104 lines of Xid 45 were seen after one job, and 31,300 lines a day of one program with an old library.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..facts.health_finding import NOTE
from ..facts.node_facts import KernelEvent, NodeFacts
from ..tables.xid_rows import TABLE, UNCOUNTED
from ..tables.xid_tables import line_rows, xids
from .rules_kernel import GAP, NOTE_SECONDS, RESET, age
from .rules_xid import SXID, XID

MOST = 2000
"""Events that are kept."""
MOST_ALIKE = 40
"""Events of one kind, code and device that are kept: the oldest half and the newest half."""
_VARYING = ("pid", "name", "times", "time", "first", "count")


def remembered(events: Iterable[KernelEvent], now: NodeFacts, most: int = MOST) -> list[KernelEvent]:
    """Return the events that a later judgement needs, in their order; at most `most`, without the oldest notes first."""
    kept = [event for event in events if not _is_note(event) or age(event, now) <= NOTE_SECONDS]
    thinned = _thinned(_joined(kept, now))
    surplus = len(thinned) - most
    if surplus > 0:
        notes = [number for number, event in enumerate(thinned) if _is_note(event)]
        decisive = [number for number, event in enumerate(thinned) if not _is_note(event)]
        dropped = set([*notes, *decisive][:surplus])
        thinned = [event for number, event in enumerate(thinned) if number not in dropped]
    return thinned


def _is_note(event: KernelEvent) -> bool:
    """Return whether an event is a note by its row alone; an event that its words decide is not."""
    if event.kind == XID and event.code is not None:
        row = xids().row(event.code)
        return row.health_class == NOTE and row.rule in (TABLE, UNCOUNTED)
    if event.kind in (XID, SXID, RESET):
        return False
    return event.kind == GAP or all(
        row.health_class == NOTE for row in line_rows() if row.check == event.details.get("line")
    )


def _joined(events: Iterable[KernelEvent], now: NodeFacts) -> list[KernelEvent]:
    """Return events with notes in quick succession joined: the last of them, with the detail `times`."""
    found: list[KernelEvent | None] = []
    places: dict[tuple[object, ...], int] = {}
    for event in events:
        same = tuple(sorted((key, value) for key, value in event.details.items() if key not in _VARYING))
        key = (event.kind, event.code, event.device, same)
        place = places.get(key)
        before = found[place] if place is not None else None
        times = _times(event)
        if (
            place is not None
            and before is not None
            and _is_note(event)
            and age(before, now) - age(event, now) <= xids().apart_seconds
        ):
            found[place] = None
            times += _times(before)
            event = replace(event, details={**event.details, "times": str(times)})
        places[key] = len(found)
        found.append(event)
    return [event for event in found if event is not None]


def _times(event: KernelEvent) -> int:
    """Return the number of lines that an event replaces."""
    text = event.details.get("times", "")
    return int(text) if text.isdecimal() else 1


def _thinned(events: list[KernelEvent]) -> list[KernelEvent]:
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, event in enumerate(events):
        alike.setdefault((event.kind, event.code, event.device, event.details.get("line")), []).append(number)
    half = MOST_ALIKE // 2
    dropped = {number for numbers in alike.values() if len(numbers) > MOST_ALIKE for number in numbers[half:-half]}
    return [event for number, event in enumerate(events) if number not in dropped]
