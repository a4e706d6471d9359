# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what the health controller shows to Prometheus through node exporter's text files.

A controller that does not act shows only `acting`, its last tick and the dry run: the acting one alone has figures of nodes. No metric
here has the label `node`, because the target of the controller's node exporter may have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..report.prometheus_text import COUNTER, GAUGE, Metric


@dataclass(frozen=True)
class ControlState:
    """Hold one tick of a controller. Times in seconds since 1970.

    `last_tick`: the last one that read all nodes from Slurm, or that found another controller in charge. `dry_run_until`: the first
    moment of the day on which it begins to act, None without a date. `held`: check and cap -> sick nodes that are not drained;
    `held_longest`: seconds that the first of them is held. `suspects`: check -> nodes that newly fail it. `drains`: class -> drains
    since the start. `problems`: parts of the controller that failed.
    """

    last_tick: float
    is_acting: bool
    is_dry_run: bool
    dry_run_until: float | None
    unavailable: int = 0
    held: Mapping[tuple[str, str], int] = field(default_factory=dict)
    held_longest: float = 0.0
    suspects: Mapping[str, int] = field(default_factory=dict)
    drains: Mapping[str, int] = field(default_factory=dict)
    resumes: int = 0
    problems: tuple[str, ...] = ()


def control_metrics(state: ControlState) -> list[Metric]:
    """Return the metrics of a tick."""
    alone = [
        Metric("bedplate_health_control_acting", GAUGE, "1 if this controller may act.", [({}, int(state.is_acting))]),
        Metric(
            "bedplate_health_control_last_tick",
            GAUGE,
            "Time of the last tick in seconds since 1970.",
            [({}, round(state.last_tick))],
        ),
        Metric(
            "bedplate_health_control_dry_run",
            GAUGE,
            "1 if the controller only reports what it would do.",
            [({}, int(state.is_dry_run))],
        ),
        Metric(
            "bedplate_health_control_dry_run_until",
            GAUGE,
            "Time from which on it acts, in seconds since 1970; 0 without a date.",
            [({}, round(state.dry_run_until or 0))],
        ),
        Metric(
            "bedplate_health_control_problem",
            GAUGE,
            "1 for each part of the controller with a problem.",
            [({"part": part}, 1) for part in sorted(state.problems)],
        ),
    ]
    if not state.is_acting:
        return alone
    return [
        *alone,
        Metric("bedplate_health_control_unavailable", GAUGE, "Unavailable nodes.", [({}, state.unavailable)]),
        Metric(
            "bedplate_health_control_held",
            GAUGE,
            "Sick nodes that a cap, a suspect check or a person's reason holds.",
            [({"check": check, "cap": cap}, count) for (check, cap), count in sorted(state.held.items())],
        ),
        Metric(
            "bedplate_health_control_held_longest_seconds",
            GAUGE,
            "Time that the first of these nodes is held.",
            [({}, round(state.held_longest))],
        ),
        Metric(
            "bedplate_health_control_suspect",
            GAUGE,
            "Nodes that newly fail a check which is suspect: it drains no node.",
            [({"check": check}, count) for check, count in sorted(state.suspects.items())],
        ),
        Metric(
            "bedplate_health_control_drains_total",
            COUNTER,
            "Drains since the controller started, by class.",
            [({"class": name}, count) for name, count in sorted(state.drains.items())],
        ),
        Metric(
            "bedplate_health_control_resumes_total",
            COUNTER,
            "Nodes that it resumed since it started.",
            [({}, state.resumes)],
        ),
    ]
