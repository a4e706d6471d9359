# SPDX-License-Identifier: GPL-3.0-or-later
"""Bars of racks on a terminal, by the library rich."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from .progress import DRAINED, RANKS, WAITING, Progress, time_left
from .report_document import Place

try:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text
except ImportError:
    HAS_RICH = False
else:
    HAS_RICH = True

_OTHER = "other machines"
_WIDTH = 40
_COLOURS = {
    "unreachable": "magenta",
    "failed": "red",
    WAITING: "yellow",
    DRAINED: "cyan",
    "changed": "blue",
    "ok": "green",
    RANKS[0]: "bright_black",
}


class Bars(Progress):
    """A line for each rack: its hosts by what they are now; above them the play, and the time."""

    def __init__(self, places: Mapping[str, Place], console: Console | None = None) -> None:
        super().__init__()
        self._racks: dict[str, list[str]] = {}
        for host, place in places.items():
            self._racks.setdefault(place.rack or _OTHER, []).append(host)
        self._known = set(places)
        self._name, self._begun = "", time.monotonic()
        self._live = Live(get_renderable=self.drawn, console=console or Console(), refresh_per_second=4, transient=True)
        self._live.start()

    def play(self, name: str) -> None:
        """Show the name of the play."""
        self._name = name

    def result(self, host: str, kind: str, changed: bool) -> None:
        """Colour a host; a host in no rack is among the other machines."""
        super().result(host, kind, changed)
        if host not in self._known:
            self._known.add(host)
            self._racks.setdefault(_OTHER, []).append(host)

    def end(self, report: Mapping[str, Any]) -> None:
        """Take the bars off the terminal: the table follows."""
        del report
        self._live.stop()

    def drawn(self) -> Table:
        """Return the bars."""
        seconds = time.monotonic() - self._begun
        table = Table.grid(padding=(0, 1))
        table.add_row(
            Text(f"{self._name}, {seconds:.0f} s{time_left(self.rolled, self.to_roll, seconds)}", style="bold")
        )
        for rack, hosts in self._racks.items():
            words = [self.hosts.word(host) for host in hosts]
            counts = {word: words.count(word) for word in _COLOURS if word in words}
            cells = Text()
            for word, number in counts.items():
                cells.append("█" * _cells(number, len(hosts)), style=_COLOURS[word])
            table.add_row(
                Text(f"{rack:>14}"), cells, Text(", ".join(f"{number} {word}" for word, number in counts.items()))
            )
        return table


def _cells(share: int, total: int) -> int:
    """Return the cells of a share of a bar, at least one."""
    return max(1, round(_WIDTH * share / total))
