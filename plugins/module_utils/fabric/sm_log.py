# SPDX-License-Identifier: GPL-3.0-or-later
"""What OpenSM's log tells of the OpenSM that runs: its state, the routing engine in effect, and what has gone wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
class Said:
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


def read(text: str, now: datetime, within: timedelta) -> Said:
    """Return what a log tells of the OpenSM that wrote its end; errors count since it got its state, `within` some time."""
    lines = text.split("\n")
    lines = lines[_last(lines, _START) :]
    found = Said()
    begun = 0
    for number, line in enumerate(lines):
        if match := _STATE.search(line):
            found.state, begun = match[1], number
        elif match := _ENGINE.search(line):
            found.engine = match[1]
    sweeps = [number for number, line in enumerate(lines) if any(word in line for word in _SWEPT)]
    found.up = bool(sweeps) and _SWEPT[0] in lines[sweeps[-1]]
    found.partitions = _dropped(lines[sweeps[-2] :] if len(sweeps) > 1 else lines)
    for line, after in zip(lines[begun:], [*lines[begun + 1 :], ""]):
        match = _ERR.search(line)
        if match and not _ASKED.match(match[1]) and not _poll(line, after) and _recent(line, now, within):
            found.errors[match[1]] = found.errors.get(match[1], 0) + 1
            found.last = match[0].strip()
    return found


def _poll(line: str, after: str) -> bool:
    """Tell whether an SM only was asked for its state in vain: it was being started again, or is gone, which it is better asked itself."""
    return "(SMInfo)" in line or ("ERR 5411" in line and "Attr 0x20" in after)


def _last(lines: Sequence[str], sign: re.Pattern[str]) -> int:
    return max((number for number, line in enumerate(lines) if sign.search(line)), default=0)


def _dropped(lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if _DROPPED not in text:
        return ""
    reason = _REFUSED.search(text)
    return reason[1].strip() if reason else "it says not why"


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
