# SPDX-License-Identifier: GPL-3.0-or-later
"""Calculate streaks, increases and shares from the samples of one quantity of one device.

Equal samples in a row are one run, so that a day of a steady value is one run. Times within a boot are seconds of uptime: a jump of the
clock does not move them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Union

Sample = Union[int, float, str]


class Run(NamedTuple):
    """Hold equal samples in a row: `boot` is the number of the boot in the history, `first` and `last` are seconds of uptime in it."""

    boot: int
    first: float
    last: float
    value: Sample
    samples: int


@dataclass(frozen=True)
class Series:
    """Hold the runs of one quantity of one device, the oldest first; the last run has the current sample.

    `uptime`: now. `ended`: number of an earlier boot -> seconds from the start of that boot to now.
    """

    runs: tuple[Run, ...]
    uptime: float
    ended: dict[int, float]

    @property
    def boot(self) -> int:
        """Return the number of the current boot."""
        return self.runs[-1].boot

    def age(self, boot: int, uptime: float) -> float:
        """Return the age of a moment in seconds. A moment of an earlier boot is at least as old as this boot, even if the clock jumped."""
        if boot == self.boot:
            return max(0.0, self.uptime - uptime)
        return max(self.uptime, self.ended.get(boot, math.inf) - uptime)

    def streak(self, is_bad: Callable[[Sample], bool]) -> int:
        """Return the number of samples in a row, up to now and in this boot, that are bad."""
        count = 0
        for run in reversed(self.runs):
            if run.boot != self.boot or not is_bad(run.value):
                break
            count += run.samples
        return count

    def increase(self, window: float, *, across_boots: bool = False, since: float = 0.0) -> tuple[float, float]:
        """Return the increase of a counter within a window of seconds, and the seconds in which it happened, at least the window.

        A smaller value is a new start and adds 0; so does the first value of a boot, unless the counter survives boots. `since`: uptime;
        increases in this boot before it do not count.
        """
        total, span = 0.0, window
        for before, after in zip(self.runs, self.runs[1:]):
            if self.age(after.boot, after.first) >= window or not (
                across_boots or before.boot == after.boot == self.boot
            ):
                continue
            if after.boot == self.boot and after.first < since:
                continue
            step = _difference(before.value, after.value)
            if step > 0:
                total += step
                span = max(span, self.age(before.boot, before.last))
        return total, span

    def increase_after(self, uptime: float, window: float) -> float:
        """Return the increase of a counter between two moments of this boot: `uptime`, and `window` seconds later."""
        total = 0.0
        for before, after in zip(self.runs, self.runs[1:]):
            if before.boot == self.boot and before.last >= uptime and after.first <= uptime + window:
                total += max(0.0, _difference(before.value, after.value))
        return total

    def active(self, window: float) -> int:
        """Return the number of samples above 0 in this boot within a window of seconds."""
        start = self.uptime - window
        return sum(
            _samples_after(run, start)
            for run in self.runs
            if run.boot == self.boot and not isinstance(run.value, str) and run.value > 0
        )

    def last_fall(self) -> float | None:
        """Return the uptime at which the value last became smaller in this boot; None if it never did."""
        for before, after in zip(reversed(self.runs[:-1]), reversed(self.runs[1:])):
            if before.boot == self.boot and _difference(before.value, after.value) < 0:
                return after.first
        return None


def thinned(runs: Sequence[Run], most: int) -> list[Run]:
    """Return runs, with every second of the older half removed if there are more than `most`: old samples are needed less exactly.

    The increase of a counter stays the same, unless a removed run was a new start.
    """
    if len(runs) <= most:
        return list(runs)
    half = len(runs) // 2
    return [*runs[:half:2], *runs[half:]]


def _difference(before: Sample, after: Sample) -> float:
    if isinstance(before, str) or isinstance(after, str):
        return 0.0
    return float(after) - float(before)


def _samples_after(run: Run, start: float) -> int:
    """Return how many samples of a run are later than `start`; the samples of a run are evenly spread."""
    if run.first > start:
        return run.samples
    if run.last <= start or run.samples < 2:
        return 0
    step = (run.last - run.first) / (run.samples - 1)
    return min(run.samples, math.ceil((run.last - start) / step)) if step > 0 else 0
