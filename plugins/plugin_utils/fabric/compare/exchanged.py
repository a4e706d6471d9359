# SPDX-License-Identifier: GPL-3.0-or-later
"""Find switches and hosts whose names are in each other's place: all cables of one fit the other, and the reverse.

Without this, two exchanged names are as many misplaced cables as both have. Three or more can be in a ring; in a row, the last place has a
node without its name, or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ..core.fabric_model import Link, Plan
from ..core.places import End
from .binding import Binding
from .identified_fabric import EXCHANGED, GUID, NAME, Exchange

# Switches and their neighbours may all be exchanged: leaves are found by their hosts first, then spines by the leaves.
_ROUNDS = 4


class MisplacedCables:
    """Ports of planned cables between nodes with a name: with the planned cable, or with another one.

    `between` and `below` count right and wrong ports, of cables between switches and of cables to adapters. `adapters` are those with
    another cable.
    """

    def __init__(self, binding: Binding) -> None:
        self.between: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.below: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        self.adapters: list[str] = []
        self.guids, self.cables = binding.taken, binding.merged.cables
        hcas = binding.plan.hcas
        # Most fabrics have few wrong cables or none, so the right ones are not counted for all.
        for link in self._wrong(binding.plan.present):
            sort = self.below if link.a in hcas else self.between
            if (self.guids[link.a], link.a_port) in self.cables:
                sort[True][link.a] += 1
                if link.a in hcas:
                    self.adapters.append(link.a)
            if (self.guids[link.b], link.b_port) in self.cables:
                sort[True][link.b] += 1
        if not self.none:
            self._count_right(binding.plan)

    def _wrong(self, links: Iterable[Link]) -> list[Link]:
        """Return links between nodes with a name whose cable was not discovered."""
        guids, cables, found = self.guids, self.cables, []
        for link in links:
            low, high = guids.get(link.a), guids.get(link.b)
            if low and high and cables.get((low, link.a_port)) != (high, link.b_port):
                found.append(link)
        return found

    def _count_right(self, plan: Plan) -> None:
        wrong = self.between[True].keys() | self.below[True].keys()
        for link in plan.present:
            if link.a in wrong or link.b in wrong:
                low, high = self.guids.get(link.a), self.guids.get(link.b)
                if low and high and self.cables.get((low, link.a_port)) == (high, link.b_port):
                    sort = self.below if link.a in plan.hcas else self.between
                    sort[False][link.a] += 1
                    sort[False][link.b] += 1

    @property
    def none(self) -> bool:
        """Return whether all are right."""
        return not self.between[True] and not self.below[True]

    def suspects(self) -> list[str]:
        """Return switches with more wrong cables than right ones, counted with the cables to adapters or without them."""
        (right, wrong), (right_below, wrong_below) = self.between, self.below
        return [
            name
            for name in dict.fromkeys((*wrong, *wrong_below))
            if wrong[name] > right[name] or wrong[name] + wrong_below[name] > right[name] + right_below[name]
        ]

    def strangers(self) -> list[str]:
        """Return switches and adapters without a right cable, and with two or more wrong ones."""
        (right, wrong), (right_below, wrong_below) = self.between, self.below
        return [
            name
            for name in dict.fromkeys((*wrong, *wrong_below))
            if wrong[name] + wrong_below[name] > 1 and not right[name] + right_below[name]
        ]


def name_exchanged_switches(binding: Binding, misplaced: MisplacedCables) -> None:
    """Name switches again whose own names are in each other's place."""
    moves: dict[str, str] = {}
    names = {guid: name for name, guid in binding.taken.items() if name in binding.plan.switches}
    for _round in range(_ROUNDS):
        found: dict[str, str] = {}
        for name in misplaced.suspects():
            named = name in binding.plan.switches and binding.seen.how.get(name) in (NAME, EXCHANGED)
            if named and (place := _place_of_switch(binding, name)):
                found[name] = place
        found = _whole(found, binding.taken)
        if not found:
            break
        binding.rename(found, EXCHANGED)
        misplaced = MisplacedCables(binding)
    for guid, name in names.items():
        if (now := binding.seen.names.get(guid, name)) != name:
            moves[name] = now
    for row in _rows(moves):
        nodes = {moves[name]: binding.merged.nodes[binding.taken[moves[name]]] for name in row}
        fitting = sum(binding.fits(node, place) for place, node in nodes.items())
        cables = sum(len(binding.cables[node.guid]) for node in nodes.values())
        ends: dict[End, None] = {}
        for name in row:
            ends[name, 0] = ends[moves[name], 0] = None
        places = tuple(moves[name] for name in row)
        confirmed = _confirmed(binding, [(name, moves[name]) for name in row])
        exchange = Exchange(tuple(row), places, True, fitting, cables, confirmed, tuple(ends))
        binding.seen.exchanges.append(exchange)


def _place_of_switch(binding: Binding, name: str) -> str:
    """Return the switch whose planned ports at least half of the cables of a switch are in; "" if it is the switch itself, or unknown."""
    fits: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    known: Counter[bool] = Counter()
    for port, (guid, far_port) in binding.cables[binding.taken[name]].items():
        if far := binding.seen.names.get(guid):
            planned, planned_port = binding.planned.get(far, {}).get(far_port, ("", 0))
            known[far in binding.plan.switches] += 1
            if planned in binding.plan.switches and planned_port == port:
                fits[far in binding.plan.switches][planned] += 1
    # Devices of hosts may be numbered in another way, so other switches come first.
    for found, total in ((fits[True], known[True]), (fits[True] + fits[False], known.total())):
        best = found.most_common(2)
        if total < 2 or not best or 2 * best[0][1] < total or (len(best) > 1 and best[1][1] == best[0][1]):
            continue
        return best[0][0] if best[0][0] != name else ""
    return ""


def name_exchanged_hosts(binding: Binding, misplaced: MisplacedCables) -> None:
    """Name the adapters of hosts again that have all cables of another host."""
    hcas, seen = binding.plan.hcas, binding.seen
    found: dict[str, str] = {}
    for host in dict.fromkeys(hcas[name].host for name in misplaced.adapters):
        names = [name for name in binding.adapters[host.lower()] if name in binding.taken]
        places = [binding.place_of(binding.taken[name]) for name in names]
        others = {hcas[place].host if place else "" for place in places}
        named = sum(seen.how[name] not in (GUID,) for name in names)
        if len(names) < 2 or not named or len(others) != 1 or not others.isdisjoint({"", host}):
            continue
        if all(hcas[name].device == hcas[place].device for name, place in zip(names, places, strict=True)):
            found[host] = others.pop()
    if not found:
        return
    found = _whole(found, {hcas[name].host: name for name in binding.taken if name in hcas})
    moves = {
        name: f"{found[host]} {hcas[name].device}"
        for host in found
        for name in binding.adapters[host.lower()]
        if name in binding.taken
    }
    if any(place in binding.taken and place not in moves for place in moves.values()):
        return
    for row in _rows(found):
        pairs = [(name, moves[name]) for name in moves if hcas[name].host in row]
        confirmed = _confirmed(binding, pairs)
        ends = dict.fromkeys((name, 1) for pair in pairs for name in pair)
        there = tuple(found[host] for host in row)
        seen.exchanges.append(Exchange(tuple(row), there, False, len(pairs), len(pairs), confirmed, tuple(ends)))
    binding.rename(moves, EXCHANGED)


def _whole(moves: Mapping[str, str], occupied: Mapping[str, str]) -> dict[str, str]:
    """Return the moves to places that become free: of rings, and of rows whose last place has no node with a name."""
    left = dict(moves)
    while True:
        count = Counter(left.values())
        good = {
            name: place
            for name, place in left.items()
            if count[place] == 1 and (place in left or place not in occupied)
        }
        if len(good) == len(left):
            return good
        left = good


def _rows(moves: Mapping[str, str]) -> Iterable[list[str]]:
    """Yield the rows and then the rings of moves, each in its order."""
    last = set(moves.values())
    done: set[str] = set()
    for start in (*(name for name in moves if name not in last), *moves):
        row, name = [], start
        while name in moves and name not in done:
            done.add(name)
            row.append(name)
            name = moves[name]
        if row:
            yield row


def _confirmed(binding: Binding, pairs: Iterable[tuple[str, str]]) -> str:
    """Return what the GUIDs on record of exchanged nodes confirm: "places", "names", or "" for neither. Pairs are name and place."""
    votes: Counter[str] = Counter()
    for name, place in pairs:
        # Switches are named again already, hosts are not yet.
        guid = binding.taken[place if binding.seen.how.get(place) == EXCHANGED else name]
        recorded = binding.on_record.get(guid, "")
        votes["names"] += recorded == name
        votes["places"] += recorded == place
    if votes["names"] and not votes["places"]:
        return "names"
    return "places" if votes["places"] and not votes["names"] else ""
