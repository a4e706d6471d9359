# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep critical findings whose reading is good again, until a reset, a reboot or a smaller counter, and then a clean cycle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..facts.health_finding import HealthFinding, finding
from ..facts.node_facts import KernelEvent, NodeFacts, NodeProfile, Reading
from ..tables.threshold_row import COUNTER, REBOOT, RESET, ThresholdRow
from .crossing import CRITICAL, GOOD, Crossing
from .expectations import applies
from .node_history import Latch, NodeHistory, is_sample
from .sources import device_key

_EVENTS = {RESET: "a GPU reset or a reboot", REBOOT: "a reboot", COUNTER: "its counter is smaller"}
RESET_EVENT = "reset"
"""Kind of a KernelEvent with which a runbook reports that it reset a GPU."""


@dataclass(frozen=True)
class Outcome:
    """Hold the comparison of one reading with one row, before it becomes a finding. `is_quiet`: too early after boot, so not judged."""

    row: ThresholdRow
    reading: Reading
    crossing: Crossing
    is_quiet: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Return check and device."""
        return self.row.name, device_key(self.reading.device)


def last_resets(facts: NodeFacts, history: NodeHistory, rows: Iterable[ThresholdRow]) -> dict[str, float]:
    """Return GPU -> uptime of its last reset in this boot: a runbook reported it, or a counter fell that only a reset clears."""
    falling = {row.reads for row in rows if row.falls_at_reset}
    found: dict[str, float] = {}
    for reading in facts.readings:
        if reading.quantity in falling and is_sample(reading.value):
            fall = history.series(reading, facts).last_fall()
            if fall is not None:
                _raise(found, reading.device, fall)
    for event in facts.events:
        if _is_reset(event, facts):
            _raise(found, event.device, event.uptime)
    return found


def carried(
    outcomes: Iterable[Outcome],
    rows: Mapping[str, ThresholdRow],
    facts: NodeFacts,
    history: NodeHistory,
    profile: NodeProfile,
    resets: Mapping[str, float],
) -> tuple[list[HealthFinding], list[Latch]]:
    """Return the findings that stay although their reading is not critical now, and all latches after this cycle."""
    by_key: dict[tuple[str, str], list[Outcome]] = {}
    for one in outcomes:
        by_key.setdefault(one.key, []).append(one)
    latches = {key: latch for key, group in by_key.items() for latch in _fresh(group, facts)}
    findings = []
    for latch in history.latches:
        key = (latch.check, device_key(latch.device))
        row = rows.get(latch.check)
        if key in latches or row is None or not row.is_sticky or not applies(row, profile):
            continue
        group = by_key.get(key, [])
        released = latch.released or _is_released(latch, row, group, facts, resets)
        if released and _is_clean(group):
            continue
        latches[key] = replace(latch, released=released)
        findings.append(_finding(latch, row))
    return findings, list(latches.values())


def _fresh(group: Iterable[Outcome], facts: NodeFacts) -> list[Latch]:
    """Return the latch of a reading that is critical now."""
    for one in group:
        if one.row.is_sticky and not one.is_quiet and one.crossing.side == CRITICAL:
            value = one.reading.value
            number = float(value) if isinstance(value, (int, float)) else None
            source = (one.reading.source,)
            return [
                Latch(
                    one.row.name,
                    one.reading.device,
                    one.row.class_critical,
                    one.crossing.found,
                    source,
                    facts.boot,
                    facts.uptime,
                    number,
                )
            ]
    return []


def _is_released(
    latch: Latch, row: ThresholdRow, group: Iterable[Outcome], facts: NodeFacts, resets: Mapping[str, float]
) -> bool:
    if row.clears_by == COUNTER:
        values = [one.reading.value for one in group]
        return any(isinstance(one, (int, float)) and latch.value is not None and one < latch.value for one in values)
    if facts.boot != latch.boot:
        return True
    return row.clears_by == RESET and resets.get(device_key(latch.device), -1.0) > latch.uptime


def _is_clean(group: list[Outcome]) -> bool:
    """Return whether a reading was judged in this cycle and all its sources agree that it is good."""
    return bool(group) and all(one.crossing.side == GOOD and not one.is_quiet for one in group)


def _finding(latch: Latch, row: ThresholdRow) -> HealthFinding:
    return finding(
        latch.check,
        latch.health_class,
        f"{latch.found}; it stays until {_EVENTS[row.clears_by]}",
        device=latch.device,
        remedy=row.remedy,
        sources=latch.sources,
    )


def _is_reset(event: KernelEvent, facts: NodeFacts) -> bool:
    return event.kind == RESET_EVENT and bool(event.device) and event.details.get("boot", facts.boot) == facts.boot


def _raise(found: dict[str, float], device: str, uptime: float) -> None:
    key = device_key(device)
    found[key] = max(uptime, found.get(key, uptime))
