# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own rows of the table of GPU software, and the table with them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ..gpu_stack import stack_table
from ..gpu_stack.stack_model import BranchEnd, Break, InstalledDriver, Model, StackTable


@dataclass(frozen=True)
class SiteRows:
    """Rows that a site adds. A model or a branch replaces the row of its name; the others are added."""

    models: tuple[Model, ...] = ()
    branches: tuple[BranchEnd, ...] = ()
    installed: tuple[InstalledDriver, ...] = ()
    breaks: tuple[Break, ...] = ()


NO_ROWS = SiteRows()


@lru_cache(maxsize=16)
def table_with(rows: SiteRows) -> StackTable:
    """Return bedplate's table with a site's rows."""
    base = stack_table.default()
    if rows == NO_ROWS:
        return base
    own = {row.branch for row in rows.branches}
    return replace(
        base,
        models={**base.models, **{row.name: row for row in rows.models}},
        branches=(*(row for row in base.branches if row.branch not in own), *rows.branches),
        installed=(*base.installed, *rows.installed),
        breaks=(*base.breaks, *rows.breaks),
    )
