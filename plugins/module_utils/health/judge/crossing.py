# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare one series of readings with the limits of its row."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.versions import matches
from ..facts.node_facts import NodeProfile
from ..tables.threshold_row import ANY, AT_LEAST, DELTA, EQUALS, LEVEL, PROFILE, RATE, STATES, Limit, ThresholdRow
from .reading_series import Sample, Series

GOOD, PENDING, WARN, CRITICAL = SIDES = ("good", "pending", "warn", "critical")
_WORDS = {
    LEVEL: "below {}",
    AT_LEAST: "at least {}",
    EQUALS: "{}",
    DELTA: "below {} within {}",
    RATE: "below {} within {}",
}


@dataclass(frozen=True)
class Crossing:
    """Hold the result of a comparison: the side of the limits, the measured value, and texts for people.

    PENDING: beyond a limit, but in fewer samples in a row than the row's debounce. `limit` is the limit that was crossed.
    """

    side: str
    measured: Sample
    found: str
    expected: str = ""


def problem_of(row: ThresholdRow, value: object) -> str:
    """Return why a value cannot be compared with the limits of a row; "" if it can."""
    if row.kind == EQUALS:
        return ""
    if isinstance(value, str):
        return f"{value[:40]!r} is not a number"
    if row.kind in (DELTA, RATE) and isinstance(value, (int, float)) and value < 0:
        return f"{value!r} is not a counter"
    return ""


def crossing(row: ThresholdRow, series: Series, device: str, profile: NodeProfile, reset: float) -> Crossing:
    """Return on which side of its limits a series is. `reset`: uptime of the device's last reset, 0 for the boot."""
    warn, critical = (resolved(limit, device, profile) for limit in (row.warn, row.critical))
    value = _measured(row, series, profile, reset)
    for side, limit in ((CRITICAL, critical), (WARN, warn)):
        if limit is not None and _is_held(row, series, value, limit):
            return Crossing(side, value, _found(row, value), _expected(row, limit))
    for limit in (critical, warn):
        if limit is not None and is_beyond(row.kind, value, limit):
            return Crossing(PENDING, value, _found(row, value), _expected(row, limit))
    return Crossing(GOOD, value, _found(row, value))


def resolved(limit: Limit, device: str, profile: NodeProfile) -> Limit:
    """Return a limit; for `profile.X` the number or text of the profile, None if the profile does not set it."""
    if not isinstance(limit, str) or not limit.startswith(PROFILE):
        return limit
    name = limit[len(PROFILE) :]
    if name == "huge_pages":
        return profile.huge_pages.get(device)
    if name == "rails":
        return len(profile.rails)
    return profile.gpus if name == "gpus" else profile.driver or None


def is_beyond(kind: str, value: Sample, limit: int | float | str) -> bool:
    """Return whether a value is bad.

    >>> is_beyond("level", 3, 3), is_beyond("at_least", 7, 8), is_beyond("equals", "ACTIVE", "active"), is_beyond("equals", "x", "ok|warn")
    (True, True, False, True)
    """
    if kind == EQUALS:
        return not _equals(value, limit)
    if isinstance(value, str) or isinstance(limit, str):
        return True
    return value < limit if kind == AT_LEAST else value >= limit


def _is_held(row: ThresholdRow, series: Series, value: Sample, limit: int | float | str) -> bool:
    """Return whether a value is beyond a limit in as many samples in a row as the row's debounce."""
    if not is_beyond(row.kind, value, limit):
        return False
    return row.debounce == 1 or series.streak(lambda one: is_beyond(row.kind, one, limit)) >= row.debounce


def _equals(value: Sample, limit: int | float | str) -> bool:
    if not isinstance(limit, str):
        return not isinstance(value, str) and value == limit
    text = str(value).casefold()
    return any(text not in ("", "0") if one == ANY else matches(text, one.casefold()) for one in limit.split("|"))


def _measured(row: ThresholdRow, series: Series, profile: NodeProfile, reset: float) -> Sample:
    # What a link counts while the node boots is not judged later either.
    since = float(profile.quiet_after_boot) if row.quiet else 0.0
    if row.kind == DELTA and row.since_reset:
        return series.increase_after(reset, row.window)
    if row.kind == DELTA:
        return series.increase(row.window, across_boots=row.persistent, since=since)[0]
    if row.kind == RATE and row.counts == STATES:
        return series.active(row.window) * row.per_second / row.window
    if row.kind == RATE:
        total, span = series.increase(row.window, across_boots=row.persistent, since=since)
        return total * row.per_second / span
    return series.runs[-1].value


def _found(row: ThresholdRow, value: Sample) -> str:
    if isinstance(value, str):
        return value or "an empty value"
    number = f"{value:,.6g}" if isinstance(value, float) else str(value)
    text = f"{number} {row.unit}".rstrip()
    return f"{text} more" if row.kind == DELTA else text


def _expected(row: ThresholdRow, limit: int | float | str) -> str:
    text = f"{limit} {row.unit}".rstrip() if not isinstance(limit, str) else limit.replace("|", " or ")
    return _WORDS[row.kind].format(text, f"{row.window:g} s")
