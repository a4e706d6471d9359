# SPDX-License-Identifier: GPL-3.0-or-later
"""Show the progress of a run: a bar for each rack on a terminal, lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from .report_document import Place

_OTHER = "other machines"
_SLOWEST = 5


class Screen(Protocol):
    """What prints a line: Ansible's display."""

    def display(self, msg: str) -> None:
        """Print a line."""


class Progress(ABC):
    """What an operator sees while a run goes on."""

    @abstractmethod
    def play(self, name: str) -> None:
        """A play begins."""

    @abstractmethod
    def result(self, host: str, kind: str, changed: bool) -> None:
        """A task ended on a host; `kind` is ok, failed, unreachable or skipped."""

    @abstractmethod
    def end(self, report: Mapping[str, Any]) -> None:
        """The run ends."""


class Nothing(Progress):
    """Show nothing."""

    def play(self, name: str) -> None:
        """Show nothing."""

    def result(self, host: str, kind: str, changed: bool) -> None:
        """Show nothing."""

    def end(self, report: Mapping[str, Any]) -> None:
        """Show nothing."""


class Lines(Progress):
    """Print a line for each play that had results: hosts, changes and failures so far."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._name, self._begun = screen, "", time.monotonic()
        self._hosts: dict[str, str] = {}

    def play(self, name: str) -> None:
        """Print the play before this one."""
        self._flush()
        self._name, self._begun = name, time.monotonic()

    def result(self, host: str, kind: str, changed: bool) -> None:
        """Count a host by the worst that happened on it."""
        word = "changed" if changed and kind == "ok" else kind
        ranks = ("skipped", "ok", "changed", "failed", "unreachable")
        if ranks.index(word) >= ranks.index(self._hosts.get(host, "skipped")):
            self._hosts[host] = word

    def end(self, report: Mapping[str, Any]) -> None:
        """Print the last play, and the slowest hosts."""
        self._flush()
        slow = sorted(report["nodes"].items(), key=lambda one: -one[1]["seconds"])[:_SLOWEST]
        if len(report["nodes"]) > _SLOWEST:
            self._screen.display("slowest: " + ", ".join(f"{name} {one['seconds']:g} s" for name, one in slow))

    def _flush(self) -> None:
        if self._hosts:
            counts: dict[str, int] = {}
            for word in self._hosts.values():
                counts[word] = counts.get(word, 0) + 1
            shown = ", ".join(f"{number} {word}" for word, number in counts.items())
            self._screen.display(f"{self._name}: {shown} ({time.monotonic() - self._begun:.0f} s)")
        self._hosts = {}


def progress_of(wish: str, places: Mapping[str, Place], screen: Screen) -> Progress:
    """Return what shows the progress: as the option `progress` says, and what this machine can."""
    if wish == "off":
        return Nothing()
    terminal = sys.stdout.isatty() and not os.environ.get("CI")
    if wish == "bars" or (wish == "auto" and terminal):
        try:
            from .progress_bars import Bars
        except ImportError:  # rich is not there
            return Lines(screen)
        return Bars(places)
    return Lines(screen)
