# SPDX-License-Identifier: GPL-3.0-or-later
"""Quality of OpenSM's routes, measured on the forwarding tables it dumped.

All HCAs of a leaf take the same way to an HCA, so ways are walked from leaves, not from HCAs: 1,024 HCAs on 32 leaves are 32,768 ways.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..core.node_descriptions import is_aggregation, natural
from .cycles import find_loop
from .opensm_dumps import Subnet

# Examples of unreachable pairs that are kept; there can be millions.
_EXAMPLES = 8


@dataclass(frozen=True)
class Shift:
    """Flows on the busiest link when HCA i sends to HCA i+k, of the worst k; that link, and that k."""

    worst: int
    link: str = ""
    by: int = 0


@dataclass
class Metrics:
    """Of all HCAs counted. Links are directed, and between switches; `imbalance` is the busiest link's load to the mean of all links."""

    hcas: int
    switches: int
    links: int
    # Ordered pairs of HCAs.
    unreachable: int
    examples: list[str]
    imbalance: float
    busiest: str
    idle: list[str]
    # Order of HCAs -> shifts: `leaf` is in order of leaves and their ports.
    shifts: dict[str, Shift]
    # Links that wait for each other in a circle; "" when there is none.
    loop: list[str]
    loads: dict[str, int] = field(default_factory=dict, repr=False)
    # The same without ways from and to aggregation nodes, which ask for path records and so have a lane where an engine gives one.
    hosts_loop: list[str] = field(default_factory=list)

    @property
    def most(self) -> int:
        """Return the flows on the busiest link."""
        return max(self.loads.values(), default=0)


def measure(
    subnet: Subnet,
    *,
    counted: Container[str] | None = None,
    orders: Mapping[str, Sequence[int | None]] | None = None,
    shifts: bool = True,
) -> Metrics:
    """Return the metrics; `counted` are the names of the HCAs that matter (all, if None), `orders` are further orders for shifts.

    Without `shifts` none is looked at, which saves a third of the time. Credit loops are those of all HCAs, counted or not, as if there
    were one virtual lane: engines that prevent loops by several lanes (dfsssp, lash) need some.
    """
    ways = _Ways(subnet, counted)
    ways.walk()
    loads = ways.loads()
    total = sum(loads)
    most = max(range(len(loads)), key=loads.__getitem__, default=None)
    every = {"leaf": leaf_order(subnet, counted), **(orders or {})} if shifts else {}
    return Metrics(
        hcas=sum(ways.weights),
        switches=len(subnet.tables),
        links=len(loads),
        unreachable=ways.unreachable,
        examples=ways.examples,
        imbalance=loads[most] * len(loads) / total if most is not None and total else 1.0,
        busiest="" if most is None or not total else ways.name(most),
        idle=[ways.name(link) for link, load in enumerate(loads) if not load],
        shifts={name: ways.shift(order) for name, order in every.items()},
        loop=[ways.name(link) for link in find_loop(ways.waits)],
        loads={ways.name(link): load for link, load in enumerate(loads)},
        hosts_loop=[ways.name(link) for link in find_loop(ways.hosts_wait)],
    )


def leaf_order(subnet: Subnet, counted: Container[str] | None = None) -> list[int | None]:
    """Return the LIDs of HCAs in the order of their leaves' names and of the leaves' ports."""
    found = []
    for (lid, _port), (leaf, port) in subnet.cables.items():
        node = subnet.nodes[lid]
        if not node.is_switch and subnet.nodes[leaf].is_switch and (counted is None or node.name in counted):
            found.append((natural(subnet.nodes[leaf].name), leaf, port, lid))
    return [lid for *_place, lid in sorted(found)]


class _Ways:
    """All ways from leaves to HCAs. Links, leaves and destinations have numbers; a switch is known by its LID."""

    def __init__(self, subnet: Subnet, counted: Container[str] | None) -> None:
        self.subnet = subnet
        nodes = subnet.nodes
        self.links: list[tuple[int, int]] = []
        # Switch -> port -> link and the switch behind it, or the LID of the HCA behind it as (-1, LID).
        self.behind: dict[int, dict[int, tuple[int, int]]] = {lid: {} for lid in subnet.tables}
        # HCA -> its leaf.
        self.leaf_of: dict[int, int] = {}
        for (lid, port), (far, _far_port) in sorted(subnet.cables.items()):
            if not nodes[lid].is_switch:
                continue
            if nodes[far].is_switch:
                self.behind[lid][port] = (len(self.links), far)
                self.links.append((lid, port))
            else:
                self.behind[lid][port] = (-1, far)
                self.leaf_of[far] = lid
        self.leaves = sorted(set(self.leaf_of.values()))
        self.counts = {lid: counted is None or nodes[lid].name in counted for lid in self.leaf_of}
        # HCAs that count, of each leaf.
        self.weights = [0] * len(self.leaves)
        number = {leaf: index for index, leaf in enumerate(self.leaves)}
        for lid, leaf in self.leaf_of.items():
            self.weights[number[leaf]] += self.counts[lid]
        self.targets = sorted(self.leaf_of)
        # Link -> all ways over it, each as number of target * number of leaves + number of leaf; only of those that count.
        self.over: list[array[int]] = [array("I") for _link in self.links]
        # Link -> links that ways go on with: who holds the one waits for the other.
        self.waits: list[set[int]] = [set() for _link in self.links]
        # The same, of ways between adapters of hosts alone; one set of sets where no other adapter is.
        inside = {lid for lid in self.leaf_of if is_aggregation(nodes[lid].name)}
        self.of_hosts = set(self.leaf_of) - inside
        self.hosts_leaves = {self.leaf_of[lid] for lid in self.of_hosts}
        self.hosts_wait = [set[int]() for _link in self.links] if inside else self.waits
        self.unreachable = 0
        self.examples: list[str] = []

    def walk(self) -> None:
        """Walk from every leaf to every HCA."""
        for number, target in enumerate(self.targets):
            # Switch -> link and switch that follow, for this target alone.
            following: dict[int, tuple[int, int] | None] = {}
            home = self.leaf_of[target]
            for index, leaf in enumerate(self.leaves):
                self._way(number, target, home, index, leaf, following)

    def _way(
        self, number: int, target: int, home: int, index: int, leaf: int, following: dict[int, tuple[int, int] | None]
    ) -> None:
        links = []
        lid = leaf
        # Longer than all switches is a circle.
        for _hop in range(len(self.behind) + 1):
            if lid not in following:
                following[lid] = self.behind[lid].get(self.subnet.tables[lid].get(target, 0))
            step = following[lid]
            if step is None or (step[0] < 0 and step[1] != target):
                self._lost(target, home, index, leaf, f"no way on at {self.subnet.describe(lid)}")
                return
            if step[0] < 0:
                break
            links.append(step[0])
            lid = step[1]
        else:
            self._lost(target, home, index, leaf, f"the way goes in a circle at {self.subnet.describe(lid)}")
            return
        for waits in self._waiting(target, leaf):
            for hop in range(1, len(links)):
                waits[links[hop - 1]].add(links[hop])
        if self.counts[target] and self.weights[index]:
            code = number * len(self.leaves) + index
            for link in links:
                self.over[link].append(code)

    def _waiting(self, target: int, leaf: int) -> tuple[list[set[int]], ...]:
        if self.hosts_wait is self.waits or target not in self.of_hosts or leaf not in self.hosts_leaves:
            return (self.waits,)
        return self.waits, self.hosts_wait

    def _lost(self, target: int, home: int, index: int, leaf: int, why: str) -> None:
        pairs = (self.weights[index] - (home == leaf)) * self.counts[target]
        if pairs > 0:
            self.unreachable += pairs
            if len(self.examples) < _EXAMPLES:
                name = self.subnet.describe
                self.examples.append(f"from {name(leaf)} to {name(target)} on {name(home)}: {why}")

    def loads(self) -> list[int]:
        """Return the flows on each link when every HCA sends to every other."""
        count, weights = len(self.leaves), self.weights
        return [sum(weights[code % count] for code in codes) for codes in self.over]

    def name(self, link: int) -> str:
        """Return a link in words: from port to switch."""
        lid, port = self.links[link]
        return f"{self.subnet.describe(lid, port)} to {self.subnet.describe(*self.subnet.cables[lid, port])}"

    def shift(self, order: Sequence[int | None]) -> Shift:
        """Return the flows under all shifts of an order of HCAs (LIDs; None for an empty place).

        HCAs of one leaf that follow each other send to one HCA in shifts that follow each other, so each way is an interval of shifts;
        where intervals of a link begin and end is all that is looked at.
        """
        size, count = len(order), len(self.leaves)
        number = {leaf: index for index, leaf in enumerate(self.leaves)}
        place = {lid: index for index, lid in enumerate(order) if lid is not None}
        runs = self._runs(order, number)
        worst = (0, -1, 0)
        for link, codes in enumerate(self.over):
            marks: dict[int, int] = {}
            for code in codes:
                target, leaf = divmod(code, count)
                at = place.get(self.targets[target])
                if at is None:
                    continue
                for first, last in runs[leaf]:
                    _add(marks, (at - last) % size, (at - first) % size + 1, size)
            worst = max(worst, _most_flows(marks, link))
        flows, link, by = worst
        return Shift(flows, self.name(link) if flows else "", -by)

    def _runs(self, order: Sequence[int | None], number: Mapping[int, int]) -> list[list[tuple[int, int]]]:
        """Return for each leaf the first and last places of its HCAs that follow each other."""
        runs: list[list[tuple[int, int]]] = [[] for _leaf in self.leaves]
        for at, lid in enumerate(order):
            if lid is None:
                continue
            mine = runs[number[self.leaf_of[lid]]]
            if mine and mine[-1][1] == at - 1:
                mine[-1] = (mine[-1][0], at)
            else:
                mine.append((at, at))
        return runs


def _add(marks: dict[int, int], start: int, end: int, size: int) -> None:
    """Add an interval of shifts, which may go over the end to the beginning."""
    marks[start] = marks.get(start, 0) + 1
    if end <= start:
        marks[size] = marks.get(size, 0) - 1
        marks[0] = marks.get(0, 0) + 1
    marks[end] = marks.get(end, 0) - 1


def _most_flows(marks: Mapping[int, int], link: int) -> tuple[int, int, int]:
    """Return the most flows of a link, the link, and minus the first shift that has as many."""
    flows, before, most = 0, 0, (0, link, 0)
    for position in sorted(marks):
        if flows and position > before:
            most = max(most, (flows, link, -before))
        flows, before = flows + marks[position], position
    return most


def limit(tiers: int) -> float:
    """Return the load of the busiest link to the mean of all that is allowed: ways inside a pod spare the cores."""
    return 1.01 if tiers < 3 else 1.2


def broken(metrics: Metrics, loop: Sequence[str]) -> list[str]:
    """Return the problems that no fabric may have: HCAs that are not reached, and a circle of links, `loop`."""
    wrong = []
    if metrics.unreachable:
        wrong.append(f"{metrics.unreachable} pairs of HCAs cannot reach each other: {'; '.join(metrics.examples[:3])}")
    if loop:
        wrong.append(f"links wait for each other in a circle, so packets can block for ever: {_few(loop)}")
    return wrong


def uneven(metrics: Metrics, *, tiers: int, oversubscription: float = 1.0, order: str = "") -> list[str]:
    """Return where routes of a regular tree are not even; `order` is the order of the shifts that must be perfect, if any must."""
    wrong = []
    if metrics.idle:
        wrong.append(f"{len(metrics.idle)} of {metrics.links} directed links carry nothing: {_few(metrics.idle)}")
    if metrics.imbalance > limit(tiers):
        text = (
            f"the busiest link has {metrics.imbalance:.2f} times the mean load, and at most {limit(tiers)} is allowed"
        )
        wrong.append(f"{text}: {metrics.busiest}")
    ideal = math.ceil(oversubscription)
    if order and (shift := metrics.shifts[order]).worst > ideal:
        wrong.append(f"shift by {shift.by} puts {shift.worst} flows on one link, and {ideal} would do: {shift.link}")
    return wrong


def _few(names: Iterable[str], most: int = 4) -> str:
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")
