# SPDX-License-Identifier: GPL-3.0-or-later
"""Write metrics of a node's health for the textfile collector of node exporter, in the text format of Prometheus."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...common.files import atomic_write
from ..facts.health_finding import CLASSES, HealthFinding
from ..report.verdict_line import STATUSES

PREFIX = "bedplate_health"
MOST_FINDINGS = 200
GAUGE, COUNTER = "gauge", "counter"
Labels = Mapping[str, str]


@dataclass(frozen=True)
class Metric:
    """Hold a metric with all its samples: labels and value."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]


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
        Metric("status", GAUGE, "1 for the status of the node.", _one_of("status", STATUSES, status)),
        Metric("class", GAUGE, "1 for the worst class of a finding.", _one_of("class", CLASSES, health_class)),
        Metric(
            "findings",
            GAUGE,
            "1 for each finding.",
            [({"check": check, "class": of, "device": device}, 1) for check, of, device in shown],
        ),
        Metric(
            "findings_hidden",
            GAUGE,
            "Findings without a series, because there are too many.",
            [({}, len(places) - len(shown))],
        ),
        Metric(
            "xid_total",
            COUNTER,
            "Xids in the kernel's log since the agent has counted.",
            [({"xid": code, "gpu": gpu}, count) for (code, gpu), count in sorted(xids.items())],
        ),
        Metric(
            "probe_age_seconds",
            GAUGE,
            "Seconds since the last answer of a probe.",
            [({"kind": kind}, round(age, 1)) for kind, age in sorted(agent.probe_ages.items())],
        ),
        Metric("agent_last_tick", GAUGE, "Time of the last tick in seconds since 1970.", [({}, round(agent.time))]),
        Metric("agent_interval_seconds", GAUGE, "Seconds between two ticks.", [({}, agent.interval)]),
        Metric(
            "agent_problem",
            GAUGE,
            "1 for each part of the agent with a problem.",
            [({"part": part}, 1) for part in sorted(agent.problems)],
        ),
        Metric(
            "prolog_passed_total",
            COUNTER,
            "Jobs that the prolog passed without a judgement.",
            [({"cause": cause}, count) for cause, count in sorted(agent.passed.items())],
        ),
        Metric("reported", GAUGE, "1 if Slurm has the node's current report.", [({}, int(agent.is_reported))]),
        Metric("extra_foreign", GAUGE, "1 if the node's Extra is not JSON.", [({}, int(agent.is_foreign))]),
    ]


def text_of(found: Iterable[Metric]) -> str:
    """Return the text of metrics. A metric without a sample has no lines."""
    lines = []
    for metric in found:
        if metric.samples:
            name = f"{PREFIX}_{metric.name}"
            lines += [f"# HELP {name} {metric.help}", f"# TYPE {name} {metric.kind}"]
            lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in metric.samples]
    return "".join(f"{line}\n" for line in lines)


def write(path: Path, found: Iterable[Metric]) -> str:
    """Write the metrics in one step. Return the problem, "" without one; node exporter shows the age of a file that stays."""
    try:
        atomic_write(path, text_of(found), mode=0o644, sync=False)
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    return ""


def _one_of(label: str, words: Iterable[str], current: str) -> list[tuple[Labels, float]]:
    return [({label: word}, int(word == current)) for word in words]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    """Return a label value with backslash, quote and line break escaped."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(int(value)) if float(value).is_integer() else repr(float(value))
