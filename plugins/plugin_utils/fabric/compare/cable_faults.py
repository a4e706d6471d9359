# SPDX-License-Identifier: GPL-3.0-or-later
"""Classify the faults of cables that are not as planned.

Ports are joined by missing planned cables and by unplanned found cables. A port has at most one of each, so all faults form chains and
circles in which the two alternate: a circle of two planned cables is a swap, a longer one a rotation; a chain of one planned and one found
cable is a cable in a wrong port, of several a shift; a lone planned cable is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import Plan
from ..core.node_descriptions import natural
from ..core.places import End, describe, place


@dataclass
class Chain:
    """Ports in a row; each pair of neighbours is joined alternately by a planned and a found cable.

    `planned` if the first one is planned.
    """

    ends: list[End]
    planned: bool
    circle: bool = False


def chains(planned: Mapping[End, End], found: Mapping[End, End]) -> list[Chain]:
    """Return all chains and circles; both maps hold every cable in both directions, and no cable is in both."""
    done: set[End] = set()
    result = []
    for start in (*planned, *found):
        if start in done:
            continue
        first = start in planned
        row, circle = _walk(start, planned, found, first)
        if not circle and start in planned and start in found:
            before, _unused = _walk(start, planned, found, not first)
            row = before[:0:-1] + row
            first = row[0] in planned and planned[row[0]] == row[1]
        done.update(row)
        result.append(Chain(row, first, circle))
    return result


def _walk(start: End, planned: Mapping[End, End], found: Mapping[End, End], by_plan: bool) -> tuple[list[End], bool]:
    row, end = [start], start
    while True:
        following = (planned if by_plan else found).get(end)
        if following is None:
            return row, False
        if following == start:
            return row, True
        row.append(following)
        end, by_plan = following, not by_plan


class FaultClassifier:
    """Classifier of chains, with the remedy for each."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def classify(self, chain: Chain) -> tuple[list[Finding], list[tuple[End, End]], list[tuple[End, End]]]:
        """Return findings, and besides them the missing planned cables and the extra found ones."""
        ends = chain.ends
        if chain.circle:
            return [self._circle(ends if chain.planned else [*ends[1:], ends[0]])], [], []
        if len(ends) == 2:
            return ([], [(ends[0], ends[1])], []) if chain.planned else ([], [], [(ends[0], ends[1])])
        if len(ends) % 2:
            return [self._moved(ends if chain.planned else ends[::-1])], [], []
        # There is one more planned cable than found ones, or the reverse: it can be at either end of the row.
        row = min((ends, ends[::-1]), key=lambda row: self._cost(row[:-1] if chain.planned else row[1:]))
        if chain.planned:
            return [self._moved(row[:-1])], [(row[-2], row[-1])], []
        return [self._moved(row[1:])], [], [(row[0], row[1])]

    def _cost(self, row: list[End]) -> tuple[int, int, list[End]]:
        """Rate a chain: prefer to move plugs at switches rather than at hosts, and within a switch rather than to another one."""
        plugs = row[::2]
        hosts = sum(end[0] in self.plan.hcas for end in plugs)
        return hosts, sum(plugs[n][0] != plugs[n - 1][0] for n in range(1, len(plugs))), row

    def _circle(self, row: list[End]) -> Finding:
        """Report a circle: the cable in port n of the row goes to port n+1, and belongs to the planned peer of that port."""
        odd, even = row[1::2], row[0::2]
        # Either all plugs of one side are moved, or all of the other side.
        if self._side(even) < self._side(odd):
            row = row[::-1]
            odd = row[1::2]
        first = min(range(len(odd)), key=lambda number: odd[number])
        row = row[2 * first :] + row[: 2 * first]
        odd = row[1::2]
        names = [describe(end, self.plan) for end in odd]
        expected, found = describe(row[0], self.plan), describe(row[2], self.plan)
        where = place(odd[0], self.plan)
        if len(odd) == 2:
            remedy = self._at_host(odd, row[0::2]) + f"swap with {place(odd[1], self.plan)}"
            return Finding("swapped", where, expected, found, remedy, ports=tuple(row))
        moves = "; ".join(f"{one} into {other}" for one, other in zip(names, [*names[1:], names[0]], strict=True))
        found += f"; {len(odd)} cables are in each other's places: {', '.join(names)}"
        return Finding("rotated", where, expected, found, f"move the cable of {moves}", ports=tuple(row))

    def _at_host(self, plugs: list[End], hcas: list[End]) -> str:
        """Return how to swap two cables at a host if they are in two switches: its adapters are side by side, leaves are not."""
        known = [self.plan.hcas[name] for name, _unused in hcas if name in self.plan.hcas]
        if len(known) < 2 or known[0].host != known[1].host or plugs[0][0] == plugs[1][0]:
            return ""
        one, other = sorted((hca.device for hca in known), key=natural)
        return f"at {known[0].host} swap the cables of {one} and {other}, or at the leaves "

    def _side(self, ends: Iterable[End]) -> tuple[int, int, int, list[End]]:
        """Rate the ports between which plugs would be moved, the easiest first: switches before hosts, one switch, lower tiers."""
        listed = list(ends)
        tiers = sum(self.plan.switches[name].tier for name, _unused in listed if name in self.plan.switches)
        hosts = sum(name in self.plan.hcas for name, _unused in listed)
        return hosts, len({name for name, _unused in listed}), tiers, sorted(listed)

    def _moved(self, row: list[End]) -> Finding:
        """Report a chain that begins with a planned cable and ends with a found one: each plug belongs two ports earlier."""
        plugs = row[::2]
        planned, now = plugs[0], plugs[1]
        holds = describe(row[1], self.plan)
        if len(plugs) == 2:
            kind = "wrong-port" if planned[0] == now[0] else "miswired"
            expected = f"the cable of {holds} in {describe(planned, self.plan)}"
            found = f"in {describe(now, self.plan)}"
            to = place(planned, self.plan) if kind == "miswired" else describe(planned, self.plan)
            return Finding(kind, place(now, self.plan), expected, found, f"move it to {to}", ports=tuple(row))
        names = [describe(end, self.plan) for end in plugs]
        moves = "; ".join(f"{names[n]} into {names[n - 1]}" for n in range(1, len(plugs)))
        text = f"{len(plugs) - 1} cables are each in the next one's place, up to {describe(plugs[-1], self.plan)}"
        remedy = f"move, in this order, the cable of {moves}"
        return Finding("shifted", place(planned, self.plan), "", text, remedy, ports=tuple(row))

    def missing(self, link: tuple[End, End], taken: Mapping[End, End]) -> Finding:
        """Report a planned cable that was not discovered."""
        low, high = link if link[0][0] in self.plan.hcas or link[1][0] not in self.plan.hcas else link[::-1]
        found = "missing or dead"
        for end in link:
            if end in taken:
                found += f"; {describe(end, self.plan)} holds another"
        remedy = "check that it is plugged in at both ends; if it is, replace it"
        expected = f"the cable to {place(low, self.plan)}"
        return Finding("missing", place(high, self.plan), expected, found, remedy, ports=link)

    def dead_host(self, host: str, links: list[tuple[End, End]]) -> Finding:
        """Report a host without any discovered cable."""
        places = few(describe(end, self.plan) for link in links for end in link if end[0] in self.plan.switches)
        hca = next(end[0] for link in links for end in link if end[0] in self.plan.hcas)
        rack = self.plan.hcas[hca].rack
        ports = tuple(end for link in links for end in link if end[0] in self.plan.hcas)
        where = f"rack {rack}, {host}" if rack else host
        return Finding(
            "isolated", where, f"{len(links)} cables at {places}", "none", "check that the host is on", ports=ports
        )

    def extra(self, one: End, other: End, spare: bool) -> Finding:
        """Report a cable that is not in the plan; one between two planes joins them."""
        text = f"a cable to {place(other, self.plan)} that the plan {'leaves out' if spare else 'does not have'}"
        if planes := self.joins(one, other):
            text += f"; it joins the planes {' and '.join(planes)}"
            return Finding("joined", place(one, self.plan), "", text, "remove it at once", ports=(one, other))
        remedy = "remove it, or add it to the plan"
        return Finding("extra", place(one, self.plan), "", text, remedy, ports=(one, other))

    def joins(self, one: End, other: End) -> list[str]:
        """Return the two planes that a cable joins."""
        switches = [self.plan.switches[end[0]] for end in (one, other) if end[0] in self.plan.switches]
        planes = sorted({switch.plane for switch in switches})
        return planes if len(switches) == 2 and len(planes) == 2 else []
