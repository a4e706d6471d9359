# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge Xids that repeat on one GPU: a fault of a program becomes a suspicion against the GPU.

A driver writes many lines for one failure, and a job that is started again fails again. So lines less than `apart_seconds` after the line
before are one event, and events of one job are one event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..facts.health_finding import HealthFinding, finding
from ..facts.node_facts import KernelEvent
from ..tables.xid_rows import REGISTERS, Repeat
from ..tables.xid_tables import xids
from .rules_xid import XID, register_rows

Age = Callable[[KernelEvent], float]
_HOUR = 3600


def repeated(events: Sequence[KernelEvent], age: Age, sources: tuple[str, ...]) -> list[HealthFinding]:
    """Return the findings of repeats; `age` returns the age of an event in seconds, infinite if it is unknown."""
    known = [event for event in events if event.kind == XID and event.code is not None and event.device]
    found = [*_of_rows(known, age, sources), *_of_jobs(known, age, sources)]
    return sorted(found, key=lambda one: (one.kind, one.device))


def _of_rows(events: Iterable[KernelEvent], age: Age, sources: tuple[str, ...]) -> list[HealthFinding]:
    groups: dict[tuple[Repeat, tuple[str, ...]], list[KernelEvent]] = {}
    for event in events:
        for repeat in _repeats(event):
            values = tuple(event.details.get(name, "") for name in repeat.same)
            if all(values) and age(event) <= repeat.hours * _HOUR:
                groups.setdefault((repeat, (event.device, *values)), []).append(event)
    worst_place: dict[tuple[Repeat, str], tuple[int, tuple[str, ...]]] = {}
    for (repeat, place), grouped in groups.items():
        times = _separate(grouped, age)
        if times >= repeat.count:
            key = (repeat, place[0])
            worst_place[key] = max(worst_place.get(key, (0, ())), (times, place[1:]))
    found = []
    for (repeat, device), (times, place) in worst_place.items():
        where = "".join(f", {name} {value}" for name, value in zip(repeat.same, place))
        text = f"{times} separate events in {repeat.hours:g} h{where}; allowed: {repeat.count - 1}"
        found.append(
            finding(repeat.check, repeat.health_class, text, device=device, remedy=repeat.action, sources=sources)
        )
    return found


def _of_jobs(events: Iterable[KernelEvent], age: Age, sources: tuple[str, ...]) -> list[HealthFinding]:
    rule = xids().jobs
    jobs: dict[str, set[str]] = {}
    for event in events:
        job = event.details.get("job", "")
        if job and age(event) <= rule.hours * _HOUR and xids().row(event.code or 0).bucket == rule.bucket:
            jobs.setdefault(event.device, set()).add(job)
    found = []
    for device, names in jobs.items():
        if len(names) >= rule.jobs:
            text = f"Xids of {len(names)} jobs in {rule.hours:g} h: {', '.join(sorted(names)[:8])}; allowed: {rule.jobs - 1}"
            found.append(
                finding(rule.check, rule.health_class, text, device=device, remedy=rule.action, sources=sources)
            )
    return found


def _repeats(event: KernelEvent) -> list[Repeat]:
    row = xids().row(event.code or 0)
    found = [row.repeat] if row.repeat else []
    if row.rule == REGISTERS:
        found += [one.repeat for one in register_rows(event) or () if one.repeat]
    return found


def _separate(events: Iterable[KernelEvent], age: Age) -> int:
    """Return the number of separate events: lines in quick succession, and lines of one job, are one event."""
    times = 0
    last: float | None = None
    jobs: set[str] = set()
    for event in sorted(events, key=age, reverse=True):
        job = event.details.get("job", "")
        if (last is None or last - age(event) > xids().apart_seconds) and not (job and job in jobs):
            times += 1
        last = age(event)
        jobs.add(job)
    return times
