# SPDX-License-Identifier: GPL-3.0-or-later
"""P3 and P5 of a fabric that a list of cables states: NICs without a cable, switches with one, and a kind that the cables do not have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, few

from ..core.fabric_model import PlanProblem
from ..core.fabric_shape import DRAGONFLY, RAIL_ONLY, shape_of
from .plan_index import View, plan_problem


def cables(view: View) -> Iterator[PlanProblem]:
    """P3: every NIC of the cluster file has a cable in the list."""
    if names := view.plan.uncabled:
        text = f"the list has no cable of {len(names)} NICs, so nothing is planned for them: {few(names)}"
        yield plan_problem("P3", "fabric.cables", text)


def lone_switches(view: View) -> Iterator[PlanProblem]:
    """P3: a switch has more than one cable. A wrong name in one row makes a switch with one cable."""
    plan = view.plan
    if not plan.listed:
        return
    count = Counter(name for link in plan.links for name, _port in link.ends if name in plan.switches)
    others = [name for name, cables in count.items() if cables > 1]
    for name in [name for name, cables in count.items() if cables == 1]:
        text = "the list has one cable of this switch, which joins nothing: correct a wrong name, or add its cables"
        text += did_you_mean(name, others, lead=". Did")
        yield plan_problem("P3", plan.where(name), text)


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
