# SPDX-License-Identifier: GPL-3.0-or-later
"""P3 and P5 of a fabric that a list of cables states: NICs without a cable, and a kind that the cables do not have."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import PlanProblem
from ..core.fabric_shape import DRAGONFLY, RAIL_ONLY, shape_of
from .plan_index import View, plan_problem


def cables(view: View) -> Iterator[PlanProblem]:
    """P3: every NIC of the cluster file has a cable in the list."""
    if names := view.plan.uncabled:
        text = f"the list has no cable of {len(names)} NICs, so nothing is planned for them: {few(names)}"
        yield plan_problem("P3", "fabric.cables", text)


def kind(view: View) -> Iterator[PlanProblem]:
    """P5: fabric.kind is the shape of the cables, as far as routes and Slurm depend on it."""
    plan = view.plan
    if not plan.listed:
        return
    found = shape_of(plan).kind
    for one in (DRAGONFLY, RAIL_ONLY):
        if found and (found == one) != (plan.kind == one):
            yield plan_problem("P5", "fabric.kind", f"is {plan.kind}, and the cables of the list make it {found}")
            return
