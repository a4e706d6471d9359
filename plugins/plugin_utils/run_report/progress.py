# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the progress of a run: a bar for each rack on a terminal, a line for each play elsewhere."""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .report_document import Place

DRAINED, WAITING = "drained", "waiting"
RANKS = ("queued", "ok", "changed", "failed", "unreachable")
"""What happened on a host, the worst last."""
_SLURM = {"drained": DRAINED, "rebooted": DRAINED, "silent": DRAINED, "draining": WAITING, "limited": WAITING}
_SLOWEST = 5


class Screen(Protocol):
    """Define the display that prints a line: Ansible's."""

    def display(self, msg: str) -> None:
        """Print a line."""


class Hosts:
    """Hold the state of each host: its worst result, or that a roll has it drained or lets it wait."""

    def __init__(self) -> None:
        self._worst: dict[str, str] = {}
        self._slurm: dict[str, str] = {}

    def result(self, host: str, kind: str, changed: bool) -> None:
        """Take the result of a task; `kind` is ok, failed, unreachable or skipped."""
        word = "changed" if changed and kind == "ok" else "ok" if kind == "skipped" else kind
        if RANKS.index(word) >= RANKS.index(self._worst.get(host, RANKS[0])):
            self._worst[host] = word

    def slurm(self, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """Take what bedplate.cluster.slurm_node reports; a node that is resumed, or that others hold, is as its tasks left it."""
        for name, one in nodes.items():
            self._slurm[name] = _SLURM.get(str(one.get("outcome")), "")

    def word(self, host: str) -> str:
        """Return what a host is now."""
        return self._slurm.get(host) or self._worst.get(host, RANKS[0])

    def counts(self) -> dict[str, int]:
        """Return each word and how many hosts it is true of."""
        found: dict[str, int] = {}
        for host in dict.fromkeys([*self._worst, *self._slurm]):
            found[self.word(host)] = found.get(self.word(host), 0) + 1
        return found


class Progress(ABC):
    """Show an operator the progress of a run."""

    def __init__(self) -> None:
        self.hosts = Hosts()
        self.to_roll, self.rolled = 0, 0

    @abstractmethod
    def play(self, name: str) -> None:
        """A play begins, or a batch of it."""

    def result(self, host: str, kind: str, changed: bool) -> None:
        """A task ended on a host; `kind` is ok, failed, unreachable or skipped."""
        self.hosts.result(host, kind, changed)

    def slurm(self, nodes: Mapping[str, Mapping[str, Any]]) -> None:
        """A call on Slurm's nodes ended."""
        self.hosts.slurm(nodes)
        self.rolled += sum(one.get("outcome") == "resumed" and bool(one.get("changed")) for one in nodes.values())

    @abstractmethod
    def end(self, report: Mapping[str, Any]) -> None:
        """The run ends."""


class Nothing(Progress):
    """Show nothing."""

    def play(self, name: str) -> None:
        """Show nothing."""

    def end(self, report: Mapping[str, Any]) -> None:
        """Show nothing."""


class Lines(Progress):
    """Print a line for each play, or batch of it, that had results: hosts by what happened on them, and the time."""

    def __init__(self, screen: Screen, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._screen, self._clock, self._name = screen, clock, ""
        self._begun = self._first = clock()

    def play(self, name: str) -> None:
        """Print the play before this one."""
        self._flush()
        self._name, self._begun, self.hosts = name, self._clock(), Hosts()

    def end(self, report: Mapping[str, Any]) -> None:
        """Print the last play, and the slowest hosts."""
        self._flush()
        slow = sorted(report["nodes"].items(), key=lambda one: -one[1]["seconds"])[:_SLOWEST]
        if len(report["nodes"]) > _SLOWEST:
            self._screen.display("slowest: " + ", ".join(f"{name} {one['seconds']:g} s" for name, one in slow))

    def _flush(self) -> None:
        counts = self.hosts.counts()
        if counts:
            shown = ", ".join(f"{number} {word}" for word, number in counts.items())
            left = time_left(self.rolled, self.to_roll, self._clock() - self._first)
            self._screen.display(f"{self._name}: {shown} ({self._clock() - self._begun:.0f} s{left})")


RUNNER = "AWX_ISOLATED_DATA_DIR"
"""The variable with the artifacts of a run by ansible-runner."""


def time_left(done: int, of: int, seconds: float) -> str:
    """Return how long the rest of a roll takes if its speed stays as it is, "" before its first node is back.

    >>> time_left(10, 40, 600)
    ', 10 of 40 nodes rolled, about 30 min left'
    """
    if not done or done >= of:
        return ""
    return f", {done} of {of} nodes rolled, about {seconds * (of - done) / done / 60:.0f} min left"


def progress_of(wish: str, places: Mapping[str, Place], screen: Screen) -> Progress:
    """Return what shows the progress: as the option `progress` says, and what this machine can."""
    if wish == "off":
        return Nothing()
    # ansible-runner gives a terminal, and finds its events in the output: bars would damage them.
    terminal = sys.stdout.isatty() and not os.environ.get("CI") and not os.environ.get(RUNNER)
    if wish == "bars" or (wish == "auto" and terminal):
        from .progress_bars import HAS_RICH, Bars

        if HAS_RICH:
            return Bars(places)
    return Lines(screen)
