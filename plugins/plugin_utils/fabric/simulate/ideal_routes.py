# SPDX-License-Identifier: GPL-3.0-or-later
"""Limits that cables set: the least load of the busiest link under any routes, and why links cannot all carry the same.

On a regular tree (all leaves alike, an uplink for every HCA or for each two, every cable there) nothing is idle, all links carry the same
and no shift puts more flows on a link than the oversubscription. On another tree no engine can do that, and `Ideal.irregular` says why.
docs/fabric.md has the rules for who reads the outcome.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import COMPUTE, Plan
from ..core.host_tree import DisjointSets
from ..core.places import place
from .route_quality import limit


@dataclass
class Ideal:
    """A plane's switches: compute HCAs of each leaf, and cables up, without cables that the plan leaves out."""

    plan: Plan
    plane: str
    hosts: Counter[str] = field(default_factory=Counter)
    uplinks: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    # Switch -> switches above it -> cables.
    above: dict[str, Counter[str]] = field(default_factory=dict)
    # Switch -> all switches that it is joined with -> cables; and how many there are in all.
    joined: dict[str, Counter[str]] = field(default_factory=dict)
    out: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        switches, hcas = self.plan.switches, self.plan.hcas
        compute = {name for name, hca in hcas.items() if hca.plane == self.plane and hca.purpose == COMPUTE}
        compute = compute or {name for name, hca in hcas.items() if hca.plane == self.plane}
        for link in self.plan.links:
            one, other = switches.get(link.a), switches.get(link.b)
            if link.a in compute:
                self.hosts[link.b] += not link.missing
                continue
            if one and other and one.plane == self.plane and not link.missing:
                for near, far in (link.a, link.b), (link.b, link.a):
                    self.joined.setdefault(near, Counter())[far] += 1
                    self.out[near] += 1
            if one and other and one.plane == self.plane and one.tier != other.tier:
                low, high = sorted((one, other), key=lambda switch: switch.tier)
                self.uplinks[low.name] += not link.missing
                self.left_out[low.name] += link.missing
                self.above.setdefault(low.name, Counter())[high.name] += not link.missing
        self.hosts = +self.hosts

    @property
    def tiers(self) -> int:
        """Return how many tiers of switches the plane has."""
        return len({switch.tier for switch in self.plan.switches.values() if switch.plane == self.plane})

    def bound(self) -> int:
        """Return the flows that the busiest link has under any routes, when every HCA sends to every other.

        Flows out of a part of the fabric (a leaf, a pod, a dragonfly's group) share the cables out of it, and so do flows into it. A
        leaf sends the flows of all of its HCAs to another HCA over one cable.
        """
        total = sum(self.hosts.values())
        found = [0]
        for leaf, count in self.hosts.items():
            if cables := self.out[leaf]:
                found += [count * math.ceil((total - count) / cables), math.ceil(count * (total - count) / cables)]
        for members in self._parts():
            count = sum(self.hosts[name] for name in members)
            ends = (far in members for name in members for far in self.joined.get(name, Counter()).elements())
            if cables := sum(not inside for inside in ends):
                found.append(math.ceil(count * (total - count) / cables))
        return max(found)

    def _parts(self) -> list[set[str]]:
        """Return the switches of each pod of a three-tier tree, or of each group of a dragonfly."""
        mine = [one for one in self.plan.switches.values() if one.plane == self.plane]
        if self.plan.kind == "dragonfly":
            groups: dict[str, set[str]] = {}
            for switch in mine:
                groups.setdefault(switch.group, set()).add(switch.name)
            return list(groups.values())
        if self.tiers < 3:
            return []
        union, low = DisjointSets(), [one.name for one in mine if one.tier < 3]
        for name in low:
            for above in self.above.get(name, ()):
                if self.plan.switches[above].tier < 3:
                    union.join(name, above)
        return [set(names) for names in union.sets(low)]

    def irregular(self) -> list[str]:
        """Return in words why no engine can load all links alike; nothing for a regular plan."""
        if self.plan.kind == "dragonfly":
            return ["a dragonfly is not a tree"]
        return list(self._reasons()) or list(self._pods())

    def _reasons(self) -> Iterator[str]:
        """Yield the switches that are not like the others of their tier."""
        switches, where = self.plan.switches, self.plan.where
        out = [
            place(link.ends[0], self.plan) for link in self.plan.links if link.missing and self.left_out[link.a]
        ]  # an HCA without its cable shows as a leaf with one HCA less
        if out:
            yield f"the plan leaves out the cables of {few(out, 2)}"
        lowest = min((one.tier for one in switches.values() if one.plane == self.plane), default=0)
        leaves = [one.name for one in switches.values() if one.plane == self.plane and one.tier == lowest]
        if len(leaves) > 1 == len(self.hosts) or (len(leaves) == 1 and self.uplinks):
            yield "all HCAs are on one leaf, so nothing goes up"
        if bare := [where(leaf) for leaf in leaves if self.uplinks[leaf] and not self.hosts[leaf]]:
            yield f"no compute HCA is on {few(bare, 2)}"
        if high := [where(name) for name in self.hosts if switches[name].tier > lowest]:
            yield f"compute HCAs are on {few(high, 2)}, above the leaves"
        shapes = {leaf: (self.hosts[leaf], self.uplinks[leaf]) for leaf in leaves if self.hosts[leaf]}
        common, _times = Counter(shapes.values()).most_common(1)[0] if shapes else ((0, 0), 0)
        odd = [f"{where(leaf)} has {shape[0]} on {shape[1]}" for leaf, shape in shapes.items() if shape != common]
        if odd:
            yield f"most leaves have {common[0]} HCAs on {common[1]} uplinks, and {few(odd, 2)}"
        elif common[1] and common[0] % common[1]:
            yield f"{common[0]} HCAs of a leaf cannot be spread evenly over {common[1]} uplinks"
        if not out:
            uneven = [where(name) for name, cables in self.above.items() if len(set(cables.values())) > 1]
            down = Counter[str]()
            for cables in self.above.values():
                down.update(cables)
            for tier in {switches[name].tier for name in down}:
                seen = {name: (down[name], self.uplinks[name]) for name in down if switches[name].tier == tier}
                usual, _times = Counter(seen.values()).most_common(1)[0]
                uneven += [where(name) for name in seen if seen[name] != usual]
            if uneven:
                yield f"cables of {few(uneven, 2)} are not spread evenly"

    def _pods(self) -> Iterator[str]:
        """Yield why cores carry less than leaves do: ways inside a pod end below them."""
        if self.tiers < 3:
            return
        union, total = DisjointSets(), sum(self.hosts.values())
        leaves = [leaf for leaf in self.hosts if self.uplinks[leaf]]
        for leaf in leaves:
            for spine in self.above[leaf]:
                union.join(leaf, spine)
        pods = union.sets(leaves)
        loads: Counter[float] = Counter()
        for leaf in leaves:
            count = self.hosts[leaf]
            loads[count * (total - count) / self.uplinks[leaf]] += self.uplinks[leaf]
        for pod in pods:
            count = sum(self.hosts[leaf] for leaf in pod)
            up = sum(self.uplinks[spine] for spine in {spine for leaf in pod for spine in self.above[leaf]})
            if up:
                loads[count * (total - count) / up] += up
        mean = sum(load * times for load, times in loads.items()) / (sum(loads.values()) or 1)
        if mean and (best := max(loads) / mean) > limit(self.tiers):
            yield f"of {len(pods)} pods so many ways end below the cores that {best:.2f} times the mean is the best"

    def short(self) -> list[str]:
        """Return the leaves that have more HCAs to an uplink than the plan allows, in words."""
        allowed = self.plan.oversubscription
        planned = self.uplinks + self.left_out
        return [
            f"{self.plan.where(leaf)}: {count} HCAs share {planned[leaf]} uplinks, and the plan allows {allowed:g} to one"
            for leaf, count in self.hosts.items()
            if count > allowed * planned[leaf] > 0
        ]
