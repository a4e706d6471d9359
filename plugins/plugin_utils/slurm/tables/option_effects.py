# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the table of what a changed option does to running jobs (option_effects.json).

The table has a row for each option that was seen to hurt, on the release in `seen`; an option without a row was not seen to. The table is
read on the control node: module_utils/slurm is where options.json is, and a node gets the rows that concern it as arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

# A change ends running jobs, and no line kept in a file can prevent it: refused while jobs run.
ENDS_JOBS = "ends-jobs"
# A change takes a restart of daemons; running jobs go on.
RESTART = "restart"
EFFECTS = (ENDS_JOBS, RESTART)
_OPTIONAL = {"below", "lowered"}


class EffectsError(ValueError):
    """A table that breaks its own rules."""


@dataclass(frozen=True)
class Effect:
    """Effect of a change of one option: `kind` and `option` as in options.json, the release it was seen on, and how it was seen.

    With `below`, only a change to a number from 1 to `below` - 1 has the effect; with `lowered`, only one to a lower number.
    """

    kind: str
    option: str
    effect: str
    seen: str
    evidence: str
    below: int = 0
    lowered: bool = False


@cache
def effects() -> tuple[Effect, ...]:
    """Return all rows of the table."""
    rows = json.loads(Path(__file__).with_name("option_effects.json").read_text(encoding="utf-8"))
    return tuple(parse(rows))


def parse(rows: Iterable[Mapping[str, Any]]) -> list[Effect]:
    """Return the rows as objects; raise EffectsError with every row that is not valid."""
    names = {field.name for field in fields(Effect)} - _OPTIONAL
    found: dict[tuple[str, str], Effect] = {}
    wrong = []
    for number, row in enumerate(rows, 1):
        place = f"row {number} ({row.get('option', 'no option')})"
        if set(row) - _OPTIONAL != names or not all(row.values()):
            wrong.append(
                f"{place}: fields {', '.join(sorted(row))}; each of {', '.join(sorted(names))} must have a value"
            )
            continue
        one = Effect(**row)
        if one.effect not in EFFECTS:
            wrong.append(f"{place}: effect {one.effect!r}; allowed: {', '.join(EFFECTS)}")
        if (one.kind, one.option.lower()) in found:
            wrong.append(f"{place}: a row for this option exists; keep one")
        found[one.kind, one.option.lower()] = one
    if wrong:
        raise EffectsError("\n".join(wrong))
    return list(found.values())


def ending_jobs(kind: str) -> list[Effect]:
    """Return the rows of a kind whose change ends running jobs."""
    return [one for one in effects() if (one.kind, one.effect) == (kind, ENDS_JOBS)]
