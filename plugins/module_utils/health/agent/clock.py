# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the clocks of a node. Uptime decides; the time of day may jump, and is only for reports and names."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

BOOT_ID = "proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Moment:
    """Hold one moment. `uptime`: seconds since boot, as in /proc/uptime. `time`: seconds since 1970."""

    uptime: float
    time: float


def now() -> Moment:
    """Return the current moment."""
    return Moment(uptime(), time.time())


def uptime() -> float:
    """Return seconds since boot, with the time of a suspended machine: the prolog compares them with /proc/uptime."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id(root: Path) -> str:
    """Return the id of this boot. OSError: it cannot be read."""
    return (root / BOOT_ID).read_text(encoding="ascii").strip()


def utc(seconds: float, form: str = "%Y-%m-%dT%H:%M:%SZ") -> str:
    """Return a time as text in UTC; "invalid" for a time that no calendar has.

    >>> utc(0)
    '1970-01-01T00:00:00Z'
    """
    try:
        return time.strftime(form, time.gmtime(seconds))
    except (OverflowError, OSError, ValueError):
        return "invalid"
