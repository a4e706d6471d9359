# SPDX-License-Identifier: GPL-3.0-or-later
"""Find checks that newly fail on many nodes: the check, a profile or a common cause is wrong, and no node is drained for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..report.verdict_line import OK
from .cluster_view import ClusterView
from .control_settings import LEAVES, PROFILES, RACKS, ControlSettings
from .drain_text import check_id
from .limiter_memory import Memory

WINDOW = 600.0
"""Seconds in which a failure is new."""
LEAST, SHARE = 3, 0.02
"""A check is suspect above so many nodes, or above this share of the nodes it applies to, whichever is more."""


def failing_checks(view: ClusterView) -> dict[str, set[str]]:
    """Return check -> the nodes that report it, without its devices."""
    found: dict[str, set[str]] = {}
    for name, node in view.nodes.items():
        if node.report is not None and node.report.status != OK:
            for check in node.report.checks:
                found.setdefault(check_id(check), set()).add(name)
    return found


def suspects(view: ClusterView, memory: Memory, settings: ControlSettings, now: float) -> dict[str, float]:
    """Return the suspect checks, each with the time since when; `memory` has the failures of now."""
    found: dict[str, float] = {}
    for check, since in memory.failing.items():
        if len(since) <= LEAST:
            continue
        most = _threshold(view, since, settings)
        new = sum(1 for time in since.values() if now - time < WINDOW)
        if new > most or (check in memory.suspects and len(since) > most):
            found[check] = memory.suspects.get(check, now)
    return found


def _threshold(view: ClusterView, failing: Iterable[str], settings: ControlSettings) -> float:
    """Return the number of nodes above which a check is suspect; it applies to the profiles of the nodes that fail it."""
    profiles = {name for node in failing for name in settings.groups_of(node, PROFILES)}
    applies = {node for name in profiles for node in settings.groups[PROFILES][name]} & set(view.nodes)
    return max(LEAST, SHARE * (len(applies) or len(view.nodes)))


def in_common(nodes: Collection[str], settings: ControlSettings) -> str:
    """Return the rack, leaf and profile that all nodes share, as words; "" without one.

    A word such as `, all in rack r1, profile gpu8`.
    """
    words = []
    for kind, word in ((RACKS, "rack"), (LEAVES, "leaf"), (PROFILES, "profile")):
        shared = set.intersection(*(set(settings.groups_of(node, kind)) for node in nodes)) if nodes else set()
        words += [f"{word} {name}" for name in sorted(shared)]
    return f", all in {', '.join(words)}" if words else ""
