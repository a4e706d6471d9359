# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit a fabric without a plan: what differs from the fabric's own rule, in any technology that a discovery can describe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery

from ..core.fabric_shape import (
    DRAGONFLY,
    RecognisedShape,
    SwitchCables,
    counted_cables,
    is_by_rail,
    rails_of_leaves,
    shape_of,
)
from ..core.node_descriptions import natural
from ..core.places import counted, describe, ordered
from .audit_links import link_findings
from .audit_nodes import node_findings
from .seen_fabric import SeenFabric, seen_fabric

# Kinds of findings of an audit, and their meanings.
KINDS = {
    "rail-mix": "a card is on a leaf that holds another rail",
    "uneven-uplinks": "a switch has fewer or more cables up than its like, or not the same number to each switch above",
    "leaf-to-leaf": "a cable joins two switches of one tier of a tree",
    "loop": "both ends of a cable are in one switch",
    "half-seen": "only one end reports the cable",
    "dead-port": "a card that a host of its kind has is not seen: its port, its cable or the card is dead",
    "mixed-speed": "a cable runs at another speed or width than its like",
    "duplicate-guid": "two nodes have one GUID",
    "duplicate-name": "two nodes have one name",
    "unnamed": "nodes have no usable name",
    "second-port": "a card has a cable in its second port, which Linux does not name as a device",
    "unclear": "the names of a switch's ports give no numbers, or several numbers fit",
    "partial": "a part of the fabric was not discovered",
    "unread": "lines of the discovery could not be parsed",
}
# Share of the switches of a tier up to which those that differ are faults, not a shape.
_FEW = 0.25


def audit(
    discoveries: Mapping[str, Discovery],
    rails: Mapping[str, int | None] | None = None,
    expected: Mapping[str, Iterable[str]] | None = None,
) -> list[Finding]:
    """Return the findings on a discovered fabric, errors first.

    `rails` has the rails of HCAs by their names, `expected` the devices of hosts. Without them, device names stand for rails, and hosts
    with nearly the same devices are compared with each other.
    """
    seen = seen_fabric(discoveries, rails)
    return audit_of(seen, shape_of(seen.plan), expected)


def audit_of(
    seen: SeenFabric, shape: RecognisedShape, expected: Mapping[str, Iterable[str]] | None = None
) -> list[Finding]:
    """Return the findings of `audit` for a fabric that is read already."""
    cables = counted_cables(seen.plan)
    found = [*seen.merged.findings, *seen.unclear, *_rail_mix(seen, cables), *link_findings(seen)]
    if shape.kind and shape.kind != DRAGONFLY:
        found += [*_uplinks(seen, cables), *_level(seen)]
    found += node_findings(seen, cables, expected)
    return ordered(found)


def _rail_mix(seen: SeenFabric, cables: SwitchCables) -> Iterator[Finding]:
    """Yield the cards on leaves of other rails, and leaves without a rail, of a fabric whose leaves are by rail."""
    plan = seen.plan
    if not is_by_rail(plan, cables):
        return
    of_leaf = rails_of_leaves(plan, cables)
    at = plan.leaf_of()
    for leaf, rail in of_leaf.items():
        members = [hca for hca in cables.hcas[leaf] if plan.hcas[hca].rail is not None]
        if rail is None:
            counts = Counter(plan.hcas[hca].rail for hca in members)
            text = "cards of several rails: " + ", ".join(
                f"{count} of rail {one}" for one, count in sorted(counts.items(), key=str)
            )
            yield Finding("rail-mix", leaf, "one rail", text, "give each rail a leaf", WARNING, ports=((leaf, 0),))
            continue
        for hca in members:
            if plan.hcas[hca].rail == rail:
                continue
            end = at[hca]
            rival = next((other for other in members if plan.hcas[other].rail == rail), "")
            device = plan.hcas[rival].device if rival else ""
            partner = f"{plan.hcas[hca].host} {device}"
            swapped = at.get(partner, ("", 0))[0]
            expected = f"a card of rail {rail}, as {len(members) - 1} of {len(members)} here"
            text = f"{hca} of rail {plan.hcas[hca].rail}"
            if swapped and of_leaf.get(swapped) == plan.hcas[hca].rail:
                remedy = f"at {plan.hcas[hca].host} swap the cables of {plan.hcas[hca].device} and {device}"
                text += f"; {partner} is on {describe(at[partner], plan)}"
            else:
                remedy = f"move its cable to the leaf of rail {plan.hcas[hca].rail}"
            yield Finding("rail-mix", describe(end, plan), expected, text, remedy, ERROR, ports=((hca, 1), end))


def _uplinks(seen: SeenFabric, cables: SwitchCables) -> Iterator[Finding]:
    """Yield switches whose cables up differ from the other switches of their tier in one connected part of a tree."""
    tiers = {name: switch.tier for name, switch in seen.plan.switches.items()}
    for part in cables.parts():
        top = max(tiers[name] for name in part)
        for tier in range(1, top):
            above = {name: cables.up(name, tiers) for name in part if tiers[name] == tier}
            yield from _of_tier(above, tier)


def _of_tier(above: Mapping[str, Counter[str]], tier: int) -> Iterator[Finding]:
    totals = Counter(up.total() for up in above.values())
    usual = max(totals, key=lambda count: (totals[count], count), default=0)
    odd = sorted((name for name, up in above.items() if up.total() != usual), key=natural)
    remedy = "check its cables up, and the ports of these switches"
    if len(odd) > max(1, _FEW * len(above)):
        text = ", ".join(f"{count} on {switches} switches" for count, switches in sorted(totals.items(), reverse=True))
        text = f"the cables up of tier {tier} are uneven: {text}"
        accepted = "nothing, if that is intended; routes over fewer cables carry more"
        yield Finding("uneven-uplinks", f"tier {tier}", "", text, accepted, NOTICE)
        odd = []
    for name in odd:
        up = above[name]
        each = max(Counter(up.values()).items(), key=lambda pair: (pair[1], pair[0]))[0] if up else 0
        few_to = [f"{count} to {high}" for high, count in _by_name(up) if count != each]
        few_to += [f"none to {high}" for high in _absent(up, above)]
        where = f": {few(few_to)}, and {each} to each other" if few_to else ""
        expected = f"{usual} cables up, as {totals[usual]} of {len(above)} switches of tier {tier}"
        yield Finding("uneven-uplinks", name, expected, f"{up.total()}{where}", remedy, WARNING, ports=((name, 0),))
    for name, up in above.items():
        if name in odd or len(set(up.values())) < 2:
            continue
        text = ", ".join(f"{count} to {high}" for high, count in _by_name(up))
        expected = f"as many cables to each of {len(up)} switches above"
        yield Finding("uneven-uplinks", name, expected, text, remedy, WARNING, ports=((name, 0),))


def _by_name(up: Counter[str]) -> list[tuple[str, int]]:
    return sorted(up.items(), key=lambda pair: natural(pair[0]))


def _absent(up: Counter[str], above: Mapping[str, Counter[str]]) -> list[str]:
    """Return the switches above that this switch lacks, and most switches with a common switch above have."""
    peers = [other for other in above.values() if other.keys() & up.keys()]
    counts = Counter(high for other in peers for high in other)
    return sorted((high for high, count in counts.items() if 2 * count > len(peers) and high not in up), key=natural)


def _level(seen: SeenFabric) -> Iterator[Finding]:
    """Yield the cables of a tree between two switches of one tier."""
    plan = seen.plan
    for link in plan.links:
        one, other = plan.switches.get(link.a), plan.switches.get(link.b)
        if one and other and one.tier == other.tier:
            text = f"a cable to {describe((link.b, link.b_port), plan)}, which is on tier {other.tier}, too"
            remedy = "remove it, or move one end to a switch above: OpenSM's ftree refuses such a fabric"
            where = describe((link.a, link.a_port), plan)
            yield Finding("leaf-to-leaf", where, "", text, remedy, ERROR, ports=link.ends)


def summary(findings: Iterable[Finding]) -> str:
    """Return the number of findings of each kind, in words."""
    counts = Counter(one.kind for one in findings)
    words = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"{counted(counts.total(), 'finding')}: {words}" if counts else "no findings"
