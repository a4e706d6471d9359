# SPDX-License-Identifier: GPL-3.0-or-later
"""Report a node's state to Slurm: the key `bp` in the JSON of its Extra, on change only, through commands that cannot block the agent.

Extra is read just before it is written, so that keys of others stay. An Extra that is not a JSON object is the site's own text: it stays as
it is, and `problem` reports it. slurmctld accepts an Extra from root and operators alone.

A report waits for 0 to 20 s, a time that follows from the node's name, so that one event on all nodes is no flood of RPCs. `cannot-run`
waits for nothing. While slurmctld does not answer, pauses grow to five minutes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..facts.health_finding import CANNOT_RUN, CLASSES
from ..probes.probe_child import Ended
from ..report.node_extra import ExtraError, NodeReport, merged, report_of

READ, WRITE = "extra-read", "extra-write"
JITTER = 20.0
SECONDS = 30.0
"""Deadline of one command."""
PAUSES = (5.0, 300.0)
FOREIGN_PAUSE = 3600.0
"""Seconds until the agent reads an Extra again that is not JSON."""
APART = 60.0
"""Seconds between two reports, unless the second has a worse class."""
AGAIN = 3600.0
"""Seconds after which the agent compares Extra with its last report: slurmctld may have lost its state."""
_EXTRA = re.compile(r"^\s*Extra=(.*)$", re.MULTILINE)


class Commands(Protocol):
    """Run commands in children with deadlines, at most one of a kind; ProbeChildren does."""

    def start(self, kind: str, argv: Sequence[str], seconds: float) -> bool:
        """Start a command. Return False if an earlier one of this kind still exists."""

    def poll(self) -> list[Ended]:
        """Return the commands that ended since the last call. Never blocks."""


def jitter_of(node: str) -> float:
    """Return the seconds for which a node's reports wait.

    >>> 0 <= jitter_of("gpu001") <= 20
    True
    """
    return zlib.crc32(node.encode()) % 1000 / 1000 * JITTER


def extra_of(output: str) -> str:
    """Return the Extra in the output of `scontrol show node NAME`; "" without one."""
    found = _EXTRA.search(output)
    return found[1].strip() if found else ""


def rank(health_class: str) -> int:
    """Return the place of a class, 0 for the worst; "" is after all classes."""
    return CLASSES.index(health_class) if health_class in CLASSES else len(CLASSES)


def is_same(one: NodeReport | None, other: NodeReport | None) -> bool:
    """Return whether two reports have the same state; a change of time, jobs or evidence alone does not count."""
    return one is not None and other is not None and _key(one) == _key(other)


@dataclass
class _Wanted:
    """Hold a report that Slurm does not have yet.

    `due`: uptime from which it may be sent. `tries`: failures in a row. `anew`: another time alone is a change.
    """

    report: NodeReport
    due: float
    tries: int = 0
    anew: bool = False

    def is_in(self, found: NodeReport | None) -> bool:
        """Return whether a report of Slurm makes this one needless."""
        return is_same(found, self.report) and not (self.anew and found is not None and found.time != self.report.time)


class SlurmReporter:
    """Send reports one after the other. `sent`: the last report that Slurm accepted. `problem`: why it lacks the current one."""

    def __init__(
        self, node: str, commands: Commands, *, scontrol: str = "scontrol", sent: NodeReport | None = None
    ) -> None:
        """Report as `node`. `sent`: the last report of an earlier process; the first report compares it with Slurm's."""
        self.node, self.commands, self.scontrol = node, commands, scontrol
        self.sent, self.problem = sent, ""
        self.is_foreign = False
        self._wanted: _Wanted | None = None
        self._running: NodeReport | None = None
        self._last = -APART
        self._check_at = 0.0

    @property
    def due(self) -> float | None:
        """Return the uptime of the next step, None without one. A running command is polled by the agent."""
        if self._running is not None:
            return None
        return self._wanted.due if self._wanted else self._check_at if self.sent else None

    @property
    def is_running(self) -> bool:
        """Return whether a command runs."""
        return self._running is not None

    def propose(self, report: NodeReport, uptime: float, *, at_once: bool = False, anew: bool = False) -> None:
        """Replace the report that waits. Its waiting time does not begin again, so a node that changes often reports as well.

        `anew`: it is sent even if Slurm has the same state with another time, because the clock was set.
        """
        due = uptime if at_once else self._due(report, uptime)
        if self._wanted is None:
            self._wanted = _Wanted(report, due)
        else:
            self._wanted.report = report
            if at_once or self._wanted.tries == 0:
                self._wanted.due = min(self._wanted.due, due)
        self._wanted.anew |= anew

    def step(self, uptime: float) -> None:
        """Collect commands that ended, and start the next one if it is due. Never blocks."""
        for ended in self.commands.poll():
            if ended.kind == READ:
                self._was_read(ended, uptime)
            elif ended.kind == WRITE:
                self._was_written(ended, uptime)
        if self._running is not None:
            return
        if self._wanted is None and self.sent is not None and uptime >= self._check_at:
            self._wanted = _Wanted(self.sent, uptime + jitter_of(self.node))
        if self._wanted is not None and uptime >= self._wanted.due:
            self._start(READ, [self.scontrol, "show", "node", self.node], self._wanted.report, uptime)

    def _due(self, report: NodeReport, uptime: float) -> float:
        """Return the uptime at which a report may be sent."""
        due = uptime + jitter_of(self.node)
        is_worse = self.sent is None or rank(report.health_class) < rank(self.sent.health_class)
        return due if is_worse else max(due, self._last + APART)

    def _start(self, kind: str, argv: Sequence[str], report: NodeReport, uptime: float) -> None:
        self._running = report
        if not self.commands.start(kind, argv, SECONDS):
            self._failed("an earlier scontrol does not end", uptime)

    def _was_read(self, ended: Ended, uptime: float) -> None:
        if self._running is None:
            return
        if ended.code != 0:
            self._failed(_why(ended), uptime)
            return
        # The state may have changed while the command ran.
        wanted = self._wanted or _Wanted(self._running, uptime)
        report, extra = wanted.report, extra_of(ended.output.decode("utf-8", "replace"))
        if wanted.is_in(report_of(extra)):
            self._done(report_of(extra) or report, uptime)
            return
        try:
            text = merged(extra, report)
        except ExtraError as error:
            self.is_foreign = True
            self._failed(f"Extra stays as it is: {error}", uptime, FOREIGN_PAUSE)
            return
        self.is_foreign = False
        self._start(WRITE, [self.scontrol, "update", f"nodename={self.node}", f"extra={text}"], report, uptime)

    def _was_written(self, ended: Ended, uptime: float) -> None:
        if self._running is None:
            return
        if ended.code == 0:
            self._done(self._running, uptime)
        else:
            self._failed(_why(ended), uptime)

    def _done(self, report: NodeReport, uptime: float) -> None:
        self._running, self.problem, self.is_foreign = None, "", False
        self.sent, self._last, self._check_at = report, uptime, uptime + AGAIN
        if self._wanted is not None and self._wanted.is_in(report):
            self._wanted = None
        elif self._wanted is not None:
            wanted = self._wanted.report
            due = uptime if wanted.health_class == CANNOT_RUN else self._due(wanted, uptime)
            self._wanted = _Wanted(wanted, due, anew=self._wanted.anew)

    def _failed(self, problem: str, uptime: float, pause: float | None = None) -> None:
        self._running, self.problem = None, problem[:300]
        if self._wanted is not None:
            self._wanted.tries += 1
            if pause is None:
                # The node's own part of the pause keeps nodes apart when slurmctld is back.
                pause = min(PAUSES[1], PAUSES[0] * 2 ** min(self._wanted.tries - 1, 10))
                pause *= 0.75 + jitter_of(self.node) / JITTER / 2
            self._wanted.due = uptime + pause


def _key(report: NodeReport) -> tuple[object, ...]:
    return report.status, report.health_class, report.checks, report.boot


def _why(ended: Ended) -> str:
    if ended.code is None:
        return f"scontrol did not end within {SECONDS:g} s"
    return f"scontrol ended with {ended.code}: {ended.problem}".rstrip(": ")
