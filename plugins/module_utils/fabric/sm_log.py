# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenSM's log tells of the OpenSM that runs: its state, the routing engine in effect, and what has gone wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

MASTER, STANDBY = "MASTER", "STANDBY"
_START = re.compile(r"-> OpenSM \d")
_STATE = re.compile(r"-> Entering (\w+) state")
_ENGINE = re.compile(r"ucast_mgr_process: (\S+) tables configured on all switches")
_ERR = re.compile(r"\b(ERR \w+): (.*)")
# Numbers of osm_sa_*.c: somebody asked for a path or a group that is not to be had, as hosts of two partitions do of each other.
_ASKED = re.compile(r"ERR (14|18|1A|1B|1D|1F|21|24|26|28|2A|43|44|45|46|4A|4C|53)")
_TIME = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \d+ \[")
_DROPPED = "retrying with default config"
_REFUSED = re.compile(r"PARSE ERROR: (.*)")
_SWEPT = ("SUBNET UP", "Errors during initialization")


@dataclass
class LogSummary:
    """What a log tells. `engine` is "" where it does not go back to the last routing, `state` where it does not go back to the start."""

    state: str = ""
    engine: str = ""
    # Whether the last sweep ended without an error.
    up: bool = False
    # Why OpenSM took the whole of partitions.conf for nothing in its last sweep; "" where it did not.
    partitions: str = ""
    # ERR number -> how often it came since the SM got its state.
    errors: dict[str, int] = field(default_factory=dict)
    # The last of them.
    last: str = ""


# What a line that matters holds; the rest of a log of a large fabric, which may be gigabytes, is passed over as bytes.
_MARKS = tuple(
    word.encode()
    for word in (
        "-> OpenSM ",
        "-> Entering ",
        " tables configured",
        "ERR ",
        "Attr 0x",
        "PARSE ERROR",
        _DROPPED,
        *_SWEPT,
    )
)
STARTED = _MARKS[0]


def read(text: str, now: datetime, within: timedelta) -> LogSummary:
    """Return what a log tells of the OpenSM that wrote its end; errors count since it got its state, `within` some time."""
    return scan([text.encode()], now, within)


def scan(blocks: Iterable[bytes], now: datetime, within: timedelta) -> LogSummary:
    """Return what `read` returns of blocks of whole lines: nothing but the findings is kept of them."""
    reader = _LogReader(now, within)
    for block in blocks:
        for line in block.splitlines() if _matters(block) else [b""]:
            reader.take(line.decode(errors="replace") if line and _matters(line) else "")
    reader.take("")
    return reader.summary()


def _matters(text: bytes) -> bool:
    return any(mark in text for mark in _MARKS)


@dataclass
class _Sweep:
    """What was said of partitions.conf in a sweep."""

    dropped: bool = False
    reason: str = ""


class _LogReader:
    def __init__(self, now: datetime, within: timedelta) -> None:
        self.now, self.within = now, within
        self._begin()

    def _begin(self) -> None:
        self.found = LogSummary()
        # The sweep that has ended, and what came after it.
        self.sweeps = (_Sweep(), _Sweep())
        self.last = ""

    def take(self, line: str) -> None:
        """Read the next line; one that is empty matters only as the one after an error."""
        if self.last:
            self._error(self.last, line)
        self.last = line
        if not line:
            return
        if _START.search(line):
            self._begin()
            self.last = line
        if match := _STATE.search(line):
            self.found.state, self.found.errors, self.found.last = match[1], {}, ""
        elif match := _ENGINE.search(line):
            self.found.engine = match[1]
        self._partitions(line)

    def _partitions(self, line: str) -> None:
        now = self.sweeps[1]
        now.dropped |= _DROPPED in line
        if match := _REFUSED.search(line):
            now.reason = now.reason or match[1].strip()
        if any(word in line for word in _SWEPT):
            self.found.up = _SWEPT[0] in line
            self.sweeps = (now, _Sweep())

    def _error(self, line: str, after: str) -> None:
        match = _ERR.search(line)
        if match and not _ASKED.match(match[1]) and not _poll(line, after) and _recent(line, self.now, self.within):
            self.found.errors[match[1]] = self.found.errors.get(match[1], 0) + 1
            self.found.last = match[0].strip()

    def summary(self) -> LogSummary:
        """Return what was told, when all lines were taken."""
        if any(sweep.dropped for sweep in self.sweeps):
            reasons = [sweep.reason for sweep in self.sweeps if sweep.reason]
            self.found.partitions = reasons[0] if reasons else "it says not why"
        return self.found


def _poll(line: str, after: str) -> bool:
    """Tell whether an SM only was asked for its state in vain: it was being started again, or is gone, which it is better asked itself."""
    return "(SMInfo)" in line or ("ERR 5411" in line and "Attr 0x20" in after)


def _recent(line: str, now: datetime, within: timedelta) -> bool:
    """Tell whether a line is that new; the log has no years, so a time that is still to come is last year's."""
    match = _TIME.match(line)
    if not match:
        return True
    try:
        then = datetime.strptime(f"{now.year} {match[1]}", "%Y %b %d %H:%M:%S")
    except ValueError:
        return True
    if then > now + timedelta(days=1):
        then = then.replace(year=now.year - 1)
    return now - then <= within
