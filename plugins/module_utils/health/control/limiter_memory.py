# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what the limiter remembers between ticks. Without it no cap is exceeded: caps count the nodes of Slurm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


@dataclass
class Memory:
    """Hold the memory; times are seconds since 1970.

    `failing`: check -> node -> since when it fails. `suspects`: check -> since when. `drains`: times of the last drains. `clean`: node ->
    since when it reports no finding. `resumes`: rows of time, node and check. `held`: node -> since when. `ours`: node -> time of the
    report for which it is drained. `overruled`: node -> time of the report that a person has overruled by a resume.
    """

    failing: dict[str, dict[str, float]] = field(default_factory=dict)
    suspects: dict[str, float] = field(default_factory=dict)
    drains: list[float] = field(default_factory=list)
    clean: dict[str, float] = field(default_factory=dict)
    resumes: list[list[Any]] = field(default_factory=list)
    held: dict[str, float] = field(default_factory=dict)
    ours: dict[str, float] = field(default_factory=dict)
    overruled: dict[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """Return the memory as JSON."""
        return json.dumps({"version": VERSION, **asdict(self)}, separators=(",", ":"), sort_keys=True)


def from_text(text: str) -> Memory:
    """Return the memory of a text; an empty one if it is damaged or of another version."""
    try:
        data = json.loads(text)
        if not isinstance(data, dict) or data.pop("version") != VERSION:
            return Memory()
        found = Memory(**data)
    except (ValueError, TypeError, KeyError):
        return Memory()
    return found if _is_whole(found) else Memory()


def _is_whole(memory: Memory) -> bool:
    times = [memory.suspects, memory.clean, memory.held, memory.ours, memory.overruled, *_values(memory.failing)]
    if not all(_is_times(one) for one in times):
        return False
    rows = isinstance(memory.resumes, list) and all(isinstance(row, list) and len(row) == 3 for row in memory.resumes)
    return rows and isinstance(memory.drains, list) and all(isinstance(one, (int, float)) for one in memory.drains)


def _values(found: Any) -> list[Any]:
    return list(found.values()) if isinstance(found, Mapping) else [None]


def _is_times(found: Any) -> bool:
    return isinstance(found, Mapping) and all(isinstance(value, (int, float)) for value in found.values())
