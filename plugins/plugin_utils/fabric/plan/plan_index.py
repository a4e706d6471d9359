# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as its checks look at it: what is at each end, above and below, found once for all rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field

from ..core.fabric_model import Hca, Link, Plan, PlanProblem, Switch
from ..core.places import End, place
from ..topology.slurm_topology import Topology


@dataclass
class View:
    """A plan with its cables counted. `planned` counts those as well that the plan leaves out on purpose, `present` does not."""

    plan: Plan
    # Slurm's topology of the plan, and the NodeNames of slurm.conf that are to be in it; without one its rules find nothing.
    topology: Topology | None = None
    nodes: Sequence[str] = ()
    # Lower switch -> upper switch -> cables.
    planned: dict[str, Counter[str]] = field(default_factory=dict)
    present: dict[str, Counter[str]] = field(default_factory=dict)
    # Switch -> cables to HCAs.
    hosts: Counter[str] = field(default_factory=Counter)
    # Switch -> cables from below.
    below: Counter[str] = field(default_factory=Counter)
    # HCA -> its cable, planned or there.
    cable: dict[str, Link] = field(default_factory=dict)
    # Cables within a tier.
    level: list[Link] = field(default_factory=list)

    # Rules that look at the topology alone need no cables counted.
    counted: InitVar[bool] = True

    def __post_init__(self, counted: bool) -> None:
        if counted:
            self._count()

    def _count(self) -> None:
        switches, hcas = self.plan.switches, self.plan.hcas
        for link in self.plan.links:
            for one, other in ((link.a, link.b), (link.b, link.a)):
                if one in hcas and other in switches:
                    self.cable.setdefault(one, link)
                    self.hosts[other] += not link.missing
            if link.a not in switches or link.b not in switches or link.a == link.b:
                continue
            if switches[link.a].tier == switches[link.b].tier:
                self.level.append(link)
                continue
            low, high = sorted((link.a, link.b), key=lambda name: switches[name].tier)
            self.planned.setdefault(low, Counter())[high] += 1
            if not link.missing:
                self.present.setdefault(low, Counter())[high] += 1
                self.below[high] += 1

    @property
    def is_tree(self) -> bool:
        """Return whether all cables between switches go up or down."""
        return self.plan.kind != "dragonfly"

    def port(self, end: End) -> str:
        """Return where to go for a port."""
        return place(end, self.plan)

    def things(self) -> list[Switch | Hca]:
        """Return all switches and HCAs."""
        return [*self.plan.switches.values(), *self.plan.hcas.values()]

    def in_plane(self, plane: str) -> list[Switch]:
        """Return the switches of a plane."""
        return [one for one in self.plan.switches.values() if one.plane == plane]

    def tops(self) -> dict[str, int]:
        """Return plane -> its highest tier."""
        found: dict[str, int] = {}
        for switch in self.plan.switches.values():
            found[switch.plane] = max(found.get(switch.plane, 0), switch.tier)
        return found


def plan_problem(rule: str, where: str, text: str, severity: str = "error") -> PlanProblem:
    """Return a problem; without a place it is the fabric's as a whole."""
    return PlanProblem(rule, where or "fabric", text, severity)


def most_common(numbers: Sequence[int]) -> int:
    """Return the most frequent number, the larger of two; 0 without any."""
    return max(Counter(numbers).items(), key=lambda pair: (pair[1], pair[0]))[0] if numbers else 0
