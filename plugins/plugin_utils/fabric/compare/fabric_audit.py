# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit a discovered fabric without a plan, by its own measure; any tool may have discovered it.

Nothing says what the fabric was meant to be, so each check compares a part with the like parts: a leaf with the other leaves of its pod, a
cable with the other cables of its kind. A check that has nothing to compare with claims nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery

from ..core.fabric_model import COMPUTE, Hca, Link, Plan, Switch
from ..core.node_descriptions import natural
from ..core.places import End, counted, ordered
from .merge import MergedDiscovery, Port, merge
from .plan_of_discovery import plan_of
from .reachability import components

# Values of `Finding.kind` that only an audit has, and their meanings.
AUDIT_KINDS = {
    "one-sided": "only one end reports the cable",
    "mixed-speed": "the cable has another speed than most of its kind",
    "rail-mix": "a leaf of one rail holds adapters of other rails",
    "uneven": "a leaf has more or fewer uplinks than its like, or uneven ones",
    "leaf-to-leaf": "a cable joins two leaves of a fabric with spines",
}

# Share of leaves with one rail above which a fabric is built by rails, and share of a leaf's adapters that make it a leaf of that rail.
_BY_RAILS, _OF_RAIL = 2 / 3, 0.75
# Ports in a finding.
_SHOWN = 8


def audit(
    discoveries: Mapping[str, Discovery],
    *,
    hosts: Iterable[str] | None = None,
    rails: Mapping[tuple[str, str], int] | None = None,
    **patterns: str,
) -> list[Finding]:
    """Return findings about discoveries (plane -> discovery), sorted by severity.

    `hosts` are all hosts of the cluster, if they are known; `rails` has (host, device) -> rail, by default the place of a device among the
    devices of its host. `patterns` are the patterns of `plan_of_discovery.plan_of`.
    """
    plan, findings = plan_of(discoveries, hosts=hosts, **patterns)
    told = [finding for discovery in discoveries.values() for finding in discovery.findings]
    fabric = _Fabric(plan, merge(discoveries), _port_names(discoveries))
    found = [*findings, *told, *_one_sided(fabric), *_speeds(fabric), *_rails(fabric, rails or _ranks(plan))]
    return ordered([*found, *_uplinks(fabric), *_leaf_to_leaf(fabric)])


def _port_names(discoveries: Mapping[str, Discovery]) -> dict[Port, str]:
    nodes = [node for discovery in discoveries.values() for node in discovery.nodes.values()]
    return {(node.guid, port): name for node in nodes for port, name in node.port_names.items()}


@dataclass
class _Fabric:
    """Discovered fabric as a plan, with what only the discovery has."""

    plan: Plan
    merged: MergedDiscovery
    port_names: dict[Port, str]
    guids: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        things: list[Switch | Hca] = [*self.plan.switches.values(), *self.plan.hcas.values()]
        self.guids = {thing.name: thing.guid for thing in things}

    def names(self) -> dict[str, str]:
        """Return GUID -> name."""
        return {guid: name for name, guid in self.guids.items()}

    def describe(self, end: End) -> str:
        """Return a port as text, by the name that its switch gives to it."""
        name, port = end
        if name in self.plan.hcas:
            return name
        own = self.port_names.get((self.guids[name], port))
        return f"{name} {own}" if own else f"{name} port {port}"

    def tier(self, name: str) -> int:
        return self.plan.switches[name].tier if name in self.plan.switches else 0

    def above(self) -> dict[str, Counter[str]]:
        """Return leaf -> switch of the tier above -> cables to it."""
        found: dict[str, Counter[str]] = {name: Counter() for name in self.plan.switches if self.tier(name) == 1}
        for link in self.plan.links:
            for one, other in ((link.a, link.b), (link.b, link.a)):
                if one in found and self.tier(other) == 2:
                    found[one][other] += 1
        return found


def _one_sided(fabric: _Fabric) -> Iterable[Finding]:
    names = fabric.names()
    for (teller, port), (silent, far) in fabric.merged.half:
        if teller in names and silent in names:
            one, other = (names[teller], port), (names[silent], far)
            text = f"{fabric.describe(one)} reports the cable between the two, and this end does not"
            yield Finding("one-sided", fabric.describe(other), "", text, "discover again; a port that does not report has a fault",
                          WARNING, ports=(one, other))  # fmt: skip


def _speeds(fabric: _Fabric) -> Iterable[Finding]:
    """Report links whose speed differs from that of most links of their kind: to hosts, or between two tiers."""
    rates = {port: "".join(rate) for rate, ports in fabric.merged.rates.items() for port in ports if any(rate)}
    kinds: dict[tuple[int, int], list[tuple[Link, str]]] = {}
    for link in fabric.plan.links:
        told = [rates[port] for name, number in link.ends if (port := (fabric.guids[name], number)) in rates]
        if told:
            low, high = sorted((fabric.tier(link.a), fabric.tier(link.b)))
            kinds.setdefault((low, high), []).append((link, told[0]))
    for listed in kinds.values():
        usual, count = Counter(rate for _link, rate in listed).most_common(1)[0]
        odd: dict[str, list[Link]] = {}
        for link, rate in listed:
            if rate != usual and 2 * count > len(listed):
                odd.setdefault(rate, []).append(link)
        for rate, links in odd.items():
            places = few((fabric.describe(_upper(link)) for link in links), _SHOWN)
            text = f"{counted(len(links), 'cable')} with {rate}: {places}"
            expected = f"{usual} as on {count} of {len(listed)} cables"
            remedy = "if this is not a splitter or an older adapter, reseat the cable at both ends, then replace it"
            ports = tuple(_upper(link) for link in links)
            yield Finding("mixed-speed", _upper(links[0])[0], expected, text, remedy, WARNING, ports=ports)


def _upper(link: Link) -> End:
    return link.ends[1]


def _ranks(plan: Plan) -> dict[tuple[str, str], int]:
    """Return (host, device) -> its place among the devices of its host; a host with fewer or more than most has no ranks."""
    devices: dict[str, list[str]] = {}
    for hca in plan.hcas.values():
        if hca.purpose == COMPUTE:
            devices.setdefault(hca.host, []).append(hca.device)
    usual = Counter(len(listed) for listed in devices.values()).most_common(1)
    found = {}
    for host, listed in devices.items():
        if len(listed) > 1 and len(listed) == usual[0][0]:
            found.update({(host, device): rank for rank, device in enumerate(sorted(listed, key=natural))})
    return found


def _rails(fabric: _Fabric, rails: Mapping[tuple[str, str], int]) -> Iterable[Finding]:
    """Report adapters on a leaf of another rail, if most leaves are leaves of one rail."""
    held: dict[str, list[tuple[End, str, int]]] = {}
    for link in fabric.plan.links:
        hca = fabric.plan.hcas.get(link.a)
        if hca and (rail := rails.get((hca.host, hca.device))) is not None:
            held.setdefault(link.b, []).append((link.ends[1], hca.name, rail))
    main = {leaf: Counter(rail for _end, _name, rail in listed).most_common(1)[0] for leaf, listed in held.items()}
    of_rail = {leaf: rail for leaf, (rail, count) in main.items() if count >= _OF_RAIL * len(held[leaf]) and count > 1}
    if len(of_rail) < 2 or len(set(of_rail.values())) < 2 or len(of_rail) < _BY_RAILS * len(held):
        return
    for leaf, listed in held.items():
        other = [(end, name, rail) for end, name, rail in listed if rail != of_rail.get(leaf)]
        if not other:
            continue
        places = few((f"{name} in {fabric.describe(end)}" for end, name, _rail in sorted(other)), _SHOWN)
        whose = f"adapters of rail {of_rail[leaf]} alone" if leaf in of_rail else "adapters of one rail"
        ports = tuple(end for end, _name, _rail in other)
        text, remedy = f"{len(other)} of other rails: {places}", "move these cables to the leaves of their rails"
        yield Finding("rail-mix", leaf, whose, text, remedy, WARNING, ports=ports)


def _uplinks(fabric: _Fabric) -> Iterable[Finding]:
    """Report leaves with another number of uplinks than most of their pod, and leaves with uneven uplinks."""
    above = fabric.above()
    for pod in components(_edges(above)):
        leaves = [name for name in pod if name in above]
        totals = Counter(above[name].total() for name in leaves)
        usual = max(totals, key=lambda total: (totals[total], total))
        highs = sorted({high for name in leaves for high in above[name]}, key=natural)
        for name in sorted(leaves, key=natural):
            counts = {high: above[name][high] for high in highs}
            shown = few((f"{high} {count}" for high, count in counts.items()), _SHOWN)
            if above[name].total() != usual:
                expected, text = (
                    f"{usual} uplinks as {totals[usual]} of {len(leaves)} leaves have",
                    f"{above[name].total()}: {shown}",
                )
                remedy = "look for dead or missing cables"
            elif max(counts.values()) - min(counts.values()) > (1 if usual % len(highs) else 0):
                expected, text, remedy = "", f"uneven uplinks: {shown}", "give each spine as many cables"
            else:
                continue
            yield Finding("uneven", name, expected, text, remedy, WARNING, ports=((name, 0),))


def _edges(above: Mapping[str, Counter[str]]) -> dict[End, End]:
    """Return a cable of each leaf and spine in both directions, with made-up ports."""
    found: dict[End, End] = {}
    pairs = [(low, high) for low, highs in above.items() for high in highs]
    for number, (low, high) in enumerate(pairs):
        found[low, number], found[high, number] = (high, number), (low, number)
    return found


def _leaf_to_leaf(fabric: _Fabric) -> Iterable[Finding]:
    if fabric.plan.tiers < 2:
        return
    for link in fabric.plan.links:
        if fabric.tier(link.a) == fabric.tier(link.b) == 1:
            one, other = link.ends
            text = f"a cable to {fabric.describe(other)}, past the spines"
            remedy = "remove it, unless the two are a pair on purpose (MLAG)"
            yield Finding("leaf-to-leaf", fabric.describe(one), "", text, remedy, WARNING, ports=link.ends)
