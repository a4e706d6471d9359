# SPDX-License-Identifier: GPL-3.0-or-later
"""Write metrics of a node's health for the textfile collector of node exporter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ...common.files import atomic_write
from ..facts.health_finding import CLASSES, HealthFinding
from ..report.prometheus_text import COUNTER, GAUGE, Labels, Metric, text_of
from ..report.verdict_line import STATUSES

MOST_FINDINGS = 200
"""Findings with a series. With all Xids and parts, a node has at most 600 series."""


@dataclass(frozen=True)
class AgentState:
    """Hold the agent's own state.

    `probe_ages`: kind -> seconds since its last answer. `problems`: part -> text. `passed`: cause -> jobs.
    """

    time: float
    interval: float
    probe_ages: Mapping[str, float]
    problems: Mapping[str, str]
    is_reported: bool
    is_foreign: bool
    passed: Mapping[str, int] = field(default_factory=dict)


def metrics(
    status: str,
    health_class: str,
    findings: Iterable[HealthFinding],
    xids: Mapping[tuple[str, str], int],
    agent: AgentState,
) -> list[Metric]:
    """Return all metrics. A problem of the agent has the name of its part as label; its text is in verdict.json."""
    places = dict.fromkeys((one.kind, one.health_class, one.device) for one in findings)
    shown = list(places)[:MOST_FINDINGS]
    return [
        Metric("bedplate_health_status", GAUGE, "1 for the status of the node.", _one_of("status", STATUSES, status)),
        Metric(
            "bedplate_health_class",
            GAUGE,
            "1 for the worst class of a finding.",
            _one_of("class", CLASSES, health_class),
        ),
        Metric(
            "bedplate_health_findings",
            GAUGE,
            "1 for each finding.",
            [({"check": check, "class": of, "device": device}, 1) for check, of, device in shown],
        ),
        Metric(
            "bedplate_health_findings_hidden",
            GAUGE,
            "Findings without a series, because there are too many.",
            [({}, len(places) - len(shown))],
        ),
        Metric(
            "bedplate_health_xid_total",
            COUNTER,
            "Xids in the kernel's log since the agent has counted.",
            [({"xid": code, "gpu": gpu}, count) for (code, gpu), count in sorted(xids.items())],
        ),
        Metric(
            "bedplate_health_probe_age_seconds",
            GAUGE,
            "Seconds since the last answer of a probe.",
            [({"kind": kind}, round(age, 1)) for kind, age in sorted(agent.probe_ages.items())],
        ),
        Metric(
            "bedplate_health_agent_last_tick",
            GAUGE,
            "Time of the last tick in seconds since 1970.",
            [({}, round(agent.time))],
        ),
        Metric("bedplate_health_agent_interval_seconds", GAUGE, "Seconds between two ticks.", [({}, agent.interval)]),
        Metric(
            "bedplate_health_agent_problem",
            GAUGE,
            "1 for each part of the agent with a problem.",
            [({"part": part}, 1) for part in sorted(agent.problems)],
        ),
        Metric(
            "bedplate_health_prolog_passed_total",
            COUNTER,
            "Jobs that the prolog passed without a judgement.",
            [({"cause": cause}, count) for cause, count in sorted(agent.passed.items())],
        ),
        Metric(
            "bedplate_health_reported",
            GAUGE,
            "1 if Slurm has the node's current report.",
            [({}, int(agent.is_reported))],
        ),
        Metric(
            "bedplate_health_extra_foreign", GAUGE, "1 if the node's Extra is not JSON.", [({}, int(agent.is_foreign))]
        ),
    ]


def write(path: Path, found: Iterable[Metric]) -> str:
    """Write the metrics in one step. Return the problem, "" without one; node exporter shows the age of a file that stays."""
    try:
        atomic_write(path, text_of(found), mode=0o644, sync=False)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return ""


def _one_of(label: str, words: Iterable[str], current: str) -> list[tuple[Labels, float]]:
    return [({label: word}, int(word == current)) for word in words]
