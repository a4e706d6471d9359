# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node: combine its readings and the events of its kernel's log into findings, a status, a class and a line of text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ...common.finding import NOTICE, WARNING
from ..facts.health_finding import CANNOT_RUN, DEGRADED, NOTE, RESET, RMA, TRANSIENT, HealthFinding, worst
from ..facts.node_facts import KernelEvent, NodeFacts, NodeProfile
from ..tables.threshold_row import NVLINK, ThresholdRow
from ..tables.thresholds import rows_for
from .node_history import Latch, NodeHistory
from .rules_kernel import judge_events
from .rules_readings import judged_readings, merged, ordered
from .sources import device_key, independent

OK, WARN, FAIL, UNKNOWN = "ok", "warn", "fail", "unknown"
JudgeEvents = Callable[[Sequence[KernelEvent], NodeFacts, NodeProfile], "list[HealthFinding]"]
ONE_SOURCE = "Only one source reports it, so jobs are not refused; a reset or a reboot repairs it."
ADVICE = "advice-"
"""Start of the ids of checks that DCGM, gpud or NVIDIA's validation report."""
_MOST_CHECKS, _LONGEST = 8, 300
_SUBJECTS = (("xid-", "gpus"), ("sxid-", "gpus"))
"""Subjects of checks of the kernel's log, by the start of their id."""


@dataclass(frozen=True)
class Judgement:
    """Hold a node's judgement.

    `status`: ok, warn, fail or unknown. `health_class`: the worst class, "" without a finding. `text`: checks with their devices and
    the worst finding, in one line. `checks`: the same checks for the report. `latches`: for `NodeHistory.record`.
    """

    findings: tuple[HealthFinding, ...]
    status: str
    health_class: str
    text: str
    latches: tuple[Latch, ...] = ()

    @property
    def checks(self) -> tuple[str, ...]:
        """Return the checks above a note with their devices, the worst first."""
        return tuple(_place(one) for one in self.findings if one.health_class != NOTE)


def judge(
    facts: NodeFacts,
    history: NodeHistory,
    events: Sequence[KernelEvent],
    profile: NodeProfile,
    judge_kernel: JudgeEvents = judge_events,
) -> Judgement:
    """Return the judgement of one cycle; afterwards call `history.record(facts, judgement.latches)`.

    `events`: those of this boot and of the last day. ThresholdError: the site's thresholds are not valid.
    """
    readings = judged_readings(replace(facts, events=(*facts.events, *events)), history, profile)
    found = merged([*judge_kernel(events, facts, profile), *readings.findings])
    found = [_ignored(one) if one.kind in profile.ignore else one for one in found]
    found = _without_lone_advice(_confirmed(found, rows_for(profile)))
    findings = tuple(ordered(found))
    health_class = worst(one.health_class for one in findings)
    return Judgement(findings, status_of(findings), health_class, text_of(findings), readings.latches)


def status_of(findings: Iterable[HealthFinding]) -> str:
    """Return the status of a node with these findings: fail, warn, unknown or ok, the first that is true."""
    listed = list(findings)
    if any(one.health_class in (CANNOT_RUN, RMA, RESET, DEGRADED) for one in listed):
        return FAIL
    if any(one.health_class == TRANSIENT or one.severity == WARNING for one in listed):
        return WARN
    return UNKNOWN if any(one.unread for one in listed) else OK


def text_of(findings: Sequence[HealthFinding]) -> str:
    """Return one line for people: up to eight checks with their devices, then the first of them in words. "" without a finding."""
    loud = [one for one in findings if one.health_class != NOTE or one.severity == WARNING]
    unread = [one for one in findings if one.unread and one not in loud]
    shown = [*map(_place, loud), *(f"unread:{_place(one)}" for one in unread)]
    if not shown:
        return ""
    more = f" and {len(shown) - _MOST_CHECKS} more" if len(shown) > _MOST_CHECKS else ""
    text = f"{' '.join(shown[:_MOST_CHECKS])}{more}: {[*loud, *unread][0].difference}"
    return " ".join(text.split())[:_LONGEST].rstrip()


def _place(one: HealthFinding) -> str:
    return f"{one.kind}@{one.device}" if one.device else one.kind


def _ignored(one: HealthFinding) -> HealthFinding:
    """Return a finding that the site ignores, as a note. It stays unread: a site that cannot read a quantity sets `applies: never`."""
    return replace(one, health_class=NOTE, severity=NOTICE, remedy="`health.ignore` names this check.")


def _confirmed(findings: Sequence[HealthFinding], rows: Mapping[str, ThresholdRow]) -> list[HealthFinding]:
    """Return findings; a `cannot-run` that only one group of sources reports is `reset`, because it fails the start of jobs."""
    stopped = [one for one in findings if one.health_class == CANNOT_RUN]
    return [
        replace(one, health_class=RESET, remedy=f"{one.remedy}. {ONE_SOURCE}".lstrip(". "))
        if one.health_class == CANNOT_RUN and not _has_second_source(one, stopped, rows)
        else one
        for one in findings
    ]


def _has_second_source(one: HealthFinding, stopped: Iterable[HealthFinding], rows: Mapping[str, ThresholdRow]) -> bool:
    groups = [independent(other.sources) for other in stopped if _is_related(one, other, rows)]
    return len(frozenset().union(*groups)) > 1


def _is_related(one: HealthFinding, other: HealthFinding, rows: Mapping[str, ThresholdRow]) -> bool:
    """Return whether two findings can confirm each other: the same device, or the same subject where one is about the whole node."""
    if one is other:
        return True
    devices = {device_key(one.device), device_key(other.device)}
    if len(devices) > 1 and "" not in devices:
        return False
    subject = _subject(one, rows)
    return (len(devices) == 1 and "" not in devices) or (subject != "" and subject == _subject(other, rows))


def _subject(one: HealthFinding, rows: Mapping[str, ThresholdRow]) -> str:
    row = rows.get(one.kind)
    if row is None:
        return next((subject for start, subject in _SUBJECTS if one.kind.startswith(start)), "")
    return "gpus" if row.applies == NVLINK else row.applies


def _without_lone_advice(findings: Sequence[HealthFinding]) -> list[HealthFinding]:
    """Return findings; advice is a note unless another source has a finding about the same device or the node."""
    own = {device_key(one.device) for one in findings if not _is_advice(one) and one.health_class != NOTE}
    return [
        replace(one, health_class=NOTE, severity=WARNING)
        if _is_advice(one) and one.health_class != NOTE and not _is_supported(one, own)
        else one
        for one in findings
    ]


def _is_advice(one: HealthFinding) -> bool:
    return one.kind.startswith(ADVICE)


def _is_supported(one: HealthFinding, own: set[str]) -> bool:
    return device_key(one.device) in own or "" in own or (not one.device and bool(own))
