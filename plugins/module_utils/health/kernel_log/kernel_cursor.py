# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's log from a cursor, so that a restart of the agent reads each record once and knows which records it lost.

The cursor is the boot id and the number of the last record that was read. The agent saves it with the events that it still needs, in one
file and in one step: after SIGKILL at any moment, the file has the old state or the new one. Records after the cursor are read again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...common.files import atomic_write
from ..facts.node_facts import KernelEvent
from .kernel_events import event_of, from_json, gap, to_json
from .kernel_records import KernelRecord, parse, sequence_of, split
from .record_source import RecordSource

VERSION = 1
MOST_RECORDS = 5000
MOST_SECONDS = 1.0
NEVER = -1
"""Sequence number before the first record of a boot."""
START, JUMP, OVERRUN, MALFORMED, NO_CURSOR = "start", "jump", "overrun", "malformed", "no cursor"
"""Reasons of a gap. start: records before the first read of this boot were overwritten. no cursor: the saved state is unknown."""
_MOST_OVERRUNS = 16


@dataclass(frozen=True)
class LogState:
    """Hold the cursor and the events that later judgements need. `boot_time`: seconds since 1970 at which the kernel started, 0 if unknown.

    `lost`: the saved state could not be read, so it is not known which events were read before.
    """

    boot: str
    sequence: int = NEVER
    boot_time: float = 0.0
    events: tuple[KernelEvent, ...] = ()
    lost: bool = False


@dataclass(frozen=True)
class Batch:
    """Hold one read: `events` include gaps. `more`: a limit ended the read, and the source has further records."""

    events: tuple[KernelEvent, ...]
    records: int
    more: bool


def load(path: Path, boot: str) -> LogState:
    """Return the saved state for a boot. After another boot, reading begins at its first record, and older events have their boot and time.

    A file that is missing, torn or of another version is never an error.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return LogState(boot)
    except (OSError, ValueError, RecursionError):
        return LogState(boot, lost=True)
    return from_data(data, boot)


def from_data(data: Any, boot: str) -> LogState:
    """Return the state for a boot from plain data; its `lost` is true if the data is malformed or of another version."""
    try:
        if data["version"] != VERSION or not isinstance(data["boot"], str):
            return LogState(boot, lost=True)
        events = tuple(from_json(row) for row in data["events"])
        state = LogState(data["boot"], int(data["sequence"]), float(data["boot_time"]), events)
        if state.sequence < NEVER:
            return LogState(boot, lost=True)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return LogState(boot, lost=True)
    return (
        state
        if state.boot == boot
        else LogState(boot, events=tuple(_of_another_boot(event, state) for event in state.events))
    )


def to_data(state: LogState) -> dict[str, Any]:
    """Return a state as plain data for a JSON file."""
    return {
        "version": VERSION,
        "boot": state.boot,
        "sequence": state.sequence,
        "boot_time": state.boot_time,
        "events": [to_json(event) for event in state.events],
    }


def save(path: Path, state: LogState) -> None:
    """Save a state in one step. OSError, such as a full disk: the old file is as it was."""
    atomic_write(path, json.dumps(to_data(state), separators=(",", ":")) + "\n", mode=0o600)


class KernelLog:
    """Read events from a source after a cursor. `sequence` is the number of the last record that was read."""

    def __init__(
        self,
        source: RecordSource,
        sequence: int = NEVER,
        *,
        lost: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read `source` after the record `sequence`. `lost`: of a LogState. `clock` returns seconds since 1970."""
        self.source = source
        self.sequence = self._start = sequence
        self._lost = lost
        self._monotonic, self._clock = monotonic, clock
        self._overrun = False
        self._skipped = NEVER
        self._pending: Iterator[bytes] = iter(())

    def read(self, most: int = MOST_RECORDS, seconds: float = MOST_SECONDS) -> Batch:
        """Return the events of the next records: at most `most` records and `seconds` of time. OSError: the source cannot be read."""
        events: list[KernelEvent] = []
        end = self._monotonic() + seconds
        for count in range(most):
            chunk = self._next()
            if chunk is None:
                return Batch((*events, *self._end()), count, more=False)
            events += self._events(chunk)
            if self._monotonic() > end:
                return Batch(tuple(events), count + 1, more=True)
        return Batch(tuple(events), most, more=True)

    def state(self, boot: str, boot_time: float, events: tuple[KernelEvent, ...]) -> LogState:
        """Return what the agent saves after it has judged the events of a read."""
        return LogState(boot, self.sequence, boot_time, events)

    def _next(self) -> bytes | None:
        """Return the next chunk, None at the end for now."""
        for chunk in self._pending:
            return chunk
        for _ in range(_MOST_OVERRUNS):
            try:
                data = self.source.read()
            except BrokenPipeError:
                self._overrun = True
                continue
            if not data:
                break
            self._pending = split(data)
            for chunk in self._pending:
                return chunk
        return None

    def _events(self, chunk: bytes) -> Iterator[KernelEvent]:
        number = sequence_of(chunk)
        if number is not None and number <= self._start:
            self._skipped = number
            return
        if chunk.startswith(b" "):
            # A property of a record whose lines a file had in two blocks.
            return
        record = parse(chunk)
        if record is None:
            yield self._gap(MALFORMED, self.sequence, 0.0, 1)
            if number == self.sequence + 1:
                self.sequence = number
            return
        if record.sequence <= self.sequence:
            # The number before was malformed, or a file was written again.
            yield self._gap(MALFORMED, record.sequence, record.uptime, 0)
        else:
            yield from self._lost_before(record)
        self.sequence = record.sequence
        event = event_of(record)
        if event is not None:
            yield event

    def _lost_before(self, record: KernelRecord) -> Iterator[KernelEvent]:
        """Yield the gap before a record, if records before it are missing."""
        overrun, lost = self._overrun, self._lost
        self._overrun = self._lost = False
        count = record.sequence - self.sequence - 1
        if lost:
            yield self._gap(NO_CURSOR, record.sequence, record.uptime, count)
        elif count:
            reason = OVERRUN if overrun else START if self.sequence == NEVER else JUMP
            yield self._gap(reason, record.sequence, record.uptime, count)

    def _end(self) -> Iterator[KernelEvent]:
        """Yield a gap if the log ends before the cursor, which is then of another log; later records are read."""
        if self.sequence == self._start and NEVER < self._skipped < self._start:
            self.sequence = self._start = self._skipped
            yield self._gap(NO_CURSOR, self._skipped, 0.0, 0)

    def _gap(self, reason: str, sequence: int, uptime: float, count: int) -> KernelEvent:
        return gap(sequence, uptime, reason, self.sequence + 1, count, self._clock())


def _of_another_boot(event: KernelEvent, state: LogState) -> KernelEvent:
    """Return an event with its boot and its time, which its uptime no longer gives."""
    if "boot" in event.details:
        return event
    times = {"time": f"{state.boot_time + event.uptime:.0f}"} if state.boot_time else {}
    return replace(event, details={**event.details, "boot": state.boot, **times})
