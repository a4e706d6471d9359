# SPDX-License-Identifier: GPL-3.0-or-later
"""Find tiers of switches and groups of a dragonfly in the cables between switches; names do not matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .host_tree import DisjointSets
from .node_descriptions import natural

# Switch -> switches that cables join with it.
Near = Mapping[str, set[str]]


def tiers_of(near: Near, hosts: Mapping[str, int]) -> dict[str, int]:
    """Return the tier of each switch: 1 for a switch with hosts, otherwise the distance to the nearest leaf plus 1.

    `hosts` has the number of HCAs on each switch; a switch without any may be absent.
    """
    tier = {name: 1 for name in near if hosts.get(name) and not _above(name, near, hosts)}
    step = list(tier)
    while step:
        found = {other for name in step for other in near[name] if other not in tier}
        tier |= dict.fromkeys(found, tier[step[0]] + 1)
        step = sorted(found)
    return {name: tier.get(name, 1) for name in near}


def _above(name: str, near: Near, hosts: Mapping[str, int]) -> bool:
    """Return whether a switch with few hosts is above leaves: most neighbours without hosts connect to the same leaves."""
    mine = near[name]
    below = {other for other in mine if hosts.get(other)}
    if len(below) < 2 or 2 * len(below) <= len(mine) or hosts[name] > min(hosts[other] for other in below):
        return False
    beside = {other for low in below for other in near[low]} - {name}
    return any(
        not hosts.get(other) and 2 * len(near[other] & mine) > len((near[other] | mine) - {name, other})
        for other in beside
    )


def with_empty_leaves(tiers: Mapping[str, int], near: Near) -> dict[str, int]:
    """Return tiers in which a switch without hosts is a leaf, if mostly the same switches are above it as above a leaf with hosts."""
    above: dict[frozenset[str], None] = {}
    for name, tier in tiers.items():
        if tier == 1 and near[name]:
            above[frozenset(near[name])] = None
    found = dict(tiers)
    for name, tier in tiers.items():
        if tier == 3 and any(2 * len(near[name] & one) > len(near[name] | one) for one in above):
            found[name] = 1
    return found


def mesh_groups(near: Near, tiers: Mapping[str, int]) -> list[list[str]]:
    """Return the groups of a dragonfly, each in natural order; [] if the cables make no groups.

    With spines (dragonfly+), cables from tier to tier join a group, and cables between its top switches lead to others. Without spines,
    all switches of a group are joined with each other; groups of two cannot be distinguished from a ring.
    """
    if not any(tiers[one] == tiers[other] for one, others in near.items() for other in others):
        return []
    found = _by_tiers(near, tiers) if max(tiers.values(), default=0) > 1 else _by_mesh(near)
    if len(found) < 2:
        return []
    number = {name: place for place, group in enumerate(found) for name in group}
    joined = {frozenset((number[one], number[other])) for one, others in near.items() for other in others}
    pairs = sum(len(pair) == 2 for pair in joined)
    if 2 * pairs != len(found) * (len(found) - 1):
        return []
    return sorted((sorted(group, key=natural) for group in found), key=lambda group: natural(group[0]))


def _by_tiers(near: Near, tiers: Mapping[str, int]) -> list[list[str]]:
    top = max(tiers.values())
    union = DisjointSets()
    for one, others in near.items():
        for other in others:
            if tiers[one] != tiers[other]:
                union.join(one, other)
            elif tiers[one] != top:
                return []
    found = union.sets(near)
    return found if all(any(tiers[name] == top for name in group) for group in found) else []


def _by_mesh(near: Near) -> list[list[str]]:
    """Return the sets of switches that are joined with each other, or [] if a set is not a full mesh."""
    common = {one: {other: len(near[one] & near[other]) for other in others} for one, others in near.items()}
    most = {one: max(found.values(), default=0) for one, found in common.items()}
    union = DisjointSets()
    for one, found in common.items():
        for other, count in found.items():
            if count and 2 * count > most[one] and 2 * count > most[other]:
                union.join(one, other)
    groups = union.sets(near)
    return groups if all(len(group) > 2 and _is_mesh(group, near) for group in groups) else []


def _is_mesh(group: Iterable[str], near: Near) -> bool:
    members = set(group)
    return all(members - {name} <= near[name] for name in members)
