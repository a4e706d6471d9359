# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the class of one Xid or SXid by its row, its words and the events beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..facts.health_finding import NOTE, worst
from ..facts.node_facts import KernelEvent
from ..tables.xid_rows import FOLLOWED, RECOVERY_ACTION, REGISTERS, WORD, RegisterRow, SxidRow, XidRow
from ..tables.xid_tables import xids

XID, SXID = "xid", "sxid"
FATAL, NONFATAL = "Fatal", "Nonfatal"
ACCOMPANIED_SECONDS = 60
"""Seconds within which another Xid or SXid accompanies an event."""
_CLEANUP = 45


@dataclass(frozen=True)
class Decision:
    """Hold the class of an event and the action. `unread`: the part of the line that decides was not read or is not complete yet."""

    health_class: str
    action: str
    unread: bool = False


def decide_xid(event: KernelEvent, row: XidRow, events: Sequence[KernelEvent], age: float) -> Decision:
    """Return the decision for a Xid; `events` are the events of the same boot, `age` is in seconds."""
    if row.rule == FOLLOWED:
        return _followed(event, row, events, age)
    if row.rule == WORD:
        return _word(event, row)
    if row.rule == RECOVERY_ACTION:
        return _recovery_action(event, row, events)
    if row.rule == REGISTERS:
        return _registers(event, row, events)
    return Decision(row.health_class, row.action)


def decide_sxid(event: KernelEvent, row: SxidRow) -> Decision:
    """Return the decision for a SXid. The word of the line decides; a line without it belongs to an event whose line was lost."""
    if not row.known:
        return Decision(NOTE, row.nonfatal_action)
    severity = event.details.get("severity", "")
    if row.kind == "always" or severity == FATAL:
        return Decision(row.fatal_class, row.fatal_action)
    return Decision(row.nonfatal_class, row.nonfatal_action, unread=not severity and row.kind == "potential")


def register_rows(event: KernelEvent) -> list[RegisterRow] | None:
    """Return the rows of the bits that are set in a Xid 74; None if a bit has no row or the line has no registers."""
    pairs = set()
    for register, text in enumerate(event.details.get("registers", "").split()):
        try:
            value = int(text, 16)
        except ValueError:
            return None
        pairs |= {(register, bit) for bit in range(32) if value >> bit & 1}
    rows = [row for row in xids().registers if row.bits & pairs]
    if not pairs or pairs - frozenset().union(*(row.bits for row in rows)):
        return None
    return rows


def _followed(event: KernelEvent, row: XidRow, events: Sequence[KernelEvent], age: float) -> Decision:
    for other in events:
        is_same = other.kind == XID and other.code in row.followed and other.device == event.device
        if is_same and abs(other.uptime - event.uptime) <= row.followed_seconds:
            return Decision(NOTE, f"Follow Xid {other.code} of the same GPU, which decides.")
    if age < row.followed_seconds:
        return Decision(NOTE, "A Xid that follows decides.", unread=True)
    return Decision(row.health_class, row.action)


def _word(event: KernelEvent, row: XidRow) -> Decision:
    severity = event.details.get("severity", "")
    if severity == FATAL:
        return Decision(row.health_class, row.action)
    if severity == NONFATAL:
        return Decision(NOTE, "The line has the word Nonfatal: the node stays in service.")
    return Decision(NOTE, "The line has no word Fatal or Nonfatal. Read the state of the GPU's links.", unread=True)


def _recovery_action(event: KernelEvent, row: XidRow, events: Sequence[KernelEvent]) -> Decision:
    """Return the action of the line; a later line of the same GPU replaces it."""
    if any(
        other.code == row.code and other.device == event.device and other.sequence > event.sequence for other in events
    ):
        return Decision(NOTE, "A later line states the recovery action of the GPU.")
    text = event.details.get("action", "")
    action = xids().actions.get(int(text)) if text.isdecimal() else None
    if action is None:
        return Decision(NOTE, "The recovery action is unknown. Read it with nvidia-smi -q.", unread=True)
    return Decision(action.health_class, action.action)


def _registers(event: KernelEvent, row: XidRow, events: Sequence[KernelEvent]) -> Decision:
    rows = register_rows(event)
    if rows is None:
        return Decision(row.health_class, row.action)
    accompanied = any(_accompanies(other, event) for other in events)
    classes = {one.kind: one.accompanied if accompanied and one.accompanied else one.health_class for one in rows}
    decisive = worst(classes.values())
    return Decision(decisive, next(one.action for one in rows if classes[one.kind] == decisive))


def _accompanies(other: KernelEvent, event: KernelEvent) -> bool:
    """Return whether another event is the cause that a secondary Xid 74 refers to: a Xid of the GPU or a SXid of the node."""
    if abs(other.uptime - event.uptime) > ACCOMPANIED_SECONDS:
        return False
    return other.kind == SXID or (
        other.kind == XID and other.device == event.device and other.code not in (event.code, _CLEANUP)
    )
