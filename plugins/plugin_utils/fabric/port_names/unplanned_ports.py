# SPDX-License-Identifier: GPL-3.0-or-later
"""Number the ports of switches that no plan has, by the names that LLDP has of them.

Without a plan neither the number of ports nor the ports to a cage are known. So of all readings by which every name has a number, the one
is right by which the switch's own answer and its neighbours name the same ports, with the fewest ports to a cage, then the fewest ports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.node_descriptions import natural
from .port_dialects import Reading, dialects, is_management, is_port_of_switch, readings, rows_for
from .port_evidence import Report

# The most ports that the cluster file takes, and the ports to a cage that breakout cables make.
_MOST, _LANES = 1024, (1, 2, 4, 8)
_SHOWN = 4


@dataclass(frozen=True)
class UnplannedSwitch:
    """The numbers of a switch's ports, by its own names and by the names that it sends; `ports` and `lanes` are what they need at least.

    `doubt` names the readings that fit equally well, and `odd` the names that have no number: then all ports have their ranks.
    """

    own: Mapping[str, int] = field(default_factory=dict)
    sent: Mapping[str, int] = field(default_factory=dict)
    by_description: bool = False
    ports: int = 0
    lanes: int = 1
    doubt: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()

    def of_own(self, name: str) -> int:
        """Return the number of a port by the switch's own name for it, 0 without a number."""
        return self.own.get(name, 0)

    def of_sent(self, report: Report) -> int:
        """Return the number of the port that a neighbour reports, 0 without a number."""
        return self.sent.get(sent_name(report, self.by_description), 0)


def sent_name(report: Report, by_description: bool) -> str:
    """Return the name of the port that a neighbour reports of a switch."""
    return report.neighbour.port_description if by_description else report.neighbour.port_name


def unplanned_switches(listed: Sequence[Report], known: Collection[str], step: int = 1) -> dict[str, UnplannedSwitch]:
    """Return the devices that are switches by the names of their ports, without the known ones."""
    own: dict[str, list[Report]] = {}
    sent: dict[str, list[Report]] = {}
    for one in listed:
        own.setdefault(one.box, []).append(one)
        sent.setdefault(one.far, []).append(one)
    found = {}
    for box in {**own, **sent}:
        if box and box not in known:
            names = _Names(own.get(box, []), sent.get(box, []))
            if names.are_of_switch():
                found[box] = names.switch(step)
    # Switches of one fabric are mostly of one model, and LLDP shows only ports with neighbours.
    usual = max((one.ports for one in found.values() if one.ports < _MOST), default=0)
    return {box: replace(one, ports=max(one.ports, usual)) for box, one in found.items()}


def port_findings(switches: Mapping[str, UnplannedSwitch], title: str) -> Iterator[Finding]:
    """Yield a finding for ports without numbers, and one for ports whose numbers are not certain."""
    odd = {box: one.odd for box, one in switches.items() if one.odd}
    if odd:
        names = few((f"{name} of {box}" for box, listed in odd.items() for name in listed), _SHOWN)
        text = f"the names of ports of {few(odd)} fit no known system, so these ports have no numbers: {names}"
        remedy = "compare the names with the table in docs/fabric.md, and let the switch send one of these"
        yield Finding("unclear", title, "", text, remedy, ERROR, ports=tuple((box, 0) for box in odd))
    doubts: dict[tuple[str, ...], list[str]] = {}
    for box, one in switches.items():
        if one.doubt:
            doubts.setdefault(one.doubt, []).append(box)
    for (first, *others), boxes in doubts.items():
        text = f"the names of ports of {few(boxes)} were read as {first}, and fit {few(others, _SHOWN)} equally well"
        remedy = "if the numbers in the list are wrong, state the step of port numbers of SONiC: -e fabric_port_step=N"
        yield Finding("unclear", title, "", text, remedy, WARNING, ports=tuple((box, 0) for box in boxes))


class _Names:
    """All names of the ports of one device, without ports for people."""

    def __init__(self, own: Iterable[Report], sent: Iterable[Report]) -> None:
        listed = list(sent)
        names = [one.neighbour.port_name for one in listed if not is_management(one.neighbour.port_name)]
        described = [text for one in listed if not is_management(text := one.neighbour.port_description)]
        # Junos sends an index and describes the port by its name.
        self.by_description = not rows_for(names) and all(described) and bool(rows_for(described))
        self.system = next((one.neighbour.system for one in listed if one.neighbour.system), "")
        # Name of a port -> the device and its interface at the other end.
        self.own = {
            one.neighbour.interface: (one.far, one.neighbour.port_name)
            for one in own
            if not is_management(one.neighbour.interface)
        }
        self.sent = {
            name: (one.box, one.neighbour.interface)
            for one in listed
            if (name := sent_name(one, self.by_description)) and not is_management(name)
        }

    def are_of_switch(self) -> bool:
        return is_port_of_switch(self.own or self.sent) or any(row.recognised.search(self.system) for row in dialects())

    def switch(self, step: int) -> UnplannedSwitch:
        """Return the numbers: of the reading that fits best, else the ranks of the names."""
        for lanes in _LANES:
            pairs = list(product(self._readings(self.own, lanes, step), self._readings(self.sent, lanes, step)))
            if pairs:
                return self._best(pairs, lanes)
        every = sorted({*self.own, *self.sent}, key=natural)
        ranks = {name: rank for rank, name in enumerate(every, 1)}
        fits = {name for name in every if rows_for([name], self.system)}
        odd = tuple(name for name in every if name not in fits) or tuple(every)
        return UnplannedSwitch(ranks, ranks, self.by_description, _even(len(ranks), 1), odd=odd)

    def _readings(self, names: Iterable[str], lanes: int, step: int) -> list[Reading | None]:
        listed = sorted(names, key=natural)
        if not listed:
            return [None]
        return [*readings(listed, _MOST, lanes, system=self.system, step=step)]

    def _best(self, pairs: Sequence[tuple[Reading | None, Reading | None]], lanes: int) -> UnplannedSwitch:
        def numbers(one: Reading | None) -> Mapping[str, int]:
            return one.numbers if one else {}

        def agreed(pair: tuple[Reading | None, Reading | None]) -> int:
            ends = {end: numbers(pair[1])[name] for name, end in self.sent.items()}
            return sum(ends.get(end) == numbers(pair[0])[name] for name, end in self.own.items())

        def most(pair: tuple[Reading | None, Reading | None]) -> int:
            return max((number for one in pair for number in numbers(one).values()), default=0)

        best = max(map(agreed, pairs))
        fits = sorted((pair for pair in pairs if agreed(pair) == best), key=most)
        own, sent = fits[0]
        on_cards = any(one and "line cards" in one.detail for one in fits[0])
        texts = tuple(dict.fromkeys(str(pair[0] or pair[1]) for pair in fits))
        return UnplannedSwitch(
            numbers(own),
            numbers(sent),
            self.by_description,
            # The number of a port on a line card follows from the size of all cards.
            _MOST if on_cards else _even(most(fits[0]), lanes),
            lanes,
            texts if len(texts) > 1 else (),
        )


def _even(ports: int, lanes: int) -> int:
    """Return a number of ports in whole cages, at least two."""
    size = max(2, lanes)
    return max(size, -(-ports // size) * size)
