# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise the shape of a fabric by its cables: what `fabric.kind` would be, and in what it is not like the shapes that are planned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from .fabric_model import COMPUTE, Plan
from .host_tree import DisjointSets
from .node_descriptions import natural
from .switch_graph import mesh_groups

DRAGONFLY, RAIL_ONLY, RAIL_OPTIMISED = "dragonfly", "rail-only", "rail-optimised"
THREE_TIER, LEAF_SPINE = "three-tier", "leaf-spine"
# Shares of a leaf's HCAs on its rail, and of leaves with one, from which leaves are by rail.
_OF_LEAF, _LEAVES = 0.75, 0.8


@dataclass
class SwitchCables:
    """The cables of a plan, counted: between switches, and from switches to HCAs."""

    # Switch -> other switch -> cables.
    near: dict[str, Counter[str]] = field(default_factory=dict)
    # Switch -> its HCAs.
    hcas: dict[str, list[str]] = field(default_factory=dict)

    def up(self, name: str, tiers: Mapping[str, int]) -> Counter[str]:
        """Return the switches above a switch, with the number of cables to each."""
        return Counter({other: count for other, count in self.near[name].items() if tiers[other] > tiers[name]})

    def parts(self) -> list[list[str]]:
        """Return the sets of switches that cables join."""
        union = DisjointSets()
        for one, others in self.near.items():
            for other in others:
                union.join(one, other)
        return union.sets(self.near)


@dataclass(frozen=True)
class RecognisedShape:
    """A recognised shape: a value of `fabric.kind` ("" for none), what is remarkable, and the groups of a dragonfly."""

    kind: str
    traits: tuple[str, ...] = ()
    groups: tuple[tuple[str, ...], ...] = ()

    def __str__(self) -> str:
        kind = self.kind or "no shape that is known: neither a tree nor groups of a dragonfly"
        return "; ".join((kind, *self.traits))


def counted_cables(plan: Plan, planned: bool = False) -> SwitchCables:
    """Return the present cables of a plan by switch; with `planned` also cables that it leaves out."""
    found = SwitchCables({name: Counter() for name in plan.switches}, {name: [] for name in plan.switches})
    for link in plan.links if planned else plan.present:
        for one, other in ((link.a, link.b), (link.b, link.a)):
            if one in found.near and other in found.near:
                found.near[one][other] += 1
            elif one in found.near and other in plan.hcas:
                found.hcas[one].append(other)
    return found


def rails_of_leaves(plan: Plan, cables: SwitchCables) -> dict[str, int | None]:
    """Return leaf -> the rail of most of its compute HCAs; None if no rail has more than half of them."""
    found: dict[str, int | None] = {}
    for name, hcas in cables.hcas.items():
        rails = Counter(rail for hca in hcas if (rail := _rail(plan, hca)) is not None)
        if rails:
            rail, count = min(rails.items(), key=lambda pair: (-pair[1], pair[0]))
            found[name] = rail if 2 * count > sum(rails.values()) else None
    return found


def _rail(plan: Plan, hca: str) -> int | None:
    return plan.hcas[hca].rail if plan.hcas[hca].purpose == COMPUTE else None


def is_by_rail(plan: Plan, cables: SwitchCables) -> bool:
    """Return whether nearly every leaf holds one rail, and there are several of them."""
    rails = rails_of_leaves(plan, cables)
    clear = [
        rail
        for name, rail in rails.items()
        if rail is not None
        and sum(_rail(plan, hca) == rail for hca in cables.hcas[name])
        >= _OF_LEAF * sum(_rail(plan, hca) is not None for hca in cables.hcas[name])
    ]
    return len(set(clear)) > 1 and len(clear) >= _LEAVES * len(rails)


def shape_of(plan: Plan) -> RecognisedShape:
    """Return the shape of a plan whose switches have tiers."""
    cables = counted_cables(plan)
    tiers = {name: switch.tier for name, switch in plan.switches.items()}
    groups = mesh_groups({name: set(others) for name, others in cables.near.items()}, tiers)
    traits = tuple(_traits(plan, cables, tiers, groups))
    return RecognisedShape(_kind(plan, cables, tiers, groups), traits, tuple(map(tuple, groups)))


def _kind(plan: Plan, cables: SwitchCables, tiers: Mapping[str, int], groups: list[list[str]]) -> str:
    if groups:
        return DRAGONFLY
    level = sum(tiers[one] == tiers[other] for one, others in cables.near.items() for other in others.elements())
    if 4 * level > sum(others.total() for others in cables.near.values()):
        return ""
    by_rail = is_by_rail(plan, cables)
    rails = rails_of_leaves(plan, cables)
    parts = [{rails[name] for name in part if name in rails} for part in cables.parts()]
    alone = [next(iter(found)) for found in parts if len(found) == 1]
    if by_rail and len(parts) > 1 and len(alone) == len(parts) == len(set(alone)):
        return RAIL_ONLY
    if by_rail:
        return RAIL_OPTIMISED
    return THREE_TIER if max(tiers.values(), default=0) > 2 else LEAF_SPINE


def _traits(plan: Plan, cables: SwitchCables, tiers: Mapping[str, int], groups: list[list[str]]) -> Iterable[str]:
    top = max(tiers.values(), default=0)
    counts = Counter(tiers.values())
    each = ", ".join(str(counts[one]) for one in sorted(counts))
    yield f"{len(tiers)} switch{'es' * (len(tiers) != 1)} on {top} tier{'s' * (top != 1)} ({each})"
    if groups:
        yield f"{len(groups)} groups of {_numbers(map(len, groups))} switches"
    if (parts := len(cables.parts())) > 1:
        yield f"{parts} parts that no cable joins"
    if not groups and (uneven := uneven_uplinks(cables, tiers)):
        yield f"uneven uplinks: {uneven}"
    models = Counter(switch.ports for switch in plan.switches.values())
    if len(models) > 1:
        listed = ", ".join(f"{count} of {ports} ports" for ports, count in sorted(models.items()))
        yield f"mixed models: {listed}"


def _numbers(numbers: Iterable[int]) -> str:
    return " or ".join(map(str, sorted(set(numbers))))


def uneven_uplinks(cables: SwitchCables, tiers: Mapping[str, int]) -> str:
    """Return how many leaves have which number of uplinks, if not all have the same; "" if they have."""
    leaves: dict[int, list[str]] = {}
    for name, tier in tiers.items():
        if tier == 1 and (up := cables.up(name, tiers)):
            leaves.setdefault(up.total(), []).append(name)
    if len(leaves) < 2:
        return ""
    return ", ".join(f"{count} on {_folded(names)}" for count, names in sorted(leaves.items(), reverse=True))


def _folded(names: Iterable[str]) -> str:
    listed = sorted(names, key=natural)
    try:
        text = fold(listed)
    except ValueError:
        text = ", ".join(listed)
    return text if len(text) <= 60 else f"{len(listed)} leaves"
