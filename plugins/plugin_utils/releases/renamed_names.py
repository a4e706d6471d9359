# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of cluster-file keys and variables that a release has changed: renamed.json, with its reader."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

KINDS = ("key", "variable")
ANY = "<name>"
"""A step of a key that users choose, such as the name of a rack."""


@dataclass(frozen=True)
class RenamedName:
    """One old name, the new one, and the release that changed it."""

    kind: str
    old: str
    new: str
    since: str

    def message(self, new_is_set: bool) -> str:
        """Return what to do about the old name, where the new one may be set beside it.

        >>> RenamedName("variable", "slurm_x", "slurm_y", "0.2.0").message(new_is_set=False)
        "was renamed in 0.2.0. Write 'slurm_y'."
        """
        advice = f"Remove it: {self.new!r} is set." if new_is_set else f"Write {self.new!r}."
        return f"was renamed in {self.since}. {advice}"


@cache
def table() -> tuple[RenamedName, ...]:
    """Return all renamed names."""
    data = json.loads(Path(__file__).with_name("renamed.json").read_text(encoding="utf-8"))
    return tuple(RenamedName(**row) for row in data["renamed"])


def renamed_key(path: Sequence[str | int | None]) -> RenamedName | None:
    """Return the new name of a key of the cluster file at a path such as ("racks", "r1", "node"); None if it was not renamed.

    The number of an element of a list is no step of a key's name.
    """
    steps = [str(step) for step in path if not isinstance(step, int)]
    return next((row for row in table() if row.kind == "key" and _is_at(row.old.split("."), steps)), None)


def renamed_variables() -> dict[str, RenamedName]:
    """Return the renamed variables by their old names."""
    return {row.old: row for row in table() if row.kind == "variable"}


def _is_at(pattern: Sequence[str], steps: Sequence[str]) -> bool:
    return len(pattern) == len(steps) and all(one in (ANY, step) for one, step in zip(pattern, steps, strict=True))
