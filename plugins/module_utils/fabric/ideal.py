# SPDX-License-Identifier: GPL-3.0-or-later
"""What the best routes of a planned tree come to: a leaf with fewer HCAs than uplinks leaves some of them idle, whoever routes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import COMPUTE, Plan

# A link as routing.Metrics.loads names it.
_LINK = re.compile(r"(.*) port \d+ to (.*) port \d+\Z")
# The most that a link between upper tiers may carry, to the mean of its kind.
_EVEN = 1.01


@dataclass
class Ideal:
    """A plane's leaves: compute HCAs, and uplinks (planned, so that one that is missing shows)."""

    plan: Plan
    plane: str
    hosts: Counter[str] = field(default_factory=Counter)
    uplinks: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        switches, hcas = self.plan.switches, self.plan.hcas
        compute = {name for name, hca in hcas.items() if hca.plane == self.plane and hca.purpose == COMPUTE}
        compute = compute or {name for name, hca in hcas.items() if hca.plane == self.plane}
        for link in self.plan.links:
            low, high = switches.get(link.a), switches.get(link.b)
            if link.a in compute:
                self.hosts[link.b] += not link.missing
            elif low and high and low.tier != high.tier:
                self.uplinks[min(low, high, key=lambda one: one.tier).name] += 1

    def short(self) -> list[str]:
        """Return the leaves that have more HCAs to an uplink than the plan allows, in words."""
        allowed = self.plan.oversubscription
        return [
            f"{self.plan.where(leaf)}: {count} HCAs share {self.uplinks[leaf]} uplinks, and the plan allows {allowed:g} to one"
            for leaf, count in self.hosts.items()
            if count > allowed * self.uplinks[leaf] > 0
        ]

    def excess(self, loads: Mapping[str, int]) -> tuple[list[str], list[str]]:
        """Return the links that carry more than they need to, and those that are idle and need not be."""
        total = sum(self.hosts.values())
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
            if load > self._most(low.name, total, up=up):
                heavy.append(name)
            if not load:
                idle.setdefault((low.name, up), []).append(name)
        spare = [name for (leaf, up), names in idle.items() if len(names) > self._spare(leaf, up=up) for name in names]
        if self._full():
            for kind in kinds.values():
                mean = sum(kind.values()) / len(kind)
                heavy += [name for name, load in kind.items() if load > _EVEN * mean]
                spare += [name for name, load in kind.items() if not load]
        return heavy, spare

    def _full(self) -> bool:
        """Tell whether all leaves are alike, with an uplink or several for each HCA."""
        return len({(self.hosts[leaf], self.uplinks[leaf]) for leaf in self.hosts}) == 1 and all(
            self.hosts[leaf] % self.uplinks[leaf] == 0 for leaf in self.hosts if self.uplinks[leaf]
        )

    def _most(self, leaf: str, total: int, *, up: bool) -> int:
        """Return what the busiest link of a leaf carries when the HCAs of each leaf are spread over all uplinks."""
        links = self.uplinks[leaf] or 1
        if not up:
            return math.ceil(self.hosts[leaf] / links) * (total - self.hosts[leaf])
        return self.hosts[leaf] * sum(math.ceil(count / links) for other, count in self.hosts.items() if other != leaf)

    def _spare(self, leaf: str, *, up: bool) -> int:
        """Return how many uplinks of a leaf can be idle, one way."""
        behind = [count for other, count in self.hosts.items() if other != leaf] if up else [self.hosts[leaf]]
        return max(0, self.uplinks[leaf] - max(behind, default=0))
