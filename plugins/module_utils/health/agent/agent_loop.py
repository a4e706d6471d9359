# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop of the agent: each step reads events, collects probes, judges, and publishes. All input and output is injected.

A tick starts the probes; their readings are judged when all have ended, at the latest at the next tick. Events of the kernel's log are
judged at once, with the readings of the last cycle: these keep their uptime, so that they count as one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from ..facts.node_facts import KernelEvent, NodeFacts, NodeProfile, Reading
from ..judge.judgement import FAIL, Judgement, judge
from ..judge.kernel_memory import remembered
from ..judge.node_history import NodeHistory
from ..kernel_log.kernel_cursor import Batch
from ..kernel_log.kernel_events import XID
from .agent_settings import AgentSettings
from .clock import Moment
from .kernel_reader import UNREADABLE
from .state_file import Memory

EVENT_PAUSE = 0.5
"""Seconds between two judgements of events: a flood of lines must not use the node's processor."""
POLL = 0.25
"""Seconds between two looks at running children; the end of a child wakes the agent earlier."""
READ_SECONDS = 0.3
Judge = Callable[[NodeFacts, NodeHistory, Sequence[KernelEvent], NodeProfile], Judgement]


class Log(Protocol):
    """The kernel's log behind a cursor."""

    @property
    def sequence(self) -> int:
        """Return the number of the last record that was read."""

    def read(self, now: Moment, seconds: float) -> Batch:
        """Return the next events. A log that cannot be read has an event of the kind `gap`."""


class Sampler(Protocol):
    """Probes, and the last readings of each kind; ProbeSchedule is one."""

    @property
    def is_running(self) -> bool:
        """Return whether a probe runs."""

    @property
    def is_answered(self) -> bool:
        """Return whether each kind was read at least once."""

    def begin(self, uptime: float, interval: float) -> None:
        """Start the probes that are due."""

    def collect(self, uptime: float) -> bool:
        """Keep readings of probes that ended."""

    def readings(self) -> tuple[Reading, ...]:
        """Return the last readings."""

    def fresh(self) -> tuple[Reading, ...]:
        """Return the readings of the kinds that answered since the last call."""

    def ages(self, uptime: float) -> Mapping[str, float]:
        """Return kind -> seconds since its last answer."""


class Jobs(Protocol):
    """Jobs of the node, without any command of Slurm."""

    def running(self) -> tuple[int, ...]:
        """Return the jobs that run now."""

    def of_event(self, event: KernelEvent, now: Moment) -> int | None:
        """Return the job that an event belongs to; None if it is not known."""


class Publisher(Protocol):
    """Writes verdict, evidence, report, metrics and state."""

    @property
    def due(self) -> float | None:
        """Return the uptime at which `step` must be called, None without one."""

    def publish(self, judgement: Judgement, facts: NodeFacts, now: Moment) -> None:
        """Write the verdict, then keep evidence, then propose the report."""

    def close_cycle(self, facts: NodeFacts, ages: Mapping[str, float]) -> None:
        """Write metrics and state."""

    def step(self, uptime: float) -> bool:
        """Continue the report to Slurm. Return whether a command of it runs."""


class Agent:
    """Hold one node's agent. `step` must be called when `next_step` is due, and when the log has a record or a child ended."""

    def __init__(
        self,
        settings: AgentSettings,
        boot: str,
        memory: Memory,
        log: Log,
        sampler: Sampler,
        jobs: Jobs,
        publisher: Publisher,
        judge_node: Judge = judge,
    ) -> None:
        """Start from a memory; the first tick is due at once."""
        self.settings, self.boot, self.memory = settings, boot, memory
        self.log, self.sampler, self.jobs, self.publisher, self.judge = log, sampler, jobs, publisher, judge_node
        self.cycles = 0
        self._tick: float | None = None
        self._is_open = self._is_pending = self._is_behind = False
        self._judged = -EVENT_PAUSE
        self._facts: NodeFacts | None = None
        self._unread: tuple[KernelEvent, ...] = ()
        self._is_reporting = False

    def step(self, now: Moment) -> None:
        """Do all that is due at a moment. Takes at most READ_SECONDS and the time of one judgement."""
        self._read_log(now)
        self.sampler.collect(now.uptime)
        if self._tick is None or now.uptime >= self._tick:
            self._begin(now)
        if self._is_open and not self.sampler.is_running:
            self._close(now)
        elif self._is_pending and now.uptime >= self._judged + EVENT_PAUSE:
            self._judge_events(now)
        self._is_reporting = self.publisher.step(now.uptime)

    def next_step(self, now: Moment) -> float:
        """Return the seconds until the next step at the latest."""
        if self._is_behind:
            return 0.0
        times = [self._tick if self._tick is not None else now.uptime]
        if self.sampler.is_running or self._is_reporting:
            times.append(now.uptime + POLL)
        if self._is_pending:
            times.append(self._judged + EVENT_PAUSE)
        if self.publisher.due is not None:
            times.append(self.publisher.due)
        return max(0.0, min(times) - now.uptime)

    def _begin(self, now: Moment) -> None:
        """Begin a tick. A cycle whose probes still run is judged with what they read before."""
        if self._is_open and self.sampler.is_answered:
            self._close(now)
        interval = self.settings.interval
        planned = (now.uptime if self._tick is None else self._tick) + interval
        # After a pause longer than a tick, such as a suspended machine, missed ticks are not made up for.
        self._tick = planned if planned > now.uptime else now.uptime + interval
        self.sampler.begin(now.uptime, interval)
        self._is_open = True

    def _read_log(self, now: Moment) -> None:
        batch = self.log.read(now, READ_SECONDS)
        self._is_behind = batch.more
        self._unread = tuple(one for one in batch.events if one.sequence == UNREADABLE)
        events = [self._with_job(one, now) for one in batch.events if one.sequence != UNREADABLE]
        self.memory.log = replace(self.memory.log, sequence=self.log.sequence, boot_time=now.time - now.uptime)
        if events:
            for one in events:
                if one.kind == XID and one.code is not None:
                    self.memory.count(one.code, one.device)
            self._remember([*self.memory.log.events, *events], now)
            self._is_pending = True

    def _remember(self, events: Sequence[KernelEvent], now: Moment) -> None:
        facts = NodeFacts(self.boot, now.uptime, now.time)
        self.memory.log = replace(self.memory.log, events=tuple(remembered(events, facts)))

    def _with_job(self, event: KernelEvent, now: Moment) -> KernelEvent:
        if event.kind != XID:
            return event
        job = self.jobs.of_event(event, now)
        return event if job is None else replace(event, details={**event.details, "job": str(job)})

    def _close(self, now: Moment) -> None:
        """Judge the readings of a cycle, and add the new ones to the history: a reading of an earlier cycle does not count as a sample."""
        self._is_open = False
        self._remember(self.memory.log.events, now)
        facts = NodeFacts(self.boot, now.uptime, now.time, self.sampler.readings(), (), self.jobs.running())
        judgement = self._judgement(facts, now)
        self.memory.history.record(replace(facts, readings=self.sampler.fresh()), judgement.latches)
        self._facts = facts
        self.cycles += 1
        self.publisher.publish(judgement, facts, now)
        self.publisher.close_cycle(facts, self.sampler.ages(now.uptime))

    def _judge_events(self, now: Moment) -> None:
        """Judge new events. Before the first cycle only a failure is published: missing readings do not make a verdict."""
        at = now.uptime if self._facts is None else self._facts.uptime
        readings = () if self._facts is None else self._facts.readings
        facts = NodeFacts(self.boot, at, now.time, readings, (), self.jobs.running())
        judgement = self._judgement(facts, now)
        if self._facts is not None or judgement.status == FAIL:
            self.publisher.publish(judgement, facts, now)

    def _judgement(self, facts: NodeFacts, now: Moment) -> Judgement:
        self._is_pending, self._judged = False, now.uptime
        events = (*self.memory.log.events, *self._unread)
        return self.judge(facts, self.memory.history, events, self.settings.profile_at(now.time))
