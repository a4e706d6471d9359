# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what the limiter remembers between ticks. Without it no cap is exceeded: caps count the nodes of Slurm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1
_LATEST = 2.0**40
"""Seconds since 1970; a report with a later time is not read, so no report damages the memory."""


@dataclass
class Memory:
    """Hold the memory; times are seconds since 1970.

    `failing`: check -> node -> since when it fails. `suspects`: check -> since when. `drains`: times of the last drains. `clean`: node of
    ours -> since when it reports no finding. `resumes`: rows of time, node and check. `held`: node -> since when. `ours`: node -> time of
    the newest report with a finding while it is drained. `overruled`: node -> time of the report that a person has overruled by a resume.
    `wronged`: node -> since when its prolog has failed for suspect checks alone.
    """

    failing: dict[str, dict[str, float]] = field(default_factory=dict)
    suspects: dict[str, float] = field(default_factory=dict)
    drains: list[float] = field(default_factory=list)
    clean: dict[str, float] = field(default_factory=dict)
    resumes: list[list[Any]] = field(default_factory=list)
    held: dict[str, float] = field(default_factory=dict)
    ours: dict[str, float] = field(default_factory=dict)
    overruled: dict[str, float] = field(default_factory=dict)
    wronged: dict[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """Return the memory as JSON."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True)

    def give_back_drain(self, time: float) -> None:
        """Forget a drain that was counted and not made."""
        if time in self.drains:
            self.drains.remove(time)

    def give_back_resume(self, time: float, node: str, before: Memory) -> None:
        """Forget a resume that was counted and not made; `before` is the memory of the tick before."""
        self.resumes = [row for row in self.resumes if row[:2] != [time, node]]
        if node in before.ours:
            self.ours[node] = before.ours[node]


def from_text(text: str) -> Memory:
    """Return the memory of a text; an empty one if it is damaged or of another version."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("version") != VERSION:
            return Memory()
        found = Memory(**data)
    except (ValueError, TypeError, KeyError, RecursionError):
        return Memory()
    return found if _is_whole(found) else Memory()


def _is_whole(memory: Memory) -> bool:
    times = [memory.suspects, memory.clean, memory.held, memory.ours, memory.overruled, memory.wronged]
    times += _values(memory.failing)
    if not all(_is_times(one) for one in times):
        return False
    rows = isinstance(memory.resumes, list) and all(_is_row(row) for row in memory.resumes)
    return rows and isinstance(memory.drains, list) and all(_is_time(one) for one in memory.drains)


def _is_row(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 3 and _is_time(row[0]) and all(isinstance(one, str) for one in row[1:])


def _is_time(found: Any) -> bool:
    # Not a number is not below either.
    return isinstance(found, (int, float)) and abs(found) < _LATEST


def _values(found: Any) -> list[Any]:
    return list(found.values()) if isinstance(found, Mapping) else [None]


def _is_times(found: Any) -> bool:
    return isinstance(found, Mapping) and all(_is_time(value) for value in found.values())
