# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the last tick of the limiter as plain data, for verify and people, and as the state of its metrics."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .cluster_view import ClusterView
from .control_metrics import ControlState
from .control_settings import ControlSettings
from .drain_text import check_id
from .limiter import PERSON, Decision


def status(view: ClusterView, decision: Decision, problems: Sequence[str], now: float) -> dict[str, Any]:
    """Return the last tick: actions, holds and pages by name, and problems."""
    return {
        "time": round(now),
        "acts": decision.acts,
        "nodes": len(view.nodes) + len(view.malformed),
        "unreadable": sorted(view.malformed),
        "unavailable": len(view.unavailable),
        "actions": [{"kind": one.kind, "node": one.node, "text": one.text} for one in decision.actions],
        "held": [{"node": one.node, "class": one.health_class, "why": one.why} for one in decision.holds],
        "pages": [{"kind": one.kind, "text": one.text} for one in decision.pages],
        "problems": list(problems),
    }


def lines(decision: Decision) -> list[str]:
    """Return actions, holds and pages for the journal, one line each."""
    dry = "" if decision.acts else "dry run: "
    return [
        *(f"{dry}{one.kind} {one.node}{': ' * bool(one.text)}{one.text}" for one in decision.actions),
        *(f"{dry}held {one.node} ({one.health_class}): {one.why}" for one in decision.holds),
        *(f"{dry}{one.kind}: {one.text}" for one in decision.pages),
    ]


def idle_state(settings: ControlSettings, now: float, acts: bool) -> ControlState:
    """Return the state of a controller that is not in charge."""
    return ControlState(now, False, not acts, _until(settings))


def acting_state(
    settings: ControlSettings,
    view: ClusterView,
    decision: Decision,
    totals: Mapping[str, int],
    problems: Sequence[str],
    now: float,
) -> ControlState:
    """Return the state of the controller in charge. `totals`: class, or `resume` -> how often since the start."""
    held = Counter((check_id(check), one.cap) for one in decision.holds for check in one.checks[:1])
    return ControlState(
        last_tick=now,
        is_acting=True,
        is_dry_run=not decision.acts,
        dry_run_until=_until(settings),
        unavailable=len(view.unavailable),
        held=held,
        held_longest=max((now - one.since for one in decision.holds if one.cap != PERSON), default=0.0),
        suspects={name: len(decision.memory.failing.get(name, {})) for name in decision.memory.suspects},
        drains={name: count for name, count in totals.items() if name != "resume"},
        resumes=totals.get("resume", 0),
        problems=("action",) if problems else (),
    )


def _until(settings: ControlSettings) -> float | None:
    until = settings.dry_run_until
    return time.mktime(until.timetuple()) if until else None
