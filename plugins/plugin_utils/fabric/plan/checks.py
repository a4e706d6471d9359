# SPDX-License-Identifier: GPL-3.0-or-later
"""The invariants of a fabric, P1 to P12: all that is wrong with a plan and with Slurm's topology of it, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from ..core.fabric_model import Plan, PlanProblem
from ..topology.slurm_topology import Topology
from . import rules_cables, rules_listed, rules_partitions, rules_shape, rules_topology
from .plan_index import View

Rule = Callable[[View], Iterable[PlanProblem]]

RULES: dict[str, tuple[str, tuple[Rule, ...]]] = {
    "P1": ("every port has one cable, and both ends of it exist", (rules_cables.ends, rules_cables.cages)),
    "P2": ("names and GUIDs are unique and can be read", (rules_cables.names, rules_cables.guids)),
    "P3": (
        "there are as many cables as the shape needs",
        (rules_cables.counts, rules_listed.cables, rules_listed.lone_switches),
    ),
    "P4": ("no switch is oversubscribed, and cables are even", (rules_cables.oversubscription, rules_cables.pairs)),
    "P5": (
        "a tree is a tree, and planes are apart",
        (rules_shape.tiers, rules_shape.planes, rules_shape.roots, rules_listed.kind),
    ),
    "P6": ("HCAs are on the leaves of their rails", (rules_shape.rails, rules_shape.all_rails)),
    # P7 and P8 were checks of OpenSM's lists, which tests read now.
    "P9": (
        "a dragonfly is joined evenly",
        (rules_shape.groups, rules_shape.between_groups),
    ),
    "P10": ("partitions can be written", (rules_partitions.partitions,)),
    "P11": ("Slurm's topology has each node once", (rules_topology.slurm_leaves, rules_topology.slurm_roots)),
    "P12": (
        "NVLink domains are whole racks, or the racks with their name, in order",
        (rules_topology.domains, rules_topology.block_order),
    ),
}

# Rules that hold, or not, whatever cables there are between switches: of a plan that could not be finished.
WITHOUT_CABLES = ("P2", "P6", "P12")
# Rules on the shape that a plan should have: a list of cables states a fabric that exists, so there they warn.
OF_SHAPE = ("P3", "P4", "P5", "P6", "P9")
# Rules that look at Slurm's topology.
OF_TOPOLOGY = ("P11", "P12")


def check(plan: Plan, names: Iterable[str] = tuple(RULES)) -> list[PlanProblem]:
    """Return all problems, errors before warnings and else in the order of the rules; [] for a plan that holds.

    `names` are the rules that are looked at.
    """
    return _found(View(plan), names)


def check_topology(plan: Plan, topology: Topology, nodes: Sequence[str]) -> list[PlanProblem]:
    """Return the problems of Slurm's topology of a plan; `nodes` are the expected NodeNames of slurm.conf."""
    return _found(View(plan, topology, nodes, counted=False), OF_TOPOLOGY)


def _found(view: View, names: Iterable[str]) -> list[PlanProblem]:
    found: Iterable[PlanProblem] = chain.from_iterable(rule(view) for name in names for rule in RULES[name][1])
    if view.plan.listed:
        found = (replace(one, severity="warning") if one.rule in OF_SHAPE else one for one in found)
    return sorted(found, key=lambda one: one.severity != "error")
