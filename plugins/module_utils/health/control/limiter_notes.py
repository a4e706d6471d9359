# SPDX-License-Identifier: GPL-3.0-or-later
"""Note in the limiter's memory what a view shows: since when checks fail, which nodes are clean again, and what persons have overruled."""

from __future__ import annotations

from ..facts.health_finding import CLASSES, NOTE
from ..report.node_extra import NodeReport
from ..report.verdict_line import FAIL, OK, WARN
from .cluster_view import FREE, OURS, ClusterView
from .control_settings import ControlSettings
from .limiter_memory import Memory
from .suspect_checks import failing_checks

RESUME_SECONDS = 7 * 86400.0
"""Time for which a resume counts."""
_SICK = tuple(one for one in CLASSES if one != NOTE)


def is_sick(report: NodeReport | None) -> bool:
    """Return whether a node reports a finding for which it may be drained."""
    return report is not None and report.status in (FAIL, WARN) and report.health_class in _SICK


def note(memory: Memory, view: ClusterView, settings: ControlSettings, now: float) -> None:
    """Change the memory to what the view shows. `now` in seconds since 1970; a time after it counts as now: the clock was set back."""
    _note_failing(memory, view, now)
    _note_owners(memory, view, now)
    _note_clean(memory, view, now)
    memory.drains = [min(one, now) for one in memory.drains if now - one < settings.caps.seconds]
    memory.resumes = [[min(row[0], now), *row[1:]] for row in memory.resumes if now - row[0] < RESUME_SECONDS]
    memory.held = {name: min(since, now) for name, since in memory.held.items()}


def _note_failing(memory: Memory, view: ClusterView, now: float) -> None:
    memory.failing = {
        check: {
            node: min(memory.failing.get(check, {}).get(node, _first_seen(view, node, now)), now)
            for node in sorted(nodes)
        }
        for check, nodes in sorted(failing_checks(view).items())
    }


def _first_seen(view: ClusterView, node: str, now: float) -> float:
    """Return since when a failure counts that the memory lacks: after a lost memory, a node drained long ago does not fail newly."""
    return 0.0 if view.nodes[node].owner == OURS else now


def _note_owners(memory: Memory, view: ClusterView, now: float) -> None:
    """Note the newest report of each drained node, and that a person has resumed a node that is in service without a resume of ours."""
    for name, node in view.nodes.items():
        # A node whose reason a person has edited is the person's, and so is its resume.
        if node.owner == OURS or (name in memory.ours and node.is_of_person):
            time = node.report.time if node.report and is_sick(node.report) else 0
            before = memory.ours.get(name, 0)
            # A time of the future is of a node whose clock was wrong: its next report may be older.
            memory.ours[name] = max(before if before <= now else 0, time)
        elif name in memory.ours and node.owner == FREE:
            found = memory.ours.pop(name)
            # A node that also has no report was not resumed: slurmctld has lost its state.
            if node.report is not None:
                memory.overruled[name] = found
    for name, overruled in list(memory.overruled.items()):
        report = view.nodes[name].report if name in view.nodes else None
        # Without a report the last one may return: the site wrote Extra, or slurmctld lost its state.
        if report and (report.time != overruled or not is_sick(report)):
            del memory.overruled[name]


def _note_clean(memory: Memory, view: ClusterView, now: float) -> None:
    """Note since when a node of ours reports no finding. A report older than the finding is of a slurmctld that lost its state."""
    memory.clean = {
        name: min(memory.clean.get(name, now), now)
        for name, found in sorted(memory.ours.items())
        if name in view.nodes and view.nodes[name].owner == OURS and _is_clean(view.nodes[name].report, found)
    }


def _is_clean(report: NodeReport | None, found: float) -> bool:
    return report is not None and report.status == OK and report.health_class in ("", NOTE) and report.time >= found
