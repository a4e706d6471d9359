# SPDX-License-Identifier: GPL-3.0-or-later
"""Find planned parts that are not reached: islands, switches that are off with the nodes behind them, and undiscovered parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import Plan
from ..core.places import End
from .identify import IdentifiedFabric


@dataclass
class UnreachedParts:
    """Planned names that were not reached, described by `findings`."""

    dark: set[str] = field(default_factory=set)
    findings: list[Finding] = field(default_factory=list)


def unreached_parts(plan: Plan, seen: IdentifiedFabric, ports: Mapping[End, End]) -> UnreachedParts:
    """Return the unreached parts of the plan; `ports` are the discovered cables."""
    return _ReachabilityCheck(plan, seen, ports).run()


class _ReachabilityCheck:
    def __init__(self, plan: Plan, seen: IdentifiedFabric, ports: Mapping[End, End]) -> None:
        self.plan, self.seen = plan, seen
        self.parts = components(ports)
        self.part_of = {name: number for number, names in enumerate(self.parts) for name in names}
        for name in seen.reported:
            if name in plan.switches and name not in self.part_of:
                self.part_of[name] = len(self.parts)
                self.parts.append([name])
        # Switches whose only neighbours did not respond.
        self.unknown: set[str] = set()
        self.found = UnreachedParts()

    # Computed only if something is not reached.
    @cached_property
    def near(self) -> dict[str, set[str]]:
        """Return switch -> switches that its planned cables go to."""
        found: dict[str, set[str]] = {name: set() for name in self.plan.switches}
        for link in self.plan.present:
            if link.a in found and link.b in found:
                found[link.a].add(link.b)
                found[link.b].add(link.a)
        return found

    @cached_property
    def behind(self) -> dict[str, list[str]]:
        """Return switch -> HCAs that are planned below it."""
        found: dict[str, list[str]] = {name: [] for name in self.plan.switches}
        for link in self.plan.present:
            if link.a in self.plan.hcas and link.b in found:
                found[link.b].append(link.a)
        return found

    def run(self) -> UnreachedParts:
        main: set[int] = set()
        absent: list[str] = []
        for plane in self.plan.planes:
            switches = [switch.name for switch in self.plan.switches.values() if switch.plane == plane]
            sizes: dict[int, int] = {}
            for name in switches:
                if name in self.part_of:
                    sizes[self.part_of[name]] = sizes.get(self.part_of[name], 0) + 1
            if sizes:
                main.add(max(sizes, key=lambda number: (sizes[number], len(self.parts[number]))))
            else:
                self._undiscovered(plane, switches)
            absent += [name for name in switches if name not in self.part_of and sizes]
        for number, names in enumerate(self.parts):
            if number not in main:
                self._island(names)
        self._absent(absent)
        self._mute()
        return self.found

    def _undiscovered(self, plane: str, switches: Iterable[str]) -> None:
        names = list(switches)
        self._darken(names)
        of_plane = f"of plane {plane} " if plane else ""
        text = f"nothing {of_plane}was discovered: none of {len(names)} switches, {few(names)}"
        remedy = "discover from an HCA there whose port is up (ibnetdiscover -C, -P)"
        where = f"plane {plane}" if plane else self.plan.name
        self._add("partial", where, text, remedy, names)

    def _island(self, names: Iterable[str]) -> None:
        """Report a part with switches; a lone HCA is reported as a missing cable."""
        known = [name for name in names if name in self.plan.switches]
        if not known:
            return
        self.found.dark.update(known)
        inside, told = set(names), self.seen.reported
        if not any(name in told or other in told for name in known for other in self.near[name] - inside):
            # The nodes that could report the cables out of the island did not respond.
            return
        hosts = sum(name in self.plan.hcas for name in names)
        text = f"{self._and_hcas(known, hosts)} reach each other, but not the rest of the fabric"
        self._add("isolated", self.plan.where(known[0]), text, "check the cables that leave the island", known)

    def _absent(self, absent: list[str]) -> None:
        """Report switches that were not discovered. A switch that is only behind others is reported with those."""
        hidden = {name for name in absent if not any(other in self.part_of for other in self.near[name])}
        # Behind nodes that did not respond, nothing can be known.
        unknown = self.unknown = self._behind_mute(absent)
        self._darken(unknown)
        left = dict.fromkeys(name for name in absent if name not in unknown)
        while left:
            group, stack = [], [next(iter(left))]
            while stack:
                name = stack.pop()
                if name in left:
                    del left[name]
                    group.append(name)
                    stack += [
                        other for other in self.near[name] if other in left and (name in hidden or other in hidden)
                    ]
            group.sort(key=list(self.plan.switches).index)
            self._darken(group)
            front = next((name for name in group if name not in hidden), group[0])
            hosts = sum(not self._seen(hca) for name in group for hca in self.behind[name])
            text = f"{self._and_hcas(group, hosts)}: {'it was' if len(group) == 1 else 'they were'} not discovered"
            remedy = "check power and management of the switch, then all its cables"
            self._add("isolated", self.plan.where(front), text, remedy, group)

    def _behind_mute(self, absent: Iterable[str]) -> set[str]:
        """Return switches whose only neighbours did not respond, directly or transitively."""
        around = {name: {*self.near[name], *self.behind[name]} for name in absent}
        left = {name for name, others in around.items() if not others & self.seen.reported}
        found: set[str] = set()
        step = {name for name in left if around[name] & self.seen.silent}
        while step:
            found |= step
            step = {name for name in left - found if around[name] & step}
        return found

    def _mute(self) -> None:
        names = [name for name in (*self.plan.switches, *self.plan.hcas) if name in self.seen.silent]
        if names:
            text = f"{len(names)} nodes are named by others and did not report themselves: {few(names)}; "
            lost = self._unknown_cables()
            text += f"{lost} planned cables are unknown" if lost else "everything behind them is unknown"
            remedy = "the discovery was cut off, or they do not answer: discover again"
            self._add("partial", self.plan.where(names[0]), text, remedy, names, ERROR if lost else WARNING)

    def _unknown_cables(self) -> int:
        """Return the number of planned cables that no node reported, since both ends, or the nodes before them, did not respond."""
        silent, told, ports = self.seen.silent | self.unknown, self.seen.reported, self.seen.ports
        return sum(
            1
            for link in self.plan.present
            if not {link.a, link.b} & told and {link.a, link.b} & silent and not ports.keys() & set(link.ends)
        )

    def _seen(self, name: str) -> bool:
        return name in self.seen.reported or name in self.seen.silent

    def _darken(self, switches: Iterable[str]) -> None:
        for name in switches:
            self.found.dark.add(name)
            self.found.dark.update(hca for hca in self.behind[name] if not self._seen(hca))

    def _and_hcas(self, switches: list[str], hosts: int) -> str:
        return few(switches) + (f" and the {hosts} HCAs below" if hosts else "")

    def _add(self, kind: str, where: str, found: str, remedy: str, names: Iterable[str], severity: str = ERROR) -> None:
        ports = tuple((name, 0) for name in names)
        self.found.findings.append(Finding(kind, where, "", found, remedy, severity, ports=ports))


def components(ports: Mapping[End, End]) -> list[list[str]]:
    """Return the sets of connected nodes, always in the same order; `ports` has each cable in both directions."""
    # Sets would have another order in each run, and so would the text about an island.
    near: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for (one, _unused), (other, _unused) in ports.items():
        near[one][other] = None
    left, found = dict.fromkeys(near), []
    while left:
        members: list[str] = []
        stack: list[str] = [next(iter(left))]
        while stack:
            name = stack.pop()
            if name in left:
                del left[name]
                members.append(name)
                stack += near[name]
        found.append(members)
    return found
