# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one verb of scontrol on nodes of a run, and wait for its effect.

Nodes are read again right before each verb. A node whose reason is not the run's own is left alone, and so is a node that others have taken
over meanwhile.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...common.abandoned import nobody_reads
from ...common.hostlist import fold
from ...common.text import few
from ..live.drain_reasons import written
from .node_states import NodeView, SlurmAbsentError, SlurmSilentError, Snapshot
from .out_limits import Apart, Limit, Watch

DRAINED, DRAINING, LIMITED, REBOOTED, SILENT, RESUMED, HELD, FAILED = OUTCOMES = (
    "drained",
    "draining",
    "limited",
    "rebooted",
    "silent",
    "resumed",
    "held",
    "failed",
)
"""`draining`: jobs still run. `limited`: no more nodes may be out of service now. `silent`: Slurm cannot reboot it, because its slurmd does
not answer. `held`: left alone, and why. `failed`: the verb did not have its effect in time."""
_PAUSES, _GROWTH = (1.0, 15.0), 1.5  # seconds
_SILENCE = 60.0  # seconds for which slurmctld may not answer, as while it restarts
_UNREACHED = re.compile(r"Unable to contact slurm controller|timed out")


@dataclass(frozen=True)
class Order:
    """Define the work of a run on nodes.

    `deadline`: seconds that the call may take; 0 waits for nothing. `patience`: seconds that drained nodes wait for the others of their
    batch, since the last of them became free. `idle_patience`: seconds that the call waits while none of its nodes is free; None: until the
    deadline. `reserved`: also nodes in active reservations; `reservation`: the run's own one. `of_slurm`: also nodes that Slurm itself has
    out of service. `watched`: nodes that the run has resumed; health has `settle` seconds to judge them before a node is drained.
    """

    nodes: tuple[str, ...]
    kind: str
    run: str
    text: str = ""
    deadline: float = 0.0
    patience: float = 0.0
    idle_patience: float | None = None
    limits: tuple[Limit, ...] = ()
    apart: tuple[Apart, ...] = ()
    reserved: bool = False
    reservation: str = ""
    of_slurm: bool = False
    watched: tuple[Watch, ...] = ()
    settle: float = 0.0


@dataclass(frozen=True)
class NodeResult:
    """Hold the outcome of one node; `state` with its reason, `jobs` the ids of the jobs that hold it.

    `kind`, `run` and `text` are of the reason of the run of bedplate that has it out of service, "" if none has; `since`: when the run took
    it, in UTC as text.
    `free_in`: seconds until the time limits of its jobs end, None if one has no limit. `reservations`: the active ones that have it.
    `by_slurm`: Slurm itself has it out of service.
    """

    outcome: str
    state: str = ""
    why: str = ""
    jobs: tuple[str, ...] = ()
    changed: bool = False
    kind: str = ""
    run: str = ""
    since: str = ""
    free_in: int | None = 0
    reservations: tuple[str, ...] = ()
    by_slurm: bool = False
    text: str = ""

    def facts(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return {**asdict(self), "jobs": list(self.jobs), "reservations": list(self.reservations)}


@dataclass
class NodeVerb(ABC):
    """One verb on the nodes of an order. `read` returns all nodes, `change` runs a command and returns why it failed, or ""."""

    order: Order
    read: Callable[[], Snapshot]
    change: Callable[[Sequence[str]], str]
    check: bool = False
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    abandoned: Callable[[], bool] = nobody_reads
    changed: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)
    _again: set[str] = field(init=False, default_factory=set)
    """Nodes whose command slurmctld did not take, and that get it once more."""
    _heard_until: float | None = field(init=False, default=None)

    @abstractmethod
    def before(self, node: NodeView) -> NodeResult | None:
        """Return why the verb is not for this node, or not needed; None if the verb must run."""

    @abstractmethod
    def after(self, node: NodeView) -> NodeResult:
        """Return the result of a node on which this call has run the verb."""

    @abstractmethod
    def command(self, nodes: str) -> list[str]:
        """Return the command for nodes, a hostlist."""

    @abstractmethod
    def predicted(self, node: NodeView) -> str:
        """Return the outcome for a node that a run without check mode would change."""

    @abstractmethod
    def waits(self, results: Mapping[str, NodeResult]) -> bool:
        """Return whether the call continues to wait."""

    def admitted(self, names: Sequence[str], nodes: Mapping[str, NodeView]) -> tuple[Sequence[str], Mapping[str, str]]:
        """Return which of the nodes to change may be changed now, and why the others wait."""
        del nodes
        return names, {}

    def prepare(self, names: Sequence[str]) -> None:
        """Change what must be changed right before the command; a node for which that fails is in `failures`."""
        del names

    def run(self) -> dict[str, NodeResult]:
        """Run the verb, wait until the deadline, and return a result for each node. Raises SlurmSilentError if slurmctld stays silent."""
        end, pause = self.clock() + self.order.deadline, _PAUSES[0]
        while True:
            results = self._step()
            left = end - self.clock()
            if self.check or left <= 0 or not self.waits(results):
                return results
            self.sleep(min(pause, left))
            # Without its playbook it would drain further nodes, beside the next run.
            if self.abandoned():
                return results
            pause = min(pause * _GROWTH, _PAUSES[1])

    def owns(self, node: NodeView) -> bool:
        """Return whether this run has taken the node out of service."""
        return node.own is not None and node.own.is_of(self.order.kind, self.order.run)

    @property
    def reason(self) -> str:
        """Return the reason of this run."""
        return written(self.order.kind, self.order.run, self.order.text)

    def _step(self) -> dict[str, NodeResult]:
        nodes = self._nodes()
        found = {name: self._settled(name, nodes) for name in self.order.nodes}
        going, waiting = self.admitted([name for name, one in found.items() if one is None], nodes)
        if self.check:
            found.update((name, result(nodes[name], self.predicted(nodes[name]), changed=True)) for name in going)
        elif going:
            self.prepare(going)
            if ready := [name for name in going if name not in self.failures]:
                self._verb(ready)
            nodes = self._nodes()
            found.update((name, self._settled(name, nodes)) for name in going)
        found.update((name, result(nodes[name], LIMITED, why)) for name, why in waiting.items())
        # The verb succeeded, and the node is as before: others undid it at once.
        return {name: one or result(nodes[name], HELD, "changed by others") for name, one in found.items()}

    def _settled(self, name: str, nodes: Mapping[str, NodeView]) -> NodeResult | None:
        node = nodes.get(name)
        if node is None:
            return NodeResult(FAILED, why="unknown to Slurm")
        if name in self.failures:
            return result(node, FAILED, self.failures[name])
        return replace(self.after(node), changed=True) if name in self.changed else self.before(node)

    def _nodes(self) -> Mapping[str, NodeView]:
        """Return all nodes; a slurmctld that restarts has a minute, and so have nodes until it hears of them, once in a call."""
        end = self.clock() + _SILENCE
        self._heard_until = end if self._heard_until is None else self._heard_until
        while True:
            try:
                nodes = self.read().nodes
                if self.check or self.clock() >= self._heard_until or not unheard(self.order.nodes, nodes):
                    return nodes
            except SlurmSilentError as error:
                if self.clock() >= end or isinstance(error, SlurmAbsentError):
                    raise
            self.sleep(_PAUSES[0])

    def _verb(self, names: list[str]) -> None:
        """Run one command for all these nodes. Slurm can refuse it for one node, and change others all the same: then halve the rest."""
        # Slurm before 23.11 cannot read text after the last bracket.
        error = self.change(self.command(fold(names, suffixes=False)))
        if not error:
            self.changed.update(names)
        elif len(names) == 1 and _UNREACHED.search(error) and names[0] not in self._again:
            # scontrol gives up after nine seconds, and a slurmctld that restarts may need more.
            self._again.add(names[0])
            if self._unchanged(names):
                self._verb(names)
            else:
                self.changed.update(names)
        elif len(names) == 1:
            self.failures[names[0]] = error
        else:
            left = self._unchanged(names)
            self.changed.update(set(names) - set(left))
            middle = (len(left) + 1) // 2
            for half in (left[:middle], left[middle:]):
                # Others may have taken nodes over since the last command.
                if ready := self._unchanged(half):
                    self._verb(ready)

    def _unchanged(self, names: Sequence[str]) -> list[str]:
        """Return the nodes that need the command by what Slurm reports now."""
        nodes = self._nodes()
        return [name for name in names if name in nodes and self.before(nodes[name]) is None]


def result(node: NodeView, outcome: str, why: str = "", changed: bool = False) -> NodeResult:
    """Return the result of a node, with what Slurm reports of it."""
    own = node.own
    kind, run, since, text = (own.kind, own.run, node.since, own.text) if own is not None else ("", "", "", "")
    return NodeResult(
        outcome,
        node.shown,
        why,
        node.jobs,
        changed,
        kind,
        run,
        since,
        node.free_in,
        node.reservations,
        node.is_out_by_slurm,
        text,
    )


def unheard(names: Iterable[str], nodes: Mapping[str, NodeView]) -> bool:
    """Return whether slurmctld has not heard of one of the nodes since its start; it may be in service."""
    return any(nodes[name].is_unheard for name in names if name in nodes)


def heard(
    read: Callable[[], Snapshot],
    names: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Mapping[str, NodeView]:
    """Return all nodes; nodes unheard since the start of slurmctld have a minute. Raises SlurmSilentError."""
    end = clock() + _SILENCE
    while unheard(names, nodes := read().nodes) and clock() < end:
        sleep(_PAUSES[0])
    return nodes


def other_hardware(node: NodeView) -> NodeResult:
    """Return the result of a node that has registered with less than slurm.conf has."""
    return result(node, FAILED, f"registered with other hardware than slurm.conf has: {node.shown}")


def foreign(node: NodeView) -> str:
    """Return who else has a node out of service, or ""; for a node that the run does not own."""
    own = node.own
    if own is not None:
        return f"drained by another run of bedplate: {own.kind} {own.run}, {own.text}"
    return node.shown if node.is_out or node.reboots else ""


def switched_off(node: NodeView) -> str:
    """Return that Slurm has switched a node off, for an operator."""
    return f"switched off by Slurm: {node.shown_states}. Keep drained nodes on: SuspendExcStates=DRAIN"


def drained(node: NodeView) -> NodeResult:
    """Return whether a node that a run has drained is free of jobs and stays up: Slurm may still have a reboot of it in hand."""
    if node.reboots:
        return result(node, DRAINING, "a reboot of it is under way")
    return result(node, DRAINED) if node.is_drained else result(node, DRAINING, jobs_of(node))


def jobs_of(node: NodeView) -> str:
    """Return what holds a node, for operators."""
    return f"waits for job{'s' * (len(node.jobs) > 1)} {few(node.jobs)}" if node.jobs else "waits for Slurm"


def by_outcome(results: Mapping[str, NodeResult]) -> dict[str, str]:
    """Return outcome -> its nodes as a hostlist."""
    found: dict[str, list[str]] = {}
    for name, one in results.items():
        found.setdefault(one.outcome, []).append(name)
    return {outcome: fold(found[outcome]) for outcome in OUTCOMES if outcome in found}


def report(names: Iterable[str], nodes: Mapping[str, NodeView]) -> dict[str, NodeResult]:
    """Return what each node is now; nothing changes."""
    return {name: _now(nodes[name]) if name in nodes else NodeResult(FAILED, why="unknown to Slurm") for name in names}


def _now(node: NodeView) -> NodeResult:
    if node.own is not None:
        return drained(node)
    return result(node, HELD if node.is_out else RESUMED)
