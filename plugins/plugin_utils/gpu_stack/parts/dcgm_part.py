# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide DCGM of a node: the values of roles/dcgm/parts."""

from __future__ import annotations

from ...parts.decision import Decision
from .. import stack_table
from .part_plan import GpuSoftware, expected, packages

PART = "dcgm"


def decide(wanted: GpuSoftware) -> Decision:
    """Return the decision: the variant that the driver needs, or its absence if the file has no DCGM, or no longer has it."""
    if not wanted.file.dcgm:
        return Decision({"dcgm_absent": {"manager": wanted.manager}})
    # Of another name, and in conflict with these: apt removes it in the same transaction, and it must not come back.
    never = wanted.stack.remove
    values = {**wanted.sources(PART, never=never), **packages(wanted, PART), "driver": wanted.stack.driver}
    service = f"{stack_table.default().dcgm.service}.service"
    return Decision({"dcgm": values}, {"dcgm": expected(wanted, PART, "dcgm", [service])})
