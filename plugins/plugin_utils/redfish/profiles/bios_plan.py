# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the writes of a BIOS profile in at most two rounds, parents first, and judge what the machine has after them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ....module_utils.common.finding import Finding
from ..resources.attribute_registry import AttributeRegistry
from ..resources.attribute_rules import Forced, Values, block_of, forced, parents_of
from ..resources.bios_settings import settings_body
from ..resources.dialects import Dialect
from .bios import (
    BLOCKED,
    EQUAL,
    INVALID,
    KIND,
    PENDING,
    UNKNOWN,
    WRITABLE,
    AttributeRow,
    BiosState,
    compare,
    described,
    same,
    shown_value,
)
from .profile_files import BiosProfile

# Values that a parent sets can set further values; chains in registries are short.
_MOST_STEPS = 5


@dataclass(frozen=True)
class Patch:
    """Hold one PATCH: round 1 or 2, path and body. A reset and a read-back end a round before the next one begins."""

    round: int
    path: str
    body: Mapping[str, Any]

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes that the PATCH writes, with their values."""
        found: Mapping[str, Any] = self.body["Attributes"]
        return found


@dataclass(frozen=True)
class BiosPlan:
    """Hold the writes of a profile, at most one PATCH for each of two rounds. `left`: attributes that no round writes, with the reason.

    `refused` is the reason why nothing is written at all, "" if something may be written.
    """

    patches: tuple[Patch, ...] = ()
    left: tuple[AttributeRow, ...] = ()
    refused: str = ""


def plan(profile: BiosProfile, state: BiosState, dialect: Dialect) -> BiosPlan:
    """Return the writes that give a machine the values of its profile.

    Round 1 has what can be written now, without what depends on another attribute that changes. Round 2 has the rest, as far as it can be
    written with the values of round 1. There is no third round: what is blocked then is in `left`, with the attribute that blocks it.
    """
    if not state.path:
        return BiosPlan(refused="the BMC has no Bios resource")
    if not profile.is_for(state.version):
        desired, found = " or ".join(profile.versions), state.version or "no version"
        return BiosPlan(refused=f"the profile is for BIOS {desired}, and the machine has {found}")
    rows = {row.name: row for row in compare(profile, state)}
    left = [row for row in rows.values() if row.state in (UNKNOWN, INVALID)]
    todo = {name: row for name, row in rows.items() if row.state in WRITABLE}
    now = {**state.attributes, **state.pending}
    free = {name: row.desired for name, row in todo.items() if row.state != BLOCKED}
    ahead = {name: one for name, one in free.items() if _is_first(name, todo, state.registry)}
    first, after = _round(ahead, now, rows, left, state)
    second = {}
    settled = {*first, *(row.name for row in left)}
    for name, row in rows.items():
        if name in settled or same(described(name, state), after.get(name), row.desired):
            continue
        block = block_of(state.registry, name, after, now=False)
        if block:
            left.append(replace(row, state=BLOCKED, reason=block.reason, parents=block.parents))
        else:
            second[name] = row.desired
    second, _ = _round(second, after, rows, left, state)
    rounds = [one for one in (first, second) if one]
    return BiosPlan(
        tuple(_patch(number, one, state, dialect) for number, one in enumerate(rounds, start=1)), tuple(left)
    )


def _round(
    written: dict[str, Any], now: Values, rows: Mapping[str, AttributeRow], left: list[AttributeRow], state: BiosState
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the attributes of a round and the values after it, as the registry predicts them.

    An attribute that the registry would set to another value at once is not written: its row is added to `left`.
    """
    while True:
        after, overruled = _after(now, written, state.registry)
        if not overruled:
            return written, after
        for name, cause in overruled.items():
            left.append(replace(rows[name], state=BLOCKED, reason=cause.reason, parents=cause.parents))
        written = {name: one for name, one in written.items() if name not in overruled}


def _is_first(name: str, todo: Collection[str], registry: AttributeRegistry) -> bool:
    """Return whether an attribute can change before the others: it depends on no other change, or the dependency is mutual."""
    seen: set[str] = set()
    ahead = [one for one in parents_of(registry, name) if one in todo]
    if not ahead:
        return True
    while ahead:
        one = ahead.pop()
        if one == name:
            return True
        if one not in seen:
            seen.add(one)
            ahead += [other for other in parents_of(registry, one) if other in todo]
    return False


def _after(now: Values, written: Values, registry: AttributeRegistry) -> tuple[dict[str, Any], dict[str, Forced]]:
    """Return the values after a reset, and the written attributes that the registry sets to other values."""
    found = {**now, **written}
    for _ in range(_MOST_STEPS):
        changed = forced(registry, now, found)
        overruled = {name: one for name, one in changed.items() if name in written}
        if overruled or not changed:
            return found, overruled
        found |= {name: one.value for name, one in changed.items()}
    return found, {}


def _patch(number: int, attributes: Mapping[str, Any], state: BiosState, dialect: Dialect) -> Patch:
    return Patch(number, state.settings_path, settings_body(attributes, dialect.bios_apply_time))


def judge(written: Mapping[str, Any], state: BiosState, *, after_reset: bool) -> list[Finding]:
    """Return a finding for each written attribute that the machine did not take, with the reason of BMC or registry.

    Before the reset an attribute is taken if its value is pending or current; after the reset, if it is current. `state` is read anew.
    """
    found = []
    for name, desired in written.items():
        attribute = described(name, state)
        if same(attribute, state.attributes.get(name), desired):
            continue
        if same(attribute, state.pending.get(name), desired):
            if after_reset:
                remedy = "Wait for the BMC's job, or reset the machine once more. Read the BMC's log if it stays so."
                found.append(_not_taken(name, desired, state, "still pending after the reset", remedy))
            continue
        reason = _reason(name, state)
        remedy = "Change what blocks it, or remove the attribute from the profile. Nothing is written again by itself."
        found.append(_not_taken(name, desired, state, f"accepted but not taken: {reason}", remedy))
    return found


def _reason(name: str, state: BiosState) -> str:
    """Return why a machine did not take an attribute: the BMC's message, else the registry's block."""
    message = state.messages.get(name)
    block = block_of(state.registry, name, state.attributes, now=True)
    said = [
        one
        for one in (message, block.reason if block else "", None if message or block else state.messages.get(""))
        if one
    ]
    return "; ".join(said) or "neither the BMC nor its registry has a reason"


def _not_taken(name: str, desired: Any, state: BiosState, why: str, remedy: str) -> Finding:
    return Finding(
        KIND,
        f"BIOS attribute {name}",
        shown_value(desired),
        f"{shown_value(state.attributes.get(name))} ({why})",
        remedy,
    )


def is_done(rows: Collection[AttributeRow]) -> bool:
    """Return whether a comparison has nothing left to write: each attribute is equal, or waits for a reset."""
    return all(row.state in (EQUAL, PENDING) for row in rows)
