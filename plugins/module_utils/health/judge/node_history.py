# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the samples of a node that its judgement needs, in a bounded size, and the findings that stay until a reset or reboot.

A sample belongs to a quantity, a device and a group of sources, so that two sources of one counter do not mix. After each judgement the
agent calls `record`, and writes `save()` to its file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..facts.health_finding import CLASSES
from ..facts.node_facts import NodeFacts, Reading
from .reading_series import Run, Sample, Series, thinned
from .sources import device_key, group

VERSION = 1
MOST_RUNS, MOST_SERIES, MOST_BOOTS, MOST_LATCHES = 32, 1200, 16, 256
_LONGEST_TEXT = 80
_FORGET_AFTER = 48 * 3600
Key = tuple[str, str, str]


class HistoryError(ValueError):
    """Saved data that is not a history. Start with an empty history and report it: findings that must stay are lost."""


@dataclass(frozen=True)
class Latch:
    """Hold a critical finding that stays after its reading is good again, until the event that `clears_by` of its row names.

    `value`: the reading at that time, None for a word. `released`: the event has happened; the first clean cycle removes the latch.
    """

    check: str
    device: str
    health_class: str
    found: str
    sources: tuple[str, ...]
    boot: str
    uptime: float
    value: float | None = None
    released: bool = False


class NodeHistory:
    """Hold runs of samples by quantity, device and group of sources; `latches` are the findings that stay."""

    def __init__(self) -> None:
        """Start without samples."""
        self.latches: tuple[Latch, ...] = ()
        self._boots: dict[str, tuple[int, float]] = {}
        self._series: dict[Key, list[Run]] = {}

    def series(self, reading: Reading, facts: NodeFacts) -> Series:
        """Return the series of a reading that has a value, with its sample last, whether or not `record` was called for these facts."""
        boot = self._number(facts.boot)
        runs, value = self._series.get(_key(reading), []), _sample(reading.value)
        if runs and runs[-1].boot == boot and round(facts.uptime, 1) <= runs[-1].last and value != runs[-1].value:
            runs = [*runs, Run(boot, runs[-1].last, runs[-1].last, value, 1)]
        ended = {number: facts.time - start for number, start in self._boots.values() if number != boot}
        return Series(tuple(_extended(runs, boot, facts.uptime, value)), facts.uptime, ended)

    def record(self, facts: NodeFacts, latches: Iterable[Latch] | None = None) -> None:
        """Add the samples of one cycle, and replace the latches by the judgement's latches. A reading without a value adds no sample."""
        boot = self._number(facts.boot)
        self._boots[facts.boot] = (boot, facts.time - facts.uptime)
        for reading in facts.readings:
            if is_sample(reading.value):
                key = _key(reading)
                runs = _extended(self._series.pop(key, []), boot, facts.uptime, _sample(reading.value))
                self._series[key] = thinned(runs, MOST_RUNS)
        if latches is not None:
            self.latches = tuple(sorted(latches, key=lambda one: CLASSES.index(one.health_class)))[:MOST_LATCHES]
        self._drop(facts, boot)

    def forget(self, device: str) -> None:
        """Remove samples and latches of a device: a person replaced or repaired it. An empty name removes the node's own."""
        wanted = device_key(device)
        self._series = {key: runs for key, runs in self._series.items() if key[1] != wanted}
        self.latches = tuple(one for one in self.latches if device_key(one.device) != wanted)

    def save(self) -> dict[str, Any]:
        """Return the history as plain data for a JSON file."""
        return {
            "version": VERSION,
            "boots": [[boot, number, round(start, 1)] for boot, (number, start) in self._boots.items()],
            "series": [[*key, [list(run) for run in runs]] for key, runs in self._series.items()],
            "latches": [asdict(one) for one in self.latches],
        }

    @classmethod
    def load(cls, data: Any) -> NodeHistory:
        """Return a history from plain data. HistoryError: the data is damaged or of another version."""
        history = cls()
        try:
            if data["version"] != VERSION:
                raise HistoryError(f"version {data['version']!r} of the history; expected {VERSION}")
            for boot, number, start in data["boots"]:
                history._boots[str(boot)] = (int(number), _finite(start))
            for quantity, device, source, runs in data["series"]:
                history._series[(str(quantity), str(device), str(source))] = _runs(runs)
            history.latches = tuple(_latch(one) for one in data["latches"])
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise HistoryError(f"the history is damaged: {error}") from error
        return history

    def _number(self, boot: str) -> int:
        known = self._boots.get(boot)
        return known[0] if known else 1 + max((number for number, _start in self._boots.values()), default=-1)

    def _drop(self, facts: NodeFacts, boot: int) -> None:
        """Remove old boots, and series that no cycle of the last two days extended; the series are in the order of their last sample."""
        kept = dict(sorted(self._boots.items(), key=lambda item: item[1][0])[-MOST_BOOTS:])
        oldest = min(number for number, _start in kept.values())
        self._boots = kept
        starts = dict(kept.values())
        fresh = {}
        for key, runs in self._series.items():
            recent = [run for run in runs if run.boot >= oldest]
            if not recent:
                continue
            last = recent[-1]
            age = facts.uptime - last.last if last.boot == boot else facts.time - starts[last.boot] - last.last
            # A clock that jumps makes samples of other boots look old: they stay until this boot is two days old as well.
            if age < _FORGET_AFTER or facts.uptime < _FORGET_AFTER:
                fresh[key] = recent
        self._series = dict(list(fresh.items())[-MOST_SERIES:])


def is_sample(value: object) -> bool:
    """Return whether a value can be judged: a finite number or a text."""
    return isinstance(value, str) or (isinstance(value, (int, float)) and math.isfinite(value))


def _key(reading: Reading) -> Key:
    return reading.quantity, device_key(reading.device), group(reading.source)


def _sample(value: object) -> Sample:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, (int, float)) and math.isfinite(value):
        return value + 0 if isinstance(value, int) else value
    raise ValueError(f"{value!r} is not a sample")


def _extended(runs: Sequence[Run], boot: int, uptime: float, value: Sample) -> list[Run]:
    """Return the runs with one more sample. A second call for the same moment changes nothing."""
    uptime = round(uptime, 1)
    last = runs[-1] if runs else None
    if last is None or last.boot != boot:
        return [*runs, Run(boot, uptime, uptime, value, 1)]
    if uptime <= last.last:
        return list(runs)
    if value == last.value:
        return [*runs[:-1], last._replace(last=uptime, samples=last.samples + 1)]
    return [*runs, Run(boot, uptime, uptime, value, 1)]


def _runs(rows: Sequence[Sequence[Any]]) -> list[Run]:
    runs = []
    for boot, first, last, value, count in rows[-MOST_RUNS:]:
        if not is_sample(value) or not isinstance(count, int) or count < 1:
            raise HistoryError(f"run {[boot, first, last, value, count]!r} is not valid")
        runs.append(Run(int(boot), _finite(first), _finite(last), value, count))
    if not runs:
        raise HistoryError("a series without a run")
    return runs


def _latch(row: Mapping[str, Any]) -> Latch:
    known = {field.name for field in fields(Latch)}
    values = {key: value for key, value in row.items() if key in known}
    latch = Latch(**{**values, "sources": tuple(str(one) for one in values["sources"])})
    texts = (latch.check, latch.device, latch.found, latch.boot)
    if latch.health_class not in CLASSES or not all(isinstance(one, str) for one in texts):
        raise HistoryError(f"latch {dict(row)!r} is not valid")
    _finite(latch.uptime)
    if latch.value is not None:
        _finite(latch.value)
    return latch


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise HistoryError(f"{value!r} is not a finite number")
    return number
