# SPDX-License-Identifier: GPL-3.0-or-later
"""Define the rows of the tables of kernel events; xid_tables.py reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..facts.health_finding import NOTE

TABLE, FOLLOWED, WORD, RECOVERY_ACTION, REGISTERS, UNCOUNTED = RULES = (
    "table",
    "followed",
    "word",
    "recovery-action",
    "registers",
    "uncounted",
)
"""Which part of a Xid decides its class; xid.json explains each."""
NOT_IN_TABLE = (
    "The code is not in bedplate's table. Look it up in the vendor's catalog and send the line to the vendor's support."
)


@dataclass(frozen=True)
class Example:
    """Hold a published line of a kernel's log, and its source."""

    line: str
    source: str


@dataclass(frozen=True)
class Repeat:
    """Hold what repeated events of one GPU mean: `count` separate events within `hours`, with the same values of the details `same`."""

    check: str
    count: int
    hours: float
    same: tuple[str, ...]
    health_class: str
    action: str


@dataclass(frozen=True)
class XidRow:
    """Hold a Xid. `rule` states what decides the class; `followed`: codes that make the event a note, within `followed_seconds`.

    `is_link`: a note while the node is younger than the profile's `quiet_after_boot`. `known` false: the code has no row.
    """

    code: int
    name: str
    bucket: str
    health_class: str
    action: str
    rule: str = TABLE
    followed: tuple[int, ...] = ()
    followed_seconds: float = 0
    is_link: bool = False
    repeat: Repeat | None = None
    source: str = ""
    verified: bool = False
    examples: tuple[Example, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class SxidRow:
    """Hold a SXid with the classes and actions of lines with the word Fatal and with the word Non-fatal."""

    code: int
    name: str
    kind: str
    fatal_class: str
    nonfatal_class: str
    fatal_action: str
    nonfatal_action: str
    source: str = ""
    verified: bool = False
    examples: tuple[Example, ...] = ()
    known: bool = True


@dataclass(frozen=True)
class LineRow:
    """Hold another line of the kernel's log: `contains` is a quick test before `pattern`."""

    check: str
    kind: str
    contains: str
    pattern: re.Pattern[str]
    health_class: str
    action: str
    source: str
    verified: bool
    examples: tuple[Example, ...] = ()


@dataclass(frozen=True)
class RecoveryAction:
    """Hold a recovery action of the driver, as Xid 154 and NVML number it."""

    number: int
    name: str
    health_class: str
    action: str


@dataclass(frozen=True)
class RegisterRow:
    """Hold bits of the registers of Xid 74: pairs of register and bit, from 0.

    `accompanied` is the class beside another Xid or SXid, "" for the same class.
    """

    kind: str
    bits: frozenset[tuple[int, int]]
    health_class: str
    accompanied: str
    action: str
    repeat: Repeat | None


@dataclass(frozen=True)
class JobsRule:
    """Hold what Xids of one bucket in several jobs on one GPU mean."""

    check: str
    bucket: str
    jobs: int
    hours: float
    health_class: str
    action: str


@dataclass(frozen=True)
class XidTable:
    """Hold xid.json. Events of one GPU less than `apart_seconds` after the last of them are one event."""

    rows: Mapping[int, XidRow]
    apart_seconds: float
    jobs: JobsRule
    actions: Mapping[int, RecoveryAction]
    registers: tuple[RegisterRow, ...]

    def row(self, code: int) -> XidRow:
        """Return the row of a code, or a row that is not known."""
        return self.rows.get(code) or XidRow(code, "", "", NOTE, NOT_IN_TABLE, known=False)
