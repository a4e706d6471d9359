# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the log of the running OpenSM: its state, the routing engine in effect, and errors."""

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
# Numbers of osm_sa_*.c: a client requested a path or group that it cannot have, as hosts of two partitions do.
_ASKED = re.compile(r"ERR (14|18|1A|1B|1D|1F|21|24|26|28|2A|43|44|45|46|4A|4C|53)")
_TIME = re.compile(r"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \d+ \[")
_DROPPED = "retrying with default config"
_REFUSED = re.compile(r"PARSE ERROR: (.*)")
_SWEPT = ("SUBNET UP", "Errors during initialization")


@dataclass
class LogSummary:
    """Hold the summary of a log. `engine` is "" if the log does not reach back to the last routing, `state` if not to the start."""

    state: str = ""
    engine: str = ""
    # True if the last sweep ended without an error.
    up: bool = False
    # Why OpenSM ignored the whole partitions.conf in its last sweep; "" if it did not.
    partitions: str = ""
    # ERR number -> its count since the SM entered its state.
    errors: dict[str, int] = field(default_factory=dict)
    # The last of these errors.
    last: str = ""


# Substrings of the lines that matter. All other lines are skipped as bytes: the log of a large fabric may have gigabytes.
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
    """Return the summary of the OpenSM that wrote the log's end; errors count since it entered its state, and `within` a time."""
    return scan([text.encode()], now, within)


def scan(blocks: Iterable[bytes], now: datetime, within: timedelta) -> LogSummary:
    """Return the result of `read` for blocks of whole lines, without keeping the text."""
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
    """Collect the messages about partitions.conf in one sweep."""

    dropped: bool = False
    reason: str = ""


class _LogReader:
    def __init__(self, now: datetime, within: timedelta) -> None:
        self.now, self.within = now, within
        self._begin()

    def _begin(self) -> None:
        self.found = LogSummary()
        # The last complete sweep, and the lines after it.
        self.sweeps = (_Sweep(), _Sweep())
        self.last = ""

    def take(self, line: str) -> None:
        """Read the next line; an empty line matters only after an error."""
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
        """Return the summary after all lines."""
        if any(sweep.dropped for sweep in self.sweeps):
            reasons = [sweep.reason for sweep in self.sweeps if sweep.reason]
            self.found.partitions = reasons[0] if reasons else "no reason logged"
        return self.found


def _poll(line: str, after: str) -> bool:
    """Return whether only another SM did not answer, because it was restarting or has stopped; that SM is read elsewhere.

    An SM polls the master (SMInfo), and one of a higher priority tells it so by a trap.
    """
    if "(SMInfo)" in line or ("ERR 5411" in line and "Attr 0x20" in after):
        return True
    is_trap = "SubnTrap(Notice)" in line or ("ERR 5410" in line and "Method 0x5, Attr 0x2," in after)
    return is_trap and "(IB_TIMEOUT)" in line


def _recent(line: str, now: datetime, within: timedelta) -> bool:
    """Return whether a line is recent; the log has no years, so a time in the future belongs to last year."""
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
