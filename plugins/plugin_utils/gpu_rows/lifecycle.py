# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a driver by the end of life of its branch, and by whether its real packages were ever installed."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

from ..gpu_stack.resolve import Request, Stack
from ..gpu_stack.stack_model import BranchEnd, StackTable
from ..gpu_stack.stack_request import Case

# So long before its end a branch is worth a notice: a fleet is drained and upgraded within a quarter.
_BEFORE = timedelta(days=92)


def last_day(row: BranchEnd) -> date:
    """Return the last day of the month in which a branch ends."""
    year, month = map(int, row.ends.split("-"))
    return date(year, month, monthrange(year, month)[1])


def end_notice(request: Request, table: StackTable, today: date) -> str:
    """Return a notice on a branch that is at its end of life, or will be within three months; "" for any other."""
    driver = Case(request, table).driver
    row = next((one for one in table.branches if driver and one.branch == driver.branch), None)
    if row is None or last_day(row) - _BEFORE > today:
        return ""
    doubt = "" if row.verified else " (not verified)"
    if last_day(row) < today:
        head = (
            f"driver branch {row.branch} is at its end of life since {_month(row)}{doubt} and gets no security updates."
        )
    else:
        head = f"driver branch {row.branch} reaches its end of life in {_month(row)}{doubt}."
    later = ", ".join(f"{one.branch} (until {_month(one)})" for one in _lasting(request, table, today))
    return f"{head} Branches that last longer here: {later or 'none'}. Source: {row.source}"


def _month(row: BranchEnd) -> str:
    return f"{last_day(row):%B %Y}"


def _lasting(request: Request, table: StackTable, today: date) -> list[BranchEnd]:
    """Return the branches of the same source whose end is known and far enough, the first to end first."""
    offered = {one.branch for one in Case(request, table).drivers}
    found = [one for one in table.branches if one.branch in offered and last_day(one) - _BEFORE > today]
    return sorted(found, key=last_day)


def untested_notice(request: Request, stack: Stack, table: StackTable) -> str:
    """Return a notice on a driver whose real packages no test and no site is recorded to have installed; "" for any other."""
    rows = (
        row
        for row in table.installed
        if (row.source, row.version) == (request.source, stack.driver) and request.os in row.systems
    )
    if any(stack.module in row.flavours for row in rows):
        return ""
    return (
        f"driver {stack.driver} of {request.source} on {request.os} with the {stack.module} kernel module was never seen installed: "
        "no test of bedplate has installed its real packages."
    )
