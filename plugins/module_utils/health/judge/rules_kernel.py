# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the events of the kernel's log: which findings a node has because of its Xids, SXids and other lines.

Events are those of this boot, and of the last day from boots before it. A caller may add details to an event:
`job`: the job that ran on the GPU. `boot` and `time` (seconds since 1970): for an event of another boot, which only counts for repeats.

A finding does not end with time: an event of `reset` (a runbook repaired the GPU) or another boot ends it. Notes end after a day.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...common.finding import WARNING
from ..facts.health_finding import CLASSES, NOTE, RMA, HealthFinding, finding
from ..facts.node_facts import KernelEvent, NodeFacts, NodeProfile
from ..tables.xid_rows import LineRow
from ..tables.xid_tables import line_rows, sxid_row, xids
from .rules_repeats import repeated
from .rules_xid import SXID, XID, Decision, decide_sxid, decide_xid

SOURCES = ("kernel-log",)
GAP, RESET = "gap", "reset"
START = "start"
"""Reason of a gap before the first record that an agent read: older records were overwritten."""
GAP_CHECK = "kernel-log-gap"
UNREAD_CHECKS = {XID: "xid-unread", SXID: "sxid-unread"}
NOTE_SECONDS = 86400
GAP_SECONDS = 3600
"""Seconds in which a gap leaves the state of a node unknown. After that, probes have read the lasting state of its devices many times."""
_UNREAD = "Read the line in the kernel's log and the state of the device."


@dataclass(frozen=True)
class _Judged:
    """Hold one judged event: the finding's parts before events of one check and device become one finding."""

    check: str
    device: str
    health_class: str
    text: str
    action: str
    unread: bool = False
    warning: bool = False
    job: str = ""


def named_checks() -> frozenset[str]:
    """Return the ids of the checks that have no number of a Xid or SXid: lines, repeats, gaps and lines that were not read."""
    table = xids()
    repeats = (*(row.repeat for row in table.rows.values()), *(row.repeat for row in table.registers))
    checks = (*(one.check for one in repeats if one), table.jobs.check, *(row.check for row in line_rows()))
    return frozenset((*checks, GAP_CHECK, *UNREAD_CHECKS.values()))


def judge_events(events: Sequence[KernelEvent], now: NodeFacts, profile: NodeProfile) -> list[HealthFinding]:
    """Return the findings, the worst first: one for each check and device. A check that the profile ignores is a note."""
    distinct = _distinct(events)
    live = [event for event in distinct if _is_live(event, now)]
    resets = {event.device: event.sequence for event in live if event.kind == RESET}
    judged = [one for event in live for one in _judged(event, live, now, profile) if _counts(one, event, resets, now)]
    uncleared = [event for event in distinct if not _is_cleared(event, resets, now)]
    found = [*_merged(judged), *repeated(uncleared, lambda event: age(event, now), SOURCES)]
    found = [_ignored(one) if one.kind in profile.ignore else one for one in found]
    return sorted(found, key=lambda one: (CLASSES.index(one.health_class), one.kind, one.device))


def age(event: KernelEvent, now: NodeFacts) -> float:
    """Return the age of an event in seconds; infinite for an event of another boot without a time."""
    try:
        if "time" in event.details:
            return max(0.0, now.time - float(event.details["time"]))
    except ValueError:
        return math.inf
    return max(0.0, now.uptime - event.uptime) if _is_live(event, now) else math.inf


def _distinct(events: Iterable[KernelEvent]) -> list[KernelEvent]:
    """Return events once each and in their order: a caller that was interrupted reads a record again."""
    found = {(one.details.get("boot", ""), one.sequence, one.kind, one.code, one.device): one for one in events}
    return sorted(found.values(), key=lambda one: (one.details.get("boot", ""), one.sequence))


def _is_live(event: KernelEvent, now: NodeFacts) -> bool:
    return event.details.get("boot", now.boot) == now.boot


def _is_cleared(event: KernelEvent, resets: Mapping[str, int], now: NodeFacts) -> bool:
    """Return whether the GPU of an event was reset after it; `resets` has the last reset in this boot by device."""
    reset = resets.get(event.device)
    return reset is not None and (reset > event.sequence or not _is_live(event, now))


def _counts(one: _Judged, event: KernelEvent, resets: Mapping[str, int], now: NodeFacts) -> bool:
    if one.health_class == NOTE and age(event, now) > NOTE_SECONDS:
        return False
    return one.health_class == RMA or not _is_cleared(event, resets, now)


def _judged(event: KernelEvent, live: Sequence[KernelEvent], now: NodeFacts, profile: NodeProfile) -> Iterator[_Judged]:
    if event.kind in (XID, SXID):
        yield _code(event, live, now, profile)
    elif event.kind == GAP:
        yield _gap(event, now)
    elif event.kind != RESET:
        yield from (_line(event, row) for row in line_rows() if row.check == event.details.get("line"))


def _code(event: KernelEvent, live: Sequence[KernelEvent], now: NodeFacts, profile: NodeProfile) -> _Judged:
    job = event.details.get("job", "")
    if event.code is None:
        return _Judged(UNREAD_CHECKS[event.kind], event.device, NOTE, event.text, _UNREAD, unread=True, job=job)
    if event.kind == XID:
        row = xids().row(event.code)
        decision, name, known, is_link = decide_xid(event, row, live, age(event, now)), row.name, row.known, row.is_link
    else:
        switch = sxid_row(event.code)
        decision, name, known, is_link = _sxid(event, live), switch.name, switch.known, True
    if is_link and event.uptime < profile.quiet_after_boot:
        decision = Decision(
            NOTE, f"Links are judged {profile.quiet_after_boot} s after boot; the probe of the links decides."
        )
    text = f"{name or 'not in our table'}: {event.text}"
    check = f"{event.kind}-{event.code}"
    return _Judged(check, event.device, decision.health_class, text, decision.action, decision.unread, not known, job)


def _sxid(event: KernelEvent, live: Sequence[KernelEvent]) -> Decision:
    """Return the decision for a SXid. A line with Data or Severity repeats the decision of the event before it."""
    head = event
    if "part" in event.details:
        for other in live:
            is_head = (
                other.kind == SXID
                and other.code == event.code
                and other.device == event.device
                and "part" not in other.details
            )
            if is_head and other.sequence < event.sequence:
                head = other
    return decide_sxid(head, sxid_row(event.code or 0))


def _gap(event: KernelEvent, now: NodeFacts) -> _Judged:
    unread = event.details.get("reason") != START and age(event, now) < GAP_SECONDS
    action = (
        "Read the journal of the kernel for the time of the gap." if unread else "Errors before the gap may be missing."
    )
    return _Judged(GAP_CHECK, "", NOTE, event.text, action, unread, warning=unread)


def _line(event: KernelEvent, row: LineRow) -> _Judged:
    return _Judged(row.check, event.device, row.health_class, event.text, row.action, job=event.details.get("job", ""))


def _merged(judged: Iterable[_Judged]) -> list[HealthFinding]:
    """Return one finding for each check and device: the worst event, and their number."""
    groups: dict[tuple[str, str], list[_Judged]] = {}
    for one in judged:
        groups.setdefault((one.check, one.device), []).append(one)
    found = []
    for (check, device), group in groups.items():
        # The last one of the worst class; an unread one before others of its class.
        worst = max(group, key=lambda one: (-CLASSES.index(one.health_class), one.unread))
        jobs = sorted({one.job for one in group if one.job})
        times = f"{len(group)} lines; " if len(group) > 1 else ""
        text = times + worst.text + (f"; jobs {', '.join(jobs[:8])}" if jobs else "")
        result = finding(
            check,
            worst.health_class,
            text,
            device=device,
            remedy=worst.action,
            sources=SOURCES,
            unread=any(one.unread for one in group),
        )
        found.append(replace(result, severity=WARNING) if worst.warning and worst.health_class == NOTE else result)
    return found


def _ignored(one: HealthFinding) -> HealthFinding:
    """Return a finding that the profile ignores, as a note."""
    text = f"{one.found}; ignored by `health.ignore`"
    return finding(one.kind, NOTE, text, device=one.device, remedy=one.remedy, sources=one.sources)
