# SPDX-License-Identifier: GPL-3.0-or-later
"""P5, P6 and P9: the shapes of trees, rails and dragonflies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import COMPUTE, Hca, PlanProblem, Switch
from .plan_index import View, most_common, plan_problem


def tiers(view: View) -> Iterator[PlanProblem]:
    """P5: cables of a tree go from a tier to the next, and HCAs are on leaves."""
    switches = view.plan.switches
    if view.is_tree:
        for link in view.level:
            text = f"a cable to {view.port((link.b, link.b_port))}, of the same tier {switches[link.a].tier}: ftree refuses it"
            yield plan_problem("P5", view.port((link.a, link.a_port)), text)
    for low, above in view.planned.items():
        for high in above:
            if switches[high].tier - switches[low].tier > 1:
                text = (
                    f"a cable to {view.plan.where(high)}: from tier {switches[low].tier} to tier {switches[high].tier}"
                )
                yield plan_problem("P5", view.plan.where(low), text)
    for name, link in view.cable.items():
        other = link.b if link.a == name else link.a
        if switches[other].tier > 1:
            text = f"is on {view.plan.where(other)} of tier {switches[other].tier}: ftree takes HCAs on leaves only"
            yield plan_problem("P5", view.plan.where(name), text)


def planes(view: View) -> Iterator[PlanProblem]:
    """P5: no cable joins two planes."""
    everything = {thing.name: thing.plane for thing in view.things()}
    for link in view.plan.links:
        one, other = everything.get(link.a), everything.get(link.b)
        if one is not None and other is not None and one != other:
            text = f"a cable from plane {one or '(none)'} to {view.port((link.b, link.b_port))} of plane {other or '(none)'}"
            yield plan_problem("P5", view.port((link.a, link.a_port)), text)


def roots(view: View) -> Iterator[PlanProblem]:
    """P5: every leaf reaches all roots of its plane on ways that only go up."""
    if not view.is_tree:
        return
    for plane, top in view.tops().items():
        switches = sorted(view.in_plane(plane), key=lambda one: -one.tier)
        above = [one.name for one in switches if one.tier == top]
        meant, there = _roots_above(view.planned, switches, above), _roots_above(view.present, switches, above)
        every = (1 << len(above)) - 1
        for one in switches:
            if one.tier != 1 or there[one.name] == every:
                continue
            lost = [name for bit, name in enumerate(above) if not there[one.name] >> bit & 1]
            purposely = meant[one.name] == every
            text = f"no way up to {few(lost)} ({len(lost)} of {len(above)} at the top)"
            text += "; its cables are left out on purpose" if purposely else ""
            yield plan_problem("P5", view.plan.where(one.name), text, "warning" if purposely else "error")


def _roots_above(links: Mapping[str, Counter[str]], switches: list[Switch], above: list[str]) -> dict[str, int]:
    """Return switch -> roots it reaches, as bits; `switches` are in order from the top."""
    found = {name: 1 << bit for bit, name in enumerate(above)}
    for one in switches:
        reached = found.get(one.name, 0)
        for high in links.get(one.name, ()):
            reached |= found.get(high, 0)
        found[one.name] = reached
    return found


def rails(view: View) -> Iterator[PlanProblem]:
    """P6: an HCA is on the leaf of its rail and of its unit."""
    for name, link in view.cable.items():
        hca = view.plan.hcas[name]
        (end,) = (end for end in link.ends if end[0] != name)
        leaf = view.plan.switches[end[0]]
        if hca.purpose != COMPUTE or hca.rail is None or leaf.rail is None:
            continue
        if leaf.rail != hca.rail:
            text = f"is of rail {hca.rail}, and its cable goes to {view.port(end)} of rail {leaf.rail}"
            yield plan_problem("P6", view.plan.where(name), text)
        elif hca.group and leaf.group and hca.group != leaf.group:
            text = f"is of unit {hca.group}, and its cable goes to {view.port(end)} of unit {leaf.group}"
            yield plan_problem("P6", view.plan.where(name), text)


def all_rails(view: View) -> Iterator[PlanProblem]:
    """P6: every host has an HCA on every rail."""
    every = {switch.rail for switch in view.plan.switches.values() if switch.tier == 1 and switch.rail is not None}
    hosts: dict[str, list[Hca]] = {}
    for hca in view.plan.hcas.values():
        if hca.purpose == COMPUTE and hca.rail is not None:
            hosts.setdefault(hca.host, []).append(hca)
    for host, hcas in hosts.items() if every else ():
        counts = Counter(hca.rail for hca in hcas)
        where = f"rack {hcas[0].rack}, {host}" if hcas[0].rack else host
        if lost := sorted(rail for rail in every if rail is not None and rail not in counts):
            yield plan_problem("P6", where, f"has no HCA on rail {', '.join(map(str, lost))}")
        for rail, count in counts.items():
            if count > 1:
                yield plan_problem(
                    "P6",
                    where,
                    f"has {count} HCAs on rail {rail}: {few(hca.device for hca in hcas if hca.rail == rail)}",
                )


def groups(view: View) -> Iterator[PlanProblem]:
    """P9: within a group of a dragonfly all routers (or all leaves and spines) are joined, each pair by as many cables."""
    if view.is_tree:
        return
    members: dict[str, list[Switch]] = {}
    for switch in view.plan.switches.values():
        members.setdefault(switch.group, []).append(switch)
    joined = _joined(view)
    for group, switches in members.items():
        upper = [one for one in switches if one.tier > 1]
        leaves = [one for one in switches if one.tier == 1]
        wanted = [(one, other) for one in leaves for other in upper] if upper else list(combinations(leaves, 2))
        have = [joined[frozenset((one.name, other.name))] for one, other in wanted]
        usual = max(1, most_common(have))
        for (one, other), count in zip(wanted, have, strict=True):
            if count != usual:
                text = f"{count} cables to {view.plan.where(other.name)} of its group {group}, and {usual} between others of it"
                yield plan_problem("P9", view.plan.where(one.name), text)


def between_groups(view: View) -> Iterator[PlanProblem]:
    """P9: any two groups of a dragonfly are joined by as many cables as any other two."""
    if view.is_tree:
        return
    names = list(dict.fromkeys(switch.group for switch in view.plan.switches.values()))
    counts: Counter[frozenset[str]] = Counter()
    for switches, count in _joined(view).items():
        ends = frozenset(view.plan.switches[name].group for name in switches)
        if len(ends) == 2:
            counts[ends] += count
    pairs = list(combinations(names, 2))
    usual = max(1, most_common([counts[frozenset(pair)] for pair in pairs]))
    for pair in pairs:
        if (count := counts[frozenset(pair)]) != usual:
            yield plan_problem(
                "P9", f"groups {pair[0]} and {pair[1]}", f"{count} cables join them, and {usual} join others"
            )


def _joined(view: View) -> Counter[frozenset[str]]:
    found: Counter[frozenset[str]] = Counter()
    for link in view.plan.links:
        if link.a in view.plan.switches and link.b in view.plan.switches:
            found[frozenset((link.a, link.b))] += 1
    return found
