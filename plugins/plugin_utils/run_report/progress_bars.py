# SPDX-License-Identifier: GPL-3.0-or-later
"""Bars of racks on a terminal, by the library rich."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .progress import Progress
from .report_document import Place

_OTHER = "other machines"
_WIDTH = 40
_RANKS = ("waits", "ok", "changed", "failed", "unreachable")
_COLOURS = {"waits": "bright_black", "ok": "green", "changed": "blue", "failed": "red", "unreachable": "magenta"}


class Bars(Progress):
    """A line for each rack: its hosts by the worst that happened on them; the play, and the time since its beginning."""

    def __init__(self, places: Mapping[str, Place], console: Console | None = None) -> None:
        self._racks: dict[str, dict[str, str]] = {}
        for host, place in places.items():
            self._racks.setdefault(place.rack or _OTHER, {})[host] = "waits"
        self._rack_of = {host: rack for rack, hosts in self._racks.items() for host in hosts}
        self._name, self._begun = "", time.monotonic()
        self._live = Live(get_renderable=self.drawn, console=console or Console(), refresh_per_second=4, transient=True)
        self._live.start()

    def play(self, name: str) -> None:
        """Show the name of the play."""
        self._name, self._begun = name, time.monotonic()

    def result(self, host: str, kind: str, changed: bool) -> None:
        """Colour a host by the worst that happened on it."""
        word = "changed" if changed and kind == "ok" else "ok" if kind == "skipped" else kind
        rack = self._racks.setdefault(self._rack_of.get(host, _OTHER), {})
        if _RANKS.index(word) >= _RANKS.index(rack.get(host, "waits")):
            rack[host] = word

    def end(self, report: Mapping[str, Any]) -> None:
        """Take the bars off the terminal: the table follows."""
        del report
        self._live.stop()

    def drawn(self) -> Table:
        """Return the bars."""
        table = Table.grid(padding=(0, 1))
        table.add_row(Text(f"{self._name}, {time.monotonic() - self._begun:.0f} s", style="bold"))
        for rack, hosts in self._racks.items():
            bar = Text()
            for word in _RANKS[::-1]:
                share = sum(one == word for one in hosts.values())
                bar.append("█" * _cells(share, len(hosts)), style=_COLOURS[word])
            counts = [f"{number} {word}" for word in _RANKS[1:] if (number := sum(one == word for one in hosts.values()))]
            table.add_row(Text(f"{rack:>12}"), bar, Text(", ".join(counts)))
        return table


def _cells(share: int, total: int) -> int:
    """Return the cells of a bar; what is there has one at least."""
    return max(1, round(_WIDTH * share / total)) if share else 0
