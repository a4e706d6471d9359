# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the readings of a node by the rows of thresholds.json. Pure: the same facts, history and profile have the same findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ...common.finding import ERROR, NOTICE, WARNING
from ...common.versions import matches
from ..facts.health_finding import CLASSES, DEGRADED, NOTE, HealthFinding, finding, worst
from ..facts.node_facts import NodeFacts, NodeProfile, Reading
from ..tables.threshold_row import CHECK, ThresholdRow
from ..tables.thresholds import default, rows_for
from .crossing import CRITICAL, GOOD, PENDING, crossing, problem_of
from .expectations import NOT_SUPPORTED, is_expected, missing, unread
from .latches import Outcome, carried, last_resets
from .node_history import Latch, NodeHistory, is_sample
from .sources import device_key, is_own

DRIVER_VERSION = "driver-version"
KNOWN_DEFECT = "driver-known-defect"
_DAY = 86400
DAYS_BEFORE = 3
"""Days before the age at which a driver's defect shows, from which a node counts as at risk: time to plan its reboot."""
_ORDER = (ERROR, WARNING, NOTICE)


@dataclass(frozen=True)
class JudgedReadings:
    """Hold the findings of one cycle, one for each check and device, and the latches that the history must keep."""

    findings: tuple[HealthFinding, ...]
    latches: tuple[Latch, ...]


def judge_readings(facts: NodeFacts, history: NodeHistory, profile: NodeProfile) -> list[HealthFinding]:
    """Return the findings of the readings. ThresholdError: the site's thresholds are not valid."""
    return list(judged_readings(facts, history, profile).findings)


def judged_readings(facts: NodeFacts, history: NodeHistory, profile: NodeProfile) -> JudgedReadings:
    """Return the findings of the readings, and the latches for `history.record`. ThresholdError: the site's thresholds are not valid."""
    rows = rows_for(profile)
    resets = last_resets(facts, history, rows.values())
    outcomes: list[Outcome] = []
    findings = list(missing(rows.values(), facts.readings, profile))
    readers = _readers(rows)
    for reading in facts.readings:
        found, judged = _one(reading, readers, facts, history, profile, resets)
        outcomes += judged
        findings += found
    stayed, latches = carried(outcomes, rows, facts, history, profile, resets)
    findings += [*stayed, *_known_defects(facts)]
    return JudgedReadings(tuple(merged(findings)), tuple(latches))


def merged(findings: Iterable[HealthFinding]) -> list[HealthFinding]:
    """Return one finding for each check and device, the worst first; the sources of the worst class are together."""
    groups: dict[tuple[str, str, bool], list[HealthFinding]] = {}
    for one in findings:
        groups.setdefault((one.kind, device_key(one.device), one.unread), []).append(one)
    return ordered(map(_merged, groups.values()))


def ordered(findings: Iterable[HealthFinding]) -> list[HealthFinding]:
    """Return findings, the worst class first, then by check and device."""
    return sorted(findings, key=lambda one: (CLASSES.index(one.health_class), one.kind, one.device))


def _merged(group: list[HealthFinding]) -> HealthFinding:
    if len(group) == 1:
        return group[0]
    health_class = worst(one.health_class for one in group)
    same = [one for one in group if one.health_class == health_class]
    first = min(same, key=lambda one: _ORDER.index(one.severity))
    return replace(first, sources=tuple(dict.fromkeys(source for one in same for source in one.sources)))


def _readers(rows: Mapping[str, ThresholdRow]) -> dict[str, list[ThresholdRow]]:
    readers: dict[str, list[ThresholdRow]] = {}
    for row in rows.values():
        readers.setdefault(row.reads, []).append(row)
    return readers


def _one(
    reading: Reading,
    readers: Mapping[str, list[ThresholdRow]],
    facts: NodeFacts,
    history: NodeHistory,
    profile: NodeProfile,
    resets: Mapping[str, float],
) -> tuple[list[HealthFinding], list[Outcome]]:
    """Return findings and comparisons of one reading. A quantity without a row is unread, because it cannot be judged."""
    rows = readers.get(reading.quantity) or readers.get(reading.quantity.partition("/")[0])
    if rows is None:
        why = reading.problem or "no row of thresholds.json judges it"
        return [unread(reading.quantity, reading.device, why, (reading.source,))], []
    rows = [row for row in rows if is_expected(row, reading.device, profile)]
    problem = next((text for text in (_problem(row, reading) for row in rows) if text), "")
    if problem:
        return [unread(_check(rows[0], reading, reading.quantity), reading.device, problem, (reading.source,))], []
    if reading.value is None or not rows:
        return [], []
    series, reset = history.series(reading, facts), resets.get(device_key(reading.device), 0.0)
    is_early = facts.uptime < profile.quiet_after_boot
    outcomes = [
        Outcome(row, reading, crossing(row, series, reading.device, profile, reset), row.quiet and is_early)
        for row in rows
    ]
    return [_finding(one, profile) for one in outcomes if one.crossing.side != GOOD], outcomes


def _problem(row: ThresholdRow, reading: Reading) -> str:
    """Return why a reading is unread, "" if it can be judged, or if the row allows that the device does not have the quantity."""
    if reading.value is None:
        is_allowed = row.optional and reading.problem.startswith(NOT_SUPPORTED)
        return "" if is_allowed else reading.problem or "no reason is known"
    return problem_of(row, reading.value) if is_sample(reading.value) else f"{reading.value!r} is not a value"


def _check(row: ThresholdRow, reading: Reading, name: str) -> str:
    """Return the id of a check. Each foreign check and each advisor has its own, such as `foreign-scratch`."""
    if row.per != CHECK:
        return name
    return f"{row.name}-{reading.quantity.partition('/')[2] or reading.source}"


def _finding(outcome: Outcome, profile: NodeProfile) -> HealthFinding:
    row, reading, crossed = outcome.row, outcome.reading, outcome.crossing
    found = crossed.found + (f": {reading.problem}" if reading.problem else "")
    health_class, severity = NOTE, NOTICE
    if outcome.is_quiet:
        found += f"; not judged before {profile.quiet_after_boot} s of uptime"
    elif crossed.side == PENDING:
        found += f"; judged after {row.debounce} samples in a row"
    else:
        health_class = row.class_critical if crossed.side == CRITICAL else row.class_warn
        severity = WARNING
    if not is_own(reading.source) and CLASSES.index(health_class) < CLASSES.index(DEGRADED):
        health_class = DEGRADED
    result = finding(
        _check(row, reading, row.name),
        health_class,
        found,
        device=reading.device,
        expected=crossed.expected,
        remedy=row.remedy,
        sources=(reading.source,),
    )
    return replace(result, severity=severity) if health_class == NOTE else result


def _known_defects(facts: NodeFacts) -> Iterator[HealthFinding]:
    """Yield a finding for a driver with a known defect: a note, and the class of its row shortly before the defect shows."""
    for reading in facts.readings:
        if reading.quantity != DRIVER_VERSION or not isinstance(reading.value, str):
            continue
        for row in default().known_bad_drivers:
            if matches(reading.value, row.version):
                is_near = facts.uptime >= (row.after_days - DAYS_BEFORE) * _DAY
                found = f"driver {reading.value}: {row.found}; uptime {facts.uptime / _DAY:.0f} days"
                result = finding(
                    KNOWN_DEFECT,
                    row.health_class if is_near else NOTE,
                    found,
                    remedy=row.remedy,
                    sources=(reading.source,),
                )
                yield replace(result, severity=WARNING) if result.health_class == NOTE else result
