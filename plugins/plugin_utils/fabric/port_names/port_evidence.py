# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose how the ports of each planned switch are numbered, by all names that LLDP has of them.

A switch has up to two sets of names: those of its own answer, and those that it sends to its neighbours, which with SONiC are aliases. If
several dialects fit a set, the one by which the most cables are planned cables is right; if two are equal, it is unclear, and no cable of
the switch is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import Neighbour

from ..core.fabric_model import Plan, Switch, by_switch
from ..core.node_descriptions import natural
from .port_dialects import Reading, dialects, is_management, readings, rows_for

# Names in a finding.
_SHOWN = 4


@dataclass(frozen=True)
class Report:
    """One line of an answer: the device that was queried, its neighbour, and the neighbour's name without its domain."""

    box: str
    neighbour: Neighbour
    far: str


@dataclass(frozen=True)
class _Seen:
    """The name of a switch's port, with the device and the port at the other end."""

    name: str
    far: str
    far_port: str


class PortEvidence:
    """Numbers of the ports of all planned switches. `findings` has one for each switch in `unclear`."""

    def __init__(self, plan: Plan, reports: Sequence[Report], step: int = 1, stated: str = "") -> None:
        self.plan, self.step, self.stated = plan, step, stated
        self.planned = by_switch(plan.present)
        self.unclear: set[str] = set()
        self.findings: list[Finding] = []
        self._own: dict[str, dict[str, int]] = {}
        self._sent: dict[str, dict[str, int]] = {}
        # Switches that send the names of their ports as descriptions.
        self._by_description: set[str] = set()
        own: dict[str, list[Report]] = {}
        sent: dict[str, list[Report]] = {}
        for one in reports:
            if one.box in plan.switches:
                own.setdefault(one.box, []).append(one)
            if one.far in plan.switches:
                sent.setdefault(one.far, []).append(one)
        for name, switch in plan.switches.items():
            system = next((one.neighbour.system for one in sent.get(name, ()) if one.neighbour.system), "")
            self._own[name] = self._numbers(switch, _own(own.get(name, ())), system)
            self._sent[name] = self._numbers(switch, self._sent_by(name, sent.get(name, ())), system)

    def of_own(self, switch: str, interface: str) -> int:
        """Return the number of a port by the switch's own name for it, 0 without a number."""
        return self._own[switch].get(interface, 0)

    def of_sent(self, switch: str, neighbour: Neighbour) -> int:
        """Return the number of the port that a neighbour reports of the switch, 0 without a number."""
        return self._sent[switch].get(self.sent_name(switch, neighbour), 0)

    def sent_name(self, switch: str, neighbour: Neighbour) -> str:
        """Return the name of the port that a neighbour reports of the switch."""
        return neighbour.port_description if switch in self._by_description else neighbour.port_name

    def _sent_by(self, switch: str, reports: Iterable[Report]) -> list[_Seen]:
        listed = list(reports)
        names = [one.neighbour.port_name for one in listed if not is_management(one.neighbour.port_name)]
        described = [
            one.neighbour.port_description for one in listed if not is_management(one.neighbour.port_description)
        ]
        # Junos sends an index and describes the port by its name.
        if not rows_for(names) and all(described) and rows_for(described):
            self._by_description.add(switch)
        return [_Seen(self.sent_name(switch, one.neighbour), one.box, one.neighbour.interface) for one in listed]

    def _numbers(self, switch: Switch, seen: Sequence[_Seen], system: str) -> dict[str, int]:
        used = [one for one in seen if one.name and not is_management(one.name)]
        if not used or switch.name in self.unclear:
            return {}
        names = sorted({one.name for one in used}, key=natural)
        fits = readings(names, switch.ports, switch.lanes, system=system, step=self.step, stated=self.stated)
        scores = {number: self._score(switch.name, one, used) for number, one in enumerate(fits)}
        best = max(scores.values(), default=0)
        right = [one for number, one in enumerate(fits) if scores[number] == best]
        if len(right) == 1:
            return right[0].numbers
        self.unclear.add(switch.name)
        self.findings.append(self._unclear(switch, names, right, system))
        return {}

    def _score(self, switch: str, reading: Reading, used: Iterable[_Seen]) -> int:
        """Return how many cables are planned cables by a reading; one to the planned adapter counts more than one to its host."""
        found = 0
        for one in used:
            peer = self.planned.get(switch, {}).get(reading.numbers[one.name], ("", 0))[0]
            hca = self.plan.hcas.get(peer)
            host, device = (hca.host, hca.device) if hca else (peer, "")
            if host == one.far:
                found += 2 if device == one.far_port else 1
        return found

    def _unclear(self, switch: Switch, names: Sequence[str], fits: Sequence[Reading], system: str) -> Finding:
        rows, shown = rows_for(names, system), list(names)
        if fits:
            why = f"fit {few((str(one) for one in fits), _SHOWN)} equally well"
        elif rows:
            # One name may be the reason, such as that of a port beyond the last.
            shown = [name for name in names if not readings([name], switch.ports, switch.lanes, system=system)] or shown
            why = f"fit {few((row.name for row in rows), _SHOWN)}, and not {switch.ports} ports with {switch.lanes} to a cage"
        else:
            most = max(dialects(), key=lambda row: sum(bool(row.pattern.fullmatch(name)) for name in names))
            odd = [name for name in names if not most.pattern.fullmatch(name)]
            mixed = len(odd) < len(names)
            shown, why = (
                odd,
                f"fit no known system; most fit {most.name}, and these do not" if mixed else "fit no known system",
            )
        cables = sum(switch.name in (link.a, link.b) for link in self.plan.present)
        text = f"the names of its ports {why}: {few(shown, _SHOWN)}; its {cables} planned cables were not compared"
        return Finding("unclear", self.plan.where(switch.name), "", text, self._remedy(fits, system, bool(rows)), ERROR,
                       ports=((switch.name, 0),))  # fmt: skip

    @staticmethod
    def _remedy(fits: Sequence[Reading], system: str, is_known: bool) -> str:
        names = dict.fromkeys(one.dialect.name for one in fits)
        if len(names) == 1 and all(one.dialect.steps for one in fits):
            return "state the step of its port numbers: -e fabric_port_step=N"
        if fits:
            more = "; for one system alone, save the LLDP answers of more of its neighbours" if len(names) == 1 else ""
            return f"state the names that it uses: -e fabric_port_dialect={'|'.join(names)}{more}"
        if is_known:
            return "state fabric.switch_ports and fabric.cage_ports as its names count ports and cages"
        known = [row.remedy for row in dialects() if row.remedy and row.recognised.search(system)]
        return (
            known[0]
            if known
            else "compare the names with the table in docs/fabric.md, and let the switch send one of these"
        )


def _own(reports: Iterable[Report]) -> list[_Seen]:
    return [_Seen(one.neighbour.interface, one.far, one.neighbour.port_name) for one in reports]
