# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which nodes are drained, held and resumed: a pure function of what Slurm shows, the settings and a memory.

A drain is decided one node after the other, each counted before the next, so no order of reports exceeds a cap.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..facts.health_finding import CANNOT_RUN, CLASSES, TRANSIENT
from ..report.node_extra import NodeReport
from ..report.verdict_line import FAIL, OK, WARN
from .cap_room import Room
from .cluster_view import FOREIGN, FREE, OF_SLURM, OURS, ClusterView, NodeState
from .control_settings import ControlSettings
from .drain_text import check_id, checks_of, class_of, text_for
from .limiter_memory import Memory
from .limiter_notes import is_sick, note
from .suspect_checks import WINDOW, in_common, suspects

RESUME, REWRITE, DRAIN = ("resume", "rewrite", "drain")
CLEAN_SECONDS = 180.0
"""Time without a finding before a resume: three ticks of an agent."""
PAGE_HELD = 900.0
RESUMES = 2
"""Resumes of a node after the same check in seven days."""
SERVICE = "service"
PROLOG = "Prolog error"
PERSON = "person"
"""The rule that holds a node which a person has resumed: no page reports it."""


@dataclass(frozen=True)
class Action:
    """Hold one change of a node: `seen` is the node that was judged, `text` what the reason says, or what a resume is for."""

    kind: str
    seen: NodeState
    text: str = ""

    @property
    def node(self) -> str:
        """Return the name of the node."""
        return self.seen.name


@dataclass(frozen=True)
class Hold:
    """Hold a sick node that is not drained: which cap or rule holds it, and why in words."""

    node: str
    health_class: str
    checks: tuple[str, ...]
    cap: str
    why: str
    since: float


@dataclass(frozen=True)
class Page:
    """Hold a message for the people on call. `kind`: suspect-check or held."""

    kind: str
    text: str
    nodes: tuple[str, ...] = ()


@dataclass
class Decision:
    """Hold what one tick decides; without `acts` the actions are only reported. `time`: of the tick, in seconds since 1970."""

    acts: bool
    time: float = 0.0
    actions: list[Action] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)

    def of_kind(self, kind: str) -> list[Action]:
        """Return the actions of a kind."""
        return [one for one in self.actions if one.kind == kind]

    def give_back(self, action: Action, before: Memory) -> None:
        """Forget that an action counts, because it was not made; `before` is the memory from which was decided."""
        if action.kind == DRAIN:
            self.memory.give_back_drain(self.time)
        elif action.kind == RESUME:
            self.memory.give_back_resume(self.time, action.node, before)

    def note_made(self, action: Action) -> None:
        """Note a node that the limiter has taken out of service: a person may resume it before the next tick sees it."""
        report = action.seen.report
        if action.kind in (DRAIN, REWRITE) and is_sick(report) and report is not None:
            self.memory.ours[action.node] = max(self.memory.ours.get(action.node, 0), report.time)


def decide(view: ClusterView, memory: Memory, settings: ControlSettings, now: float, *, acts: bool) -> Decision:
    """Return the decision of a tick. `now` in seconds since 1970; the given memory is not changed."""
    return _Tick(view, copy.deepcopy(memory), settings, now, acts).run()


class _Tick:
    def __init__(self, view: ClusterView, memory: Memory, settings: ControlSettings, now: float, acts: bool) -> None:
        self.view, self.memory, self.settings, self.now = view, memory, settings, now
        self.found = Decision(acts, now, memory=memory)
        self.room = Room(view, settings)
        self.drains: list[float] = []

    def run(self) -> Decision:
        note(self.memory, self.view, self.settings, self.now)
        self._suspect()
        self._note_wronged()
        self._resume()
        self._drain()
        self._rewrite()
        self._page_held()
        return self.found

    def _suspect(self) -> None:
        """Note checks that newly fail on many nodes; a suspect stays one until few nodes fail it."""
        self.memory.suspects = suspects(self.view, self.memory, self.settings, self.now)
        for check in sorted(self.memory.suspects):
            nodes = tuple(self.memory.failing[check])
            text = (
                f"suspect check or common cause: {check} fails on {len(nodes)} nodes{in_common(nodes, self.settings)}"
            )
            self.found.pages.append(Page("suspect-check", text, nodes))

    def _trusted(self, report: NodeReport | None) -> list[str]:
        """Return the checks of a report, with their devices, for which a node may be drained."""
        checks = report.checks if report is not None else ()
        return [check for check in checks if check_id(check) not in self.memory.suspects]

    def _resume(self) -> None:
        """Resume before anything else: nothing holds a resume. Its room counts from the next tick on, because it may fail."""
        for _name, node in sorted(self.view.nodes.items()):
            if not node.is_only_drained:
                continue
            if node.owner == OF_SLURM and node.name in self.memory.wronged and self._passes(node):
                self.found.actions.append(Action(RESUME, node, "suspect check"))
                self._forget_ours(node)
            elif node.owner == OURS and self.settings.resume and self._is_over(node):
                self._add_resume(node)

    def _note_wronged(self) -> None:
        """Note the nodes whose prolog failed for suspect checks alone, for as long as that is the reason that Slurm has for them.

        A check is corrected on one node after the other. So the last nodes still fail it when it is no longer suspect, and stay noted.
        """
        before, self.memory.wronged = self.memory.wronged, {}
        for name, node in sorted(self.view.nodes.items()):
            if node.owner != OF_SLURM or not node.reason.startswith(PROLOG):
                continue
            if self._failed_by_suspects(node):
                self.memory.wronged[name] = self.now
            elif name in before and (not self._is_sick(node) or self.now - before[name] < WINDOW):
                self.memory.wronged[name] = min(before[name], self.now)

    def _passes(self, node: NodeState) -> bool:
        """Return whether the prolog passes jobs again: before that a resume would only fail the next job.

        Such resumes are not counted: the check was wrong, and not the node.
        """
        report = node.report
        if report is None or report.status not in (OK, WARN, FAIL) or self._is_sick(node):
            return False
        return not (is_sick(report) and report.health_class == CANNOT_RUN)

    def _is_sick(self, node: NodeState) -> bool:
        """Return whether a node reports a finding of a check that is not suspect."""
        return is_sick(node.report) and bool(self._trusted(node.report))

    def _failed_by_suspects(self, node: NodeState) -> bool:
        """Return whether suspect checks alone fail the prolog now."""
        report = node.report
        if report is None or not is_sick(report) or report.health_class != CANNOT_RUN or not report.checks:
            return False
        return not self._trusted(report)

    def _is_over(self, node: NodeState) -> bool:
        since = self.memory.clean.get(node.name)
        own = node.own
        return (
            own is not None
            and class_of(own.text) == TRANSIENT
            and since is not None
            and self.now - since >= CLEAN_SECONDS
        )

    def _add_resume(self, node: NodeState) -> None:
        """Resume a node, or leave it to service if the same check has drained it too often."""
        checks = checks_of(node.own.text) if node.own else ()
        done = Counter(check for _time, name, check in self.memory.resumes if name == node.name)
        for check in checks:
            if done[check] >= RESUMES:
                text = f"{SERVICE} {check or 'node'} resumed {done[check]} times in 7 days; repair it, then resume it by hand"
                self.found.actions.append(Action(REWRITE, node, text))
                return
        self.found.actions.append(Action(RESUME, node, ",".join(checks)))
        if self.found.acts:
            self.memory.resumes += [[self.now, node.name, check] for check in checks]
        self._forget_ours(node)

    def _forget_ours(self, node: NodeState) -> None:
        """Forget that a node was drained: the limiter returns it to service, not a person."""
        if self.found.acts:
            self.memory.ours.pop(node.name, None)

    def _rewrite(self) -> None:
        """Give a node that is out of service already the reason of its report, where it is worse than the reason that it has.

        A transient finding does not replace a reason of Slurm: with the end of the finding the limiter would resume the node.
        """
        for _name, node in sorted(self.view.nodes.items()):
            report, trusted = node.report, self._trusted(node.report)
            if report is None or not self._is_sick(node) or node.name in self.memory.wronged:
                continue
            # The class is that of the first check: a suspect one makes no reason worse.
            is_worse = (
                trusted[0] == report.checks[0] and node.own and _is_worse(report.health_class, class_of(node.own.text))
            )
            stays = report.health_class != TRANSIENT
            if (node.owner == OF_SLURM and stays) or (node.owner == OURS and is_worse):
                self.found.actions.append(Action(REWRITE, node, text_for(report, trusted)))

    def _drain(self) -> None:
        held: dict[str, float] = {}
        self.drains = list(self.memory.drains)
        for node in self._candidates():
            report = node.report
            if report is None:
                continue
            if holds := self._reason_to_hold(node, report):
                since = held[node.name] = self.memory.held.get(node.name, self.now)
                self.found.holds.append(Hold(node.name, report.health_class, report.checks, *holds, since))
                continue
            self.room.take(node.name)
            self.found.actions.append(Action(DRAIN, node, text_for(report, self._trusted(report))))
            self.drains.append(self.now)
        self.memory.held = held
        if self.found.acts:
            self.memory.drains = self.drains

    def _candidates(self) -> Iterator[NodeState]:
        """Yield sick nodes in service, the worst class first, then the oldest report."""
        sick = [node for node in self.view.nodes.values() if node.owner == FREE and is_sick(node.report)]
        sick += [node for node in self.view.nodes.values() if _is_kept_by_reason(node)]
        yield from sorted(sick, key=lambda node: _order(node.report, node.name))

    def _reason_to_hold(self, node: NodeState, report: NodeReport) -> tuple[str, str] | None:
        """Return the cap or rule that holds a node, and why; None if it may be drained."""
        if node.owner == FOREIGN:
            return "reason", f"has a reason of others: {node.reason[:60]}"
        if not report.checks:
            return "report", "reports a class and no check"
        if not self._trusted(report):
            return "suspect", f"suspect check {', '.join(sorted(self.memory.suspects))}"
        if self.memory.overruled.get(node.name) == report.time:
            return PERSON, "resumed by a person since this report"
        if len(self.drains) >= self.settings.caps.drains:
            return "rate", f"rate: {self.settings.caps.drains} drains in {self.settings.caps.seconds} s"
        return self.room.full(node.name)

    def _page_held(self) -> None:
        late = tuple(one.node for one in self.found.holds if one.cap != PERSON and self.now - one.since >= PAGE_HELD)
        if late:
            self.found.pages.append(
                Page("held", f"{len(late)} sick nodes are held for over {PAGE_HELD / 60:.0f} minutes", late)
            )


def _is_kept_by_reason(node: NodeState) -> bool:
    """Return whether a sick node is in service with a reason of others."""
    return node.owner == FOREIGN and is_sick(node.report) and not node.is_taken_out and bool(node.reason)


def _order(report: NodeReport | None, name: str) -> tuple[int, int, str]:
    if report is None:
        return (len(CLASSES), 0, name)
    return (CLASSES.index(report.health_class), report.time, name)


def _is_worse(new: str, old: str) -> bool:
    if old == SERVICE or new not in CLASSES:
        return False
    return old not in CLASSES or CLASSES.index(new) < CLASSES.index(old)
