# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit single cables: seen from one end, or at another rate than their like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding

from ..core.fabric_model import Link
from ..core.link_rates import Rate, is_slower, is_unreadable
from ..core.places import counted, describe
from .seen_fabric import SeenFabric

# Share of the cables of a sort from which their rate is the rule, and the others are faults.
_RULE = 0.75
# Cables of a sort with one lower rate that are meant, beside the rule: so many do not fail alike.
_MEANT = 8


def link_findings(seen: SeenFabric) -> Iterator[Finding]:
    """Yield the findings on single cables."""
    yield from _loops(seen)
    yield from _half(seen)
    yield from _rates(seen)


def _loops(seen: SeenFabric) -> Iterator[Finding]:
    for link in seen.loops:
        one, other = link.ends
        text = f"its other end is in {describe(other, seen.plan)}" if one != other else "a loopback plug"
        yield Finding("loop", describe(one, seen.plan), "", text, "remove it", ERROR, ports=link.ends)


def _half(seen: SeenFabric) -> Iterator[Finding]:
    plan = seen.plan
    for one, other in seen.half:
        text = f"{describe(one, plan)} reports the cable between the two, and this end does not"
        remedy = "discover again; a port that does not report has a fault"
        yield Finding("half-seen", describe(other, plan), "", text, remedy, WARNING, ports=(one, other))


def _rates(seen: SeenFabric) -> Iterator[Finding]:
    """Yield the cables that differ from most of their sort: the cables of one device name, or between two tiers."""
    sorts = _sorts(seen)
    usual_of = {name: Counter(rate for _link, rate in found).most_common(1)[0] for name, found in sorts.items()}
    for name, found in sorts.items():
        usual, count = usual_of[name]
        odd = [(link, rate) for link, rate in found if rate != usual]
        if not odd:
            continue
        if count < _RULE * len(found):
            counts = Counter(rate for _link, rate in found)
            text = f"{name} run at several rates: " + ", ".join(
                f"{many} at {''.join(one)}" for one, many in counts.most_common()
            )
            yield Finding("mixed-speed", seen.plan.name, "", text, "nothing, if that is intended", NOTICE)
            continue
        for link, rate in odd:
            low, high = link.ends
            expected = f"{''.join(usual)}, as {count} of {counted(len(found), 'cable')} of {name}"
            text = f"{''.join(rate)} on the cable to {describe(low, seen.plan)}"
            slow = is_slower(rate, usual)
            remedy = "reseat the cable at both ends, then replace it" if slow else "check the speed set on its ports"
            severity = WARNING if slow else NOTICE
            yield Finding("mixed-speed", describe(high, seen.plan), expected, text, remedy, severity, ports=(low, high))


def meant_rates(seen: SeenFabric) -> dict[Link, Rate]:
    """Return the rates that a plan states of cables: their own, or that of their sort if a few are slower than the rule."""
    meant: dict[Link, Rate] = {}
    for found in _sorts(seen).values():
        counts = Counter(rate for _link, rate in found)
        usual, count = counts.most_common(1)[0]
        ruled = count >= _RULE * len(found)
        for link, rate in found:
            faulty = ruled and counts[rate] < _MEANT and is_slower(rate, usual)
            meant[link] = usual if faulty else rate
    return meant


def _sorts(seen: SeenFabric) -> dict[str, list[tuple[Link, Rate]]]:
    """Return the cables of each sort with a readable rate."""
    sorts: dict[str, list[tuple[Link, Rate]]] = {}
    for link in seen.plan.links:
        if rate := _rate(seen, link):
            sorts.setdefault(_sort(seen, link), []).append((link, rate))
    return sorts


def _rate(seen: SeenFabric, link: Link) -> Rate | None:
    """Return the lower rate that the ends of a cable report; None if no end reports a readable rate."""
    rates = [
        rate for end in link.ends if (rate := seen.rates.get(end)) and rate != ("", "") and not is_unreadable(rate)
    ]
    if len(rates) == 2 and is_slower(rates[1], rates[0]):
        return rates[1]
    return rates[0] if rates else None


def _sort(seen: SeenFabric, link: Link) -> str:
    switches, hcas = seen.plan.switches, seen.plan.hcas
    if link.a in hcas:
        hca = hcas[link.a]
        return "cards" if link.a in seen.unnamed or hca.rail is not None else f"{hca.device} of hosts"
    tiers = sorted((switches[link.a].tier, switches[link.b].tier))
    return f"tier {tiers[0]} to tier {tiers[1]}"
