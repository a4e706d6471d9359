# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the planned fabric with the discovered one: each difference once, with its kind, place and remedy.

Both sides are maps of ports, in the plan's names: `(name, port) -> (name, port)`; `identify` names the nodes, `reachability` finds
unreached parts, and `cable_faults` classifies the faults of the other cables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.gc_pause import suspend_collection
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, SWITCH, Discovery

from ..core.fabric_model import Link, Plan
from ..core.node_descriptions import is_unnamed
from ..core.places import End, describe, ordered, place
from .cable_faults import FaultClassifier, chains
from .identify import IdentifiedFabric, fabric_of, identify_nodes
from .named_by_list import named_by_list
from .rate_findings import rate_findings
from .reachability import unreached_parts

_WHAT = {SWITCH: "a switch", CA: "an HCA"}
# A planned cable, with its lower and its upper end.
Cabled = tuple[Link, End, End]


@dataclass
class Comparison:
    """All differences, sorted by severity, and the planned cables that are correct."""

    findings: list[Finding]
    ok: list[Link] = field(default_factory=list)
    planned: int = 0
    seen: IdentifiedFabric | None = None


@suspend_collection
def comparison(plan: Plan, discoveries: Mapping[str, Discovery]) -> Comparison:
    """Return the differences and the correct cables. A plane may be discovered from several nodes, under any names."""
    plan = _clear_part(plan, {name for discovery in discoveries.values() for name in discovery.unclear})
    discoveries, named = named_by_list(plan, discoveries)
    seen = identify_nodes(plan, discoveries)
    work = _Comparer(plan, seen)
    work.run()
    reported = [finding for discovery in discoveries.values() for finding in discovery.findings]
    return Comparison(ordered([*seen.findings, *reported, *named, *work.found]), work.ok, len(work.cables), seen)


def _clear_part(plan: Plan, unclear: set[str]) -> Plan:
    """Return the plan without the switches whose ports could not be numbered, and without their cables."""
    if not unclear:
        return plan
    links = [link for link in plan.links if link.a not in unclear and link.b not in unclear]
    switches = {name: switch for name, switch in plan.switches.items() if name not in unclear}
    return replace(plan, links=links, switches=switches)


class _Comparer:
    """Comparison in progress. `explained` are the ports that findings cover already, so that nothing is reported twice."""

    def __init__(self, plan: Plan, seen: IdentifiedFabric) -> None:
        self.plan, self.seen = plan, seen
        self.cables: list[Cabled] = [(link, *link.ends) for link in plan.present]
        self.planned: dict[End, End] = {}
        for _link, low, high in self.cables:
            self.planned[low], self.planned[high] = high, low
        self.spare = {end for link in plan.links if link.missing for end in link.ends}
        self.faults = FaultClassifier(plan)
        self.found: list[Finding] = []
        self.ok: list[Link] = []
        self.explained: set[End] = set()

    def run(self) -> None:
        ports = dict(self.seen.ports)
        self._doubles(ports)
        reached = unreached_parts(self.plan, self.seen, ports)
        self.found += reached.findings
        self._right()
        strange = self._strangers()
        broken = {
            end: far
            for end, far in self.planned.items()
            if self.seen.ports.get(end) != far and end not in self.explained and far not in self.explained
        }
        wrong = {
            end: far
            for end, far in self.seen.ports.items()
            if self.planned.get(end) != far and end not in strange and far not in strange
        }
        missing = self._cables(broken, wrong)
        self._missing(missing, reached.dark)

    def _doubles(self, ports: dict[End, End]) -> None:
        """Report GUIDs that two nodes share, and assume that the cables at both are as planned."""
        unseen = {*self.plan.switches, *self.plan.hcas} - self.seen.reported - self.seen.silent
        for guid, places in self.seen.merged.duplicate_guids.items():
            ends = sorted({(self.seen.names[at], port) for at, port in places if at in self.seen.names})
            own = self.seen.names.get(guid, guid)
            # The tool may have found one of the two at its own place, and report the cables of the other one only.
            if own in self.plan.hcas and (own, 1) in self.planned and self.planned[own, 1] not in self.seen.ports:
                ends = sorted({*ends, self.planned[own, 1]})
            nodes = {own: None}
            for end in ends:
                far = self.planned.get(end)
                if far and (far[0] == own or far[0] in unseen):
                    nodes[far[0]] = None
                    ports[end], ports[far] = far, end
                    self.explained.add(far)
            self.explained.update(ends)
            self.seen.reported.update(nodes)
            text = f"the GUID {guid} is at {few(place(end, self.plan) for end in ends)}: {' and '.join(nodes)} have the same"
            remedy = "OpenSM stops because of it: replace one of the two; if a cable was moved during the discovery, discover again"
            self._add("duplicate-guid", ERROR, place(ends[0], self.plan) if ends else own, "", text, remedy,
                      *((name, 0) for name in nodes))  # fmt: skip

    def _right(self) -> None:
        """Check cables that are in their planned ports."""
        ports = self.seen.ports
        right = [cable for cable in self.cables if ports.get(cable[1]) == cable[2]]
        slow, of_rates = rate_findings(self.plan, self.seen.rates, [link for link, _low, _high in right])
        self.found += of_rates
        faulty = self._halves(right) | {link.ends[0] for link in slow}
        # They fit, but whether the names or the cables are wrong is open.
        doubt = {name for one in self.seen.exchanges for name, _port in one.ports}
        if doubt:
            faulty |= {low for _link, low, high in right if low[0] in doubt or high[0] in doubt}
        self.ok = [link for link, low, _high in right if low not in faulty]

    def _halves(self, right: Iterable[Cabled]) -> set[End]:
        """Report cables that only one end reports, and return their lower ends."""
        half = {}
        for (teller, port), (silent, far) in self.seen.merged.half:
            if teller in self.seen.names and silent in self.seen.names:
                one, other = (self.seen.names[teller], port), (self.seen.names[silent], far)
                half[one] = half[other] = (one, other)
        found = set()
        for _link, low, high in right if half else ():
            if low in half:
                one, other = half[low]
                text = f"{describe(one, self.plan)} reports the cable between the two, and this end does not"
                remedy = "discover again; a port that does not report has a fault"
                self._add("half-seen", WARNING, place(other, self.plan), "", text, remedy, low, high)
                found.add(low)
        return found

    def _strangers(self) -> set[End]:
        """Report nodes that are not in the plan, connected ones together; return the ports of their cables."""
        strange: set[End] = set()
        groups: dict[str, list[str]] = {name: [name] for name in self.seen.strangers}
        cables: dict[str, list[End]] = {name: [] for name in self.seen.strangers}
        for end, far in self.seen.ports.items():
            if end[0] in groups:
                strange.update((end, far))
                if far[0] not in groups:
                    cables[end[0]].append(far)
                elif groups[end[0]] is not groups[far[0]]:
                    groups[end[0]] += groups[far[0]]
                    for name in groups[far[0]]:
                        groups[name] = groups[end[0]]
        for group in {id(group): group for group in groups.values()}.values():
            self._stranger(group, sorted(end for name in group for end in cables[name]), strange)
        return strange

    def _stranger(self, group: list[str], ends: list[End], strange: set[End]) -> None:
        first = min(group, key=lambda name: (self.seen.strangers[name] != SWITCH, name))
        kind = _WHAT.get(self.seen.strangers[first], "a router")
        more = f" with {len(group) - 1} more connected to it" if len(group) > 1 else ""
        instead = [end for end in ends if end in self.planned and end not in self.explained]
        expected = describe(self.planned[instead[0]], self.plan) if instead else ""
        other = fabric_of(self.plan, first.rpartition(" [")[0])
        which = f"of fabric {other}" if other else "that the plan does not have"
        here = "" if instead else " is here"
        text = f"{kind} {which}{here}, {first}{more}" if other else f"{kind}{here} {which}, {first}{more}"
        if len(ends) > 1:
            text += f"; it is also at {few(place(end, self.plan) for end in ends if end != (instead or ends)[0])}"
        planes = sorted({self.plan.switches[name].plane for name, _unused in ends if name in self.plan.switches})
        if joined := len(planes) > 1 and self.seen.strangers[first] != CA:
            text += f"; it joins the planes {' and '.join(planes)}"
        self.explained.update(
            end for end in instead if self.planned[end] not in self.seen.ports or self.planned[end] in strange
        )
        where = place((instead or ends)[0], self.plan) if ends else first
        remedy = (
            "follow the cable, and replace it with the planned one"
            if instead
            else "add it to the plan, or disconnect it"
        )
        if other:
            remedy = (
                f"move this cable to fabric {other}, and connect the planned one here" if instead else "disconnect it"
            )
            if self.seen.strangers[first] == CA:
                remedy += (
                    "; if the host counts its cards in another order, name them first (role rdma), and compare again"
                )
        if self._is_nameless(first):
            remedy = "set its NodeDescription (rdma-ndd) and compare again; " + remedy
        if other and self.seen.strangers[first] != CA:
            self._add("joined", ERROR, where, expected, f"{text}; it joins both fabrics to one", remedy, *ends)
            return
        self._add("unknown", ERROR if instead or joined or other else WARNING, where, expected, text, remedy, *ends)

    def _is_nameless(self, stranger: str) -> bool:
        description = stranger.rpartition(" [")[0]
        return self.seen.strangers[stranger] == CA and (description == "unnamed" or is_unnamed(description))

    def _cables(self, broken: Mapping[End, End], wrong: Mapping[End, End]) -> list[tuple[End, End]]:
        """Report the faults of cables, and return the missing ones."""
        missing: list[tuple[End, End]] = []
        loops = {end for end, far in wrong.items() if end == far}
        extras = [(end, end) for end in loops]
        for chain in chains(broken, {end: far for end, far in wrong.items() if end not in loops}):
            findings, gone, extra = self.faults.classify(chain)
            self.found += [self._with_joined_planes(finding, chain.ends, wrong) for finding in findings]
            missing += gone
            extras += extra
        self.found += [self.faults.extra(min(pair), max(pair), bool(self.spare.intersection(pair))) for pair in extras]
        return missing

    def _with_joined_planes(self, finding: Finding, ends: Sequence[End], wrong: Mapping[End, End]) -> Finding:
        """Add the planes that the found cables join."""
        for end in ends:
            if end in wrong and (planes := self.faults.joins(end, wrong[end])):
                return replace(finding, found=f"{finding.found}; this joins the planes {' and '.join(planes)}")
        return finding

    def _missing(self, missing: Sequence[tuple[End, End]], dark: set[str]) -> None:
        """Report missing cables, unless the reason is known or they cannot be discovered; a host without any cable gets one finding."""
        known = self.seen.reported
        told: list[tuple[End, End]] = []
        for one, other in missing:
            silent = one[0] not in known and other[0] not in known
            if one[0] not in dark and other[0] not in dark and not silent:
                told.append((one, other))
        if not told:
            return
        hosts: dict[str, list[tuple[End, End]]] = {}
        for pair in told:
            for name, _unused in pair:
                if name in self.plan.hcas:
                    hosts.setdefault(self.plan.hcas[name].host, []).append(pair)
        cables = Counter(
            self.plan.hcas[link.a].host
            for link, _low, _high in self.cables
            if link.a in self.plan.hcas and link.b not in dark
        )
        dead = {host for host, pairs in hosts.items() if len(pairs) == cables[host] > 1}
        self.found += [self.faults.dead_host(host, hosts[host]) for host in dead]
        for pair in told:
            if not any(name in self.plan.hcas and self.plan.hcas[name].host in dead for name, _unused in pair):
                self.found.append(self.faults.missing(pair, self.seen.ports))

    def _add(self, kind: str, severity: str, where: str, expected: str, found: str, remedy: str, *ports: End) -> None:
        self.found.append(Finding(kind, where, expected, found, remedy, severity, ports=ports))
