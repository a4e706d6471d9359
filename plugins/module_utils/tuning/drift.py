# SPDX-License-Identifier: GPL-3.0-or-later
"""A setting that is not as wanted, as a row of a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Drift:
    """What it is about, what was wanted, what was found, what to do, and whether that takes a reboot. All for people."""

    setting: str
    wanted: str
    found: str
    fix: str
    reboot: bool = False
