# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide per node whether a run begins an order, continues one, or has nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from ...module_utils.provision.progress import (
    ARMED,
    KNOWN,
    PLANNED,
    REFUSED,
    STARTED,
    UNTOUCHED,
    VERIFIED,
    Progress,
)
from .desk import Desk, Look, Seen
from .wanted import Wanted

_UNCLAIMED = ("armed", "expired", "released")


@dataclass
class Plan:
    """Nodes of a run. `work`: progress from which each continues; `known`: installed; `refused`: node -> why.

    `began` are nodes of `work` whose machine was started before for an order that is made anew.
    """

    work: dict[str, Progress] = field(default_factory=dict)
    known: dict[str, Progress] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    began: set[str] = field(default_factory=set)

    @property
    def new(self) -> list[str]:
        """Return the nodes that begin an order; their machines are verified first."""
        return [node for node, one in self.work.items() if one.state == PLANNED]

    @property
    def unclaimed(self) -> list[str]:
        """Return the nodes that no installer has claimed yet, as far as the run has seen: Slurm decides about them."""
        return [node for node, one in self.work.items() if one.state in (PLANNED, VERIFIED, ARMED, STARTED)]


def plan_of(
    wanted: Mapping[str, Wanted], look: Look, wiped: Collection[str], is_free: Callable[[Progress | None, float], bool]
) -> Plan:
    """Return the plan. `wiped` are nodes whose installed system may be replaced; `is_free`: no other run works on a node."""
    plan = Plan()
    for node, one in wanted.items():
        seen = look.nodes.get(node)
        if node in look.errors or seen is None:
            plan.refused[node] = look.errors.get(node, "the provision host reported nothing")
        elif not is_free(seen.progress, look.now):
            holder = seen.progress.holder if seen.progress else ""
            plan.refused[node] = f"another run works on it: {holder}. Wait for it, or stop it and run again."
        elif seen.open and (seen.progress is None or seen.progress.state == PLANNED):
            text = f"order {seen.open} is open on the provision host, and no run has recorded it"
            plan.refused[node] = f"{text}. Find out what the machine does, and release the order."
        else:
            _place(plan, one, seen, node in wiped)
    return plan


def hold(plan: Plan, wanted: Mapping[str, Wanted], wiped: Collection[str], desk: Desk, look: Look) -> Plan:
    """Hold the nodes of a plan for this run, before Slurm drains one; then plan once more. A node that another run has is refused.

    `look` is that of the plan. Raises DeskError.
    """
    named = [*plan.work, *plan.known]
    if not named:
        return plan
    lost = desk.hold(named, look)
    mine = {node: wanted[node] for node in named if node not in lost}
    held = plan_of(mine, desk.look(mine), wiped, desk.is_free)
    held.refused = {**plan.refused, **held.refused, **{node: f"{why}. Run again." for node, why in lost.items()}}
    return held


def _place(plan: Plan, one: Wanted, seen: Seen, is_wiped: bool) -> None:
    progress, node = seen.progress, one.node
    if progress is None or progress.state in (PLANNED, REFUSED):
        # The holder of a run that has ended stays until this run writes its own.
        plan.work[node] = Progress(node, order=seen.open, holder=progress.holder if progress else "")
    elif progress.state == KNOWN:
        # A run that was killed after it had installed the node has a holder: its confirmation is used up.
        if is_wiped and (not progress.holder or progress.reason == UNTOUCHED):
            plan.work[node] = Progress(node)
        else:
            plan.known[node] = progress
    elif progress.state in (VERIFIED, ARMED, STARTED):
        _place_unclaimed(plan, one, seen, progress)
    else:
        plan.work[node] = progress


def _place_unclaimed(plan: Plan, one: Wanted, seen: Seen, progress: Progress) -> None:
    """Continue an order that no installer had claimed yet, or replace it by the order that the run needs."""
    node, state = one.node, str((seen.order or {}).get("state", ""))
    order = progress.order or seen.open
    is_same = progress.digest == one.digest and state == "armed"
    if state and state not in _UNCLAIMED:
        plan.work[node] = replace(progress, state=STARTED, order=order)
    elif progress.state != VERIFIED and is_same:
        plan.work[node] = progress
    else:
        plan.work[node] = Progress(node, order=order, holder=progress.holder)
        if progress.state == STARTED:
            plan.began.add(node)
