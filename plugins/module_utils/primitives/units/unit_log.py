# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the end of a unit's journal in short form: repeated lines must not hide the cause of a failure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from ...common.command import Outcome

LINES = 30
# While it stops, slurmctld can write a line for each limit of each job.
_READ = 1000
_ALIKE = 3
_MESSAGE = re.compile(r"^\S+ \S+ (?P<name>[^\s:\[]+)(?:\[\d+\])?: (?:(?P=name): )?(?P<text>.*)$")
_NUMBER = re.compile(r"\d+")


def last_lines(run: Callable[[list[str], float], Outcome], unit: str, since: float) -> str:
    """Return the end of a unit's journal since a time (seconds since 1970), or its whole end if it is empty since then."""
    # If a daemon dies in its first second, journald writes its messages only afterwards.
    run(["journalctl", "--sync"], 30.0)
    shown = ["--no-pager", "--output=short-iso", "--quiet"]
    recent = ["journalctl", f"--unit={unit}", f"--since=@{int(since)}", f"--lines={_READ}", *shown]
    lines = run(recent, 30.0).stdout.strip().splitlines()
    if not lines:
        lines = run(["journalctl", f"--unit={unit}", f"--lines={LINES}", *shown], 30.0).stdout.strip().splitlines()
    return "\n".join(shorten(lines)) or "nothing"


def shorten(lines: Sequence[str], most: int = LINES) -> list[str]:
    """Return the last lines, at most three of each kind: lines of one function, or that differ only in numbers, are of one kind."""
    seen: Counter[str] = Counter()
    kept = []
    for line in reversed(lines):
        shape = _shape(line)
        seen[shape] += 1
        if seen[shape] <= _ALIKE:
            kept.append(line)
    left_out = len(lines) - len(kept)
    note = [f"({left_out} similar lines omitted)"] if left_out else []
    return [*note, *reversed(kept[:most])]


def _shape(line: str) -> str:
    """Return the common part of similar lines: severity and function, and the text without numbers."""
    message = _MESSAGE.match(line)
    text = message["text"] if message else line
    return _NUMBER.sub("0", ":".join(text.split(":")[:2]))
