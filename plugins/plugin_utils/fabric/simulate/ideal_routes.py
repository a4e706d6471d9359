# SPDX-License-Identifier: GPL-3.0-or-later
"""Required qualities of a plan's routes, and the qualities of the best routes of an irregular plan.

On a regular tree (all leaves alike, an uplink for every HCA or for each two, every cable there) nothing is idle, all links carry the same
and no shift puts more flows on a link than the oversubscription: those limits hold as they are. On another tree no engine can do that: a
leaf with fewer HCAs than uplinks leaves some of them idle, whoever routes. There every link is judged by what its leaf makes necessary, and
`Ideal.irregular` says why. docs/fabric.md has the rules for who reads the outcome.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_model import COMPUTE, Plan
from ..core.host_tree import DisjointSets
from ..core.places import place
from .route_quality import Metrics, judge, limit

# A link as route_quality.Metrics.loads names it.
_LINK = re.compile(r"(.*) port \d+ to (.*) port \d+\Z")
# The most that a link between upper tiers may carry, to the mean of its kind.
_EVEN = 1.01
# How route_quality.judge begins.
_IDLE, _BUSIEST, _SHIFT, _WAIT = r"^\d+ of \d+ directed links", "^the busiest link", "^shift by", "^links wait"


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
    # Leaf and direction -> the most that a link of it may carry.
    bounds: dict[tuple[str, bool], int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        switches, hcas = self.plan.switches, self.plan.hcas
        compute = {name for name, hca in hcas.items() if hca.plane == self.plane and hca.purpose == COMPUTE}
        compute = compute or {name for name, hca in hcas.items() if hca.plane == self.plane}
        for link in self.plan.links:
            one, other = switches.get(link.a), switches.get(link.b)
            if link.a in compute:
                self.hosts[link.b] += not link.missing
            elif one and other and one.plane == self.plane and one.tier != other.tier:
                low, high = sorted((one, other), key=lambda switch: switch.tier)
                self.uplinks[low.name] += not link.missing
                self.left_out[low.name] += link.missing
                self.above.setdefault(low.name, Counter())[high.name] += not link.missing
        self.hosts = +self.hosts

    @property
    def tiers(self) -> int:
        """Return how many tiers of switches the plane has."""
        return len({switch.tier for switch in self.plan.switches.values() if switch.plane == self.plane})

    def judged(self, metrics: Metrics, *, order: str = "leaf", lanes: bool = False) -> list[str]:
        """Return the problems of routes, as route_quality.judge does; `lanes`: the engine prevents circles by several lanes.

        On a regular plan the limits hold as they are. A dragonfly is no tree: what is reached and circles are all that is judged.
        """
        reasons = self.irregular()
        # On three tiers an HCA that is moved takes another way twice: up from its leaf, and down from the cores.
        allowed = math.ceil(self.plan.oversubscription) + self.moved * max(1, self.tiers - 1)
        wrong = judge(metrics, tiers=self.tiers, oversubscription=allowed, order=order)
        fine = {_WAIT: lanes}
        if self.plan.kind == "dragonfly":
            fine |= {_IDLE: True, _BUSIEST: True, _SHIFT: True}
        elif reasons:
            heavy, idle = self.excess(metrics.loads)
            # Below cores, a cable that is left out moves ways of leaves far away: shifts tell of it, loads do not.
            fine |= {_IDLE: not idle, _BUSIEST: not heavy or (self.tiers > 2 and self.moved > 0)}
        return [one for one in wrong if not any(may and re.search(sign, one) for sign, may in fine.items())]

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

    def excess(self, loads: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """Return the links that carry more than needed, and the idle links that could carry more."""
        heavy, idle = [], dict[tuple[str, bool], list[str]]()
        kinds: dict[tuple[int, int], dict[str, int]] = {}
        for name, load in loads.items():
            ends = _LINK.match(name)
            one, other = (self.plan.switches.get(end) for end in (ends.groups() if ends else ("", "")))
            if not one or not other:
                continue
            low, up = (one, True) if one.tier < other.tier else (other, False)
            if not self.hosts[low.name]:
                if one.tier != other.tier and low.tier > 1:
                    kinds.setdefault((one.tier, other.tier), {})[name] = load
                continue
            if load > self._most(low.name, up=up):
                heavy.append(name)
            if not load:
                idle.setdefault((low.name, up), []).append(name)
        over = {key: len(names) - self._spare(key[0], up=key[1]) for key, names in idle.items()}
        over = {key: count for key, count in over.items() if count > 0}
        # A way that is moved between the upper tiers may leave a link of any leaf idle, and no more than one.
        few_moved = self.tiers > 2 and sum(over.values()) <= self.moved
        spare = [] if few_moved else [name for key in over for name in idle[key]]
        if self._full() and not self.moved:
            for kind in kinds.values():
                mean = sum(kind.values()) / len(kind)
                heavy += [name for name, load in kind.items() if load > _EVEN * mean]
                spare += [name for name, load in kind.items() if not load]
        return heavy, spare

    def _full(self) -> bool:
        """Return whether all leaves are alike, with an uplink or several for each HCA."""
        return len({(self.hosts[leaf], self.uplinks[leaf]) for leaf in self.hosts}) == 1 and all(
            self.hosts[leaf] % self.uplinks[leaf] == 0 for leaf in self.hosts if self.uplinks[leaf]
        )

    @property
    def moved(self) -> int:
        """Return how many HCAs at most are reached by another way because of cables that the plan leaves out.

        OpenSM moves each to links that have their share already, and not always to that with the least: a link may carry each of them.
        """
        planned = self.uplinks + self.left_out
        usual = math.ceil(self.plan.oversubscription)
        return sum(
            count * (math.ceil(self.hosts[low] / planned[low]) if self.hosts[low] else usual)
            for low, count in self.left_out.items()
        )

    def _most(self, leaf: str, *, up: bool) -> int:
        """Return what the busiest link of a leaf may carry when the HCAs of each leaf are spread over all of its uplinks."""
        if (leaf, up) not in self.bounds:
            mine, total = self.hosts[leaf], sum(self.hosts.values())
            links = self.uplinks[leaf] + self.left_out[leaf] or 1
            if up:
                # Ways to every other leaf that the leaf's own cables were for are moved, too.
                each = 1 + self.left_out[leaf]
                others = sum(math.ceil(count / links) for other, count in self.hosts.items() if other != leaf)
                self.bounds[leaf, up] = mine * (others * each + self.moved)
            else:
                self.bounds[leaf, up] = (math.ceil(mine / links) + self.moved) * (total - mine)
        return self.bounds[leaf, up]

    def _spare(self, leaf: str, *, up: bool) -> int:
        """Return how many uplinks of a leaf can be idle, one way.

        A cable that is left out moves its HCA to a link that has its share already, and not to one that is idle: so those that are
        idle with all cables there stay it.
        """
        others = [count for other, count in self.hosts.items() if other != leaf]
        behind = others if up or not others else [self.hosts[leaf]]
        return max(0, self.uplinks[leaf] + self.left_out[leaf] - max(behind, default=0))
