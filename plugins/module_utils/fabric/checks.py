# SPDX-License-Identifier: GPL-3.0-or-later
"""The invariants of a fabric, P1 to P12: all that is wrong with a plan and with what is written of it, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import rules_cables, rules_files, rules_shape
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan, Problem
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.view import Beside, View

Rule = Callable[[View], Iterable[Problem]]

RULES: dict[str, tuple[str, tuple[Rule, ...]]] = {
    "P1": ("every port has one cable, and both ends of it exist", (rules_cables.ends, rules_cables.cages)),
    "P2": ("names and GUIDs are unique and can be read", (rules_cables.names, rules_cables.guids)),
    "P3": (
        "there are as many cables as the shape needs, long enough",
        (rules_cables.counts, rules_cables.lengths, rules_cables.parts),
    ),
    "P4": ("no switch is oversubscribed, and cables are even", (rules_cables.oversubscription, rules_cables.pairs)),
    "P5": ("a tree is a tree, and planes are apart", (rules_shape.tiers, rules_shape.planes, rules_shape.roots)),
    "P6": ("HCAs are on the leaves of their rails", (rules_shape.rails, rules_shape.all_rails)),
    "P7": ("the list of roots is the whole top tier", (rules_files.root_file,)),
    "P8": ("lists of HCAs are whole, and leaf by leaf", (rules_files.lists, rules_files.order_file)),
    "P9": (
        "a dragonfly is joined evenly, and routed without loops",
        (rules_shape.groups, rules_shape.between_groups, rules_shape.engine),
    ),
    "P10": ("partitions give every port its P_Keys", (rules_files.partition_file,)),
    "P11": ("Slurm's topology has each node once", (rules_files.slurm_leaves, rules_files.slurm_roots)),
    "P12": ("NVLink domains are whole racks, in order", (rules_files.domains, rules_files.block_order)),
}
_NOTHING = Beside()


# Rules that hold, or not, whatever cables there are between switches: of a plan that could not be finished.
WITHOUT_CABLES = ("P2", "P6", "P12")
# Rules that look at what is beside a plan alone.
OF_FILES = ("P7", "P8", "P10", "P11", "P12")


def check(plan: Plan, beside: Beside = _NOTHING, names: Iterable[str] = tuple(RULES)) -> list[Problem]:
    """Return all problems, errors before warnings and else in the order of the rules; [] for a plan that holds.

    `names` are the rules that are looked at, such as `OF_FILES` where the others have been before.
    """
    names = tuple(names)
    view = View(plan, beside, counted=not set(names) <= set(OF_FILES))
    return sorted(_found(view, names), key=lambda one: one.severity != "error")


def _found(view: View, names: Iterable[str]) -> Iterator[Problem]:
    for name in names:
        for rule in RULES[name][1]:
            yield from rule(view)
