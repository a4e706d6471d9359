# SPDX-License-Identifier: GPL-3.0-or-later
"""Reduce a fabric to a tree of hosts for a scheduler.

Leaves that hold the same hosts (the rails of a scalable unit, the planes of a host) count as one, and so do the switches of a tier above
the same branches. A misplaced cable must not change the tree, so two of them are equal if most of their contents are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold, natural_key

from .fabric_model import COMPUTE, Plan

T = TypeVar("T", bound=Hashable)


@dataclass(eq=False)
class Branch:
    """A leaf (with hosts) or a node that joins branches; `switches` are the switches of the fabric that it represents."""

    switches: list[str]
    hosts: list[str] = field(default_factory=list)
    below: list[Branch] = field(default_factory=list)
    # True for a root that joins one whole connected fabric.
    top: bool = False

    @property
    def all_hosts(self) -> Iterator[str]:
        """Yield the hosts of all leaves."""
        yield from self.hosts
        for branch in self.below:
            yield from branch.all_hosts


class DisjointSets:
    """Disjoint sets of equivalent items."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}

    def find(self, thing: Hashable) -> Hashable:
        """Return the representative of an item's set."""
        parent = self._parent
        if thing not in parent:  # most are looked up often, and represent themselves
            return thing
        root = parent[thing]
        while root in parent:
            root = parent[root]
        while thing != root:
            parent[thing], thing = root, parent[thing]
        return root

    def join(self, one: Hashable, other: Hashable) -> None:
        """Merge two sets."""
        parent = self._parent
        root = self.find(one) if one in parent else one
        below = self.find(other) if other in parent else other
        if root != below:
            parent[below] = root

    def sets(self, things: Iterable[T]) -> list[list[T]]:
        """Return the items by set, in their order."""
        found: dict[Hashable, list[T]] = {}
        for thing in things:
            found.setdefault(self.find(thing), []).append(thing)
        return list(found.values())


def roots(plan: Plan, nodes: Iterable[str] | None = None) -> tuple[list[Branch], list[Finding]]:
    """Return a root for each connected fabric of a plan, and findings about what a tree cannot express; only for `nodes`, if given.

    Missing cables count as present: they are planned, or will be repaired. HCAs for storage and management do not.
    """
    return _Builder(plan, None if nodes is None else set(nodes)).build()


class _Builder:
    def __init__(self, plan: Plan, nodes: set[str] | None) -> None:
        self.plan = plan
        self.findings: list[Finding] = []
        # Switch -> host -> number of its HCAs on the switch; hosts and switches in the order of the plan.
        self.held: dict[str, Counter[str]] = {}
        self.near: dict[str, Counter[str]] = {name: Counter() for name in plan.switches}
        self.order = {hca.host: None for hca in plan.hcas.values() if hca.purpose == COMPUTE}
        if nodes is not None:
            self.order = {host: None for host in self.order if host in nodes}
        # Switch -> its branch; branch -> the one that contains it.
        self.part_of: dict[str, Branch] = {}
        self.inside: dict[Branch, Branch] = {}
        # Switch above leaves -> the leaf of the hosts that are connected to it.
        self.own: dict[str, Branch] = {}
        self._count()

    def _count(self) -> None:
        """Count the cables between switches, and from each host to its leaves."""
        near, held = self.near, self.held
        host_of = {
            name: hca.host for name, hca in self.plan.hcas.items() if hca.purpose == COMPUTE and hca.host in self.order
        }
        for link in self.plan.links:
            one, other = link.a, link.b
            if one in near and other in near:
                above, below = near[one], near[other]
                # Most are the first of their kind, for which a Counter is slow.
                above[other] = above.get(other, 0) + 1
                below[one] = below.get(one, 0) + 1
            elif one in host_of and other in near:
                held.setdefault(other, Counter())[host_of[one]] += 1
            elif other in host_of and one in near:
                held.setdefault(one, Counter())[host_of[other]] += 1

    def build(self) -> tuple[list[Branch], list[Finding]]:
        current = self._leaves()
        fabric = DisjointSets()
        for one, others in self.near.items():
            # Both are at the same distance.
            for other in others:
                if one < other:
                    fabric.join(one, other)
        for leaf in current:
            for switch in leaf.switches:
                fabric.join(leaf.switches[0], switch)
        if self.plan.kind == "dragonfly":
            current = self._groups(current)
        else:
            for tier in range(2, self.plan.tiers + 1):
                current = self._tier(tier, current)
        found = []
        for members in fabric.sets(self.near):
            inside = set(members)
            root = self._root([branch for branch in current if branch.switches[0] in inside], members)
            if kept := _pruned(root):
                found.append(kept)
        return found, self.findings

    def _leaves(self) -> list[Branch]:
        """Return the leaves, with each host in one; those without hosts have their place in the fabric, too."""
        units = [sorted(unit, key=natural_key) for unit in self._units()]
        unit_of = {switch: number for number, unit in enumerate(units) for switch in unit}
        counts: dict[str, Counter[int]] = {host: Counter() for host in self.order}
        for switch, hosts in self.held.items():
            for host, count in hosts.items():
                counts[host][unit_of[switch]] += count
        sizes = Counter(number for found in counts.values() for number in found)
        leaves = [Branch(unit) for unit in units]
        strays: dict[int, list[str]] = {}
        for host, found in counts.items():
            if not found:
                self._add(
                    ERROR,
                    host,
                    "it is connected to no switch, so Slurm starts no job on it together with others",
                    "cable it",
                )
                continue
            best = min(found, key=lambda number: (-found[number], sizes[number], number))
            leaves[best].hosts.append(host)
            for number in found:
                if number != best:
                    strays.setdefault(number, []).append(host)
        for number, elsewhere in strays.items():
            if leaves[number].hosts:
                self._split(units[number][0], elsewhere, counts, number)
            else:
                text = (
                    f"{fold(elsewhere)} are on other leaves too: treated as a storage rail, and not written for Slurm"
                )
                self._add(
                    WARNING, self.plan.where(units[number][0]), text, "state the purpose of that rail in the plan"
                )
        self._place(leaves)
        empty = [Branch([name]) for name in self.near if self.plan.switches[name].tier == 1 and name not in unit_of]
        self.part_of |= {branch.switches[0]: branch for branch in empty}
        return leaves + empty

    def _split(self, leaf: str, hosts: Sequence[str], counts: dict[str, Counter[int]], number: int) -> None:
        for host in hosts:
            found = counts[host]
            tie = found[number] == max(found.values())
            text = f"{host} has {found[number]} of its {sum(found.values())} HCAs here, the others on another leaf"
            what = "the rails or planes do not agree on its leaf" if tie else "Slurm gets the other leaf"
            self._add(ERROR if tie else WARNING, self.plan.where(leaf), f"{text}: {what}", "check its cables")

    def _place(self, leaves: Iterable[Branch]) -> None:
        """Record the branch of each leaf; hosts on a switch above leaves get a separate leaf below it."""
        for leaf in leaves:
            for name in leaf.switches:
                if self.plan.switches[name].tier < 2:
                    self.part_of[name] = leaf
                    continue
                self.own[name] = leaf
                if leaf.hosts:
                    text = f"has the hosts {fold(leaf.hosts)} but is above leaves: they get a separate leaf"
                    self._add(WARNING, self.plan.where(name), text, "move them to a leaf")

    def _units(self) -> list[list[str]]:
        """Return the leaves with mostly the same hosts, as sets."""
        on: dict[str, list[str]] = {}
        for switch, hosts in self.held.items():
            if self.plan.switches[switch].tier < 2:
                for host in hosts:
                    on.setdefault(host, []).append(switch)
        shared: dict[str, Counter[str]] = {switch: Counter() for switch in self.held}
        # Many hosts are on the same leaves.
        for together, count in Counter(map(tuple, on.values())).items():
            for switch in together:
                for other in together:
                    shared[switch][other] += count
        alike = {
            switch: [
                other
                for other, count in others.items()
                if other != switch and 2 * count > min(len(self.held[switch]), len(self.held[other]))
            ]
            for switch, others in shared.items()
        }
        wide = {switch for switch, others in alike.items() if self._spans(switch, others, shared)}
        union = DisjointSets()
        for switch, others in alike.items():
            for other in others:
                if (switch in wide) == (other in wide):
                    union.join(switch, other)
        return union.sets(self.held)

    def _spans(self, switch: str, others: Sequence[str], shared: dict[str, Counter[str]]) -> bool:
        """Return whether a switch holds the hosts of two leaves without a common host, as a storage switch does."""
        smaller = [other for other in others if len(self.held[other]) < len(self.held[switch])]
        return any(not shared[one][other] for number, one in enumerate(smaller) for other in smaller[:number])

    def _groups(self, current: Sequence[Branch]) -> list[Branch]:
        """Join the leaves of each dragonfly group; spines of a group are part of it."""
        groups: dict[str, list[Branch]] = {}
        for branch in current:
            group = self.plan.switches[branch.switches[0]].group
            groups.setdefault(group or branch.switches[0], []).append(branch)
        spines: dict[str, list[str]] = {}
        for switch in self.plan.switches.values():
            if switch.tier > 1:
                spines.setdefault(switch.group, []).append(switch.name)
        return [
            Branch([*(name for branch in members for name in branch.switches), *spines.get(group, ())], [], members)
            for group, members in groups.items()
        ]

    def _tier(self, tier: int, current: Sequence[Branch]) -> list[Branch]:
        """Join the branches below the same switches of a tier."""
        below: dict[str, Counter[Branch]] = {}
        for name, switch in self.plan.switches.items():
            if switch.tier == tier:
                found = below[name] = Counter()
                for other, many in self.near[name].items():
                    if self.plan.switches[other].tier < tier and other in self.part_of:
                        found[self._now(other)] += many
                if name in self.own:
                    found[self.own[name]] += 1
        groups = _alike({name: frozenset(found) for name, found in below.items()})
        cables: dict[Branch, Counter[int]] = {}
        for number, names in enumerate(groups):
            for name in names:
                for branch, count in below[name].items():
                    cables.setdefault(branch, Counter())[number] += count
        order = {branch: place for place, branch in enumerate(current)}
        made: list[Branch] = []
        for joined, numbers in self._homes(cables, groups):
            names = [name for number in numbers for name in groups[number]]
            branches = sorted(joined, key=order.__getitem__)
            branch = branches[0] if len(branches) == 1 else Branch(names, [], branches)
            self.part_of |= dict.fromkeys(names, branch)
            self.inside.update((one, branch) for one in branches if one is not branch)
            made.append(branch)
        return [*made, *(branch for branch in current if branch not in cables)]

    def _homes(
        self, cables: dict[Branch, Counter[int]], groups: Sequence[Sequence[str]]
    ) -> list[tuple[list[Branch], list[int]]]:
        """Return the sets of branches to join, each with the groups of switches to which most of their cables go."""
        same = DisjointSets()
        for to in cables.values():
            # A few of many cables may be misplaced; a third of them is intended.
            ours = [number for number, count in to.items() if 3 * count > max(to.values())]
            for number in ours:
                same.join(ours[0], number)
        members: dict[Hashable, list[Branch]] = {}
        for branch, to in cables.items():
            home = same.find(max(to, key=lambda number: (to[number], -number)))
            members.setdefault(home, []).append(branch)
            self._crossing(branch, [number for number in to if same.find(number) != home], groups)
        return [
            (branches, [number for number in range(len(groups)) if same.find(number) == home])
            for home, branches in members.items()
        ]

    def _now(self, switch: str) -> Branch:
        """Return the largest branch that contains a switch so far."""
        branch = self.part_of[switch]
        while branch in self.inside:
            branch = self.inside[branch]
        return branch

    def _crossing(self, branch: Branch, groups: Sequence[int], names: Sequence[Sequence[str]]) -> None:
        for number in groups:
            one = branch.switches[0]
            text = f"a few of its cables go to {names[number][0]}, which is above others: not written for Slurm"
            self._add(WARNING, self.plan.where(one), text, "check its uplinks")

    def _root(self, branches: list[Branch], members: Sequence[str]) -> Branch:
        """Return the root of all branches of a connected fabric; a single leaf needs no switch above it."""
        tiers = max(self.plan.switches[name].tier for name in members)
        above = [name for name in members if tiers > 1 and self.plan.switches[name].tier == tiers]
        if len(branches) == 1 and (branches[0].below or not above):
            branches[0].top = bool(branches[0].below)
            return branches[0]
        return Branch(above or list(members), [], branches, top=True)

    def _add(self, severity: str, where: str, found: str, remedy: str) -> None:
        self.findings.append(Finding("topology", where, "", found, remedy, severity))


def _alike(sets: dict[str, frozenset[Branch]]) -> list[list[str]]:
    """Return the names whose sets are mostly equal."""
    names: dict[frozenset[Branch], list[str]] = {}
    for name, found in sets.items():
        if found:
            names.setdefault(found, []).append(name)
    different = sorted(names, key=lambda found: (-len(names[found]), natural_key(names[found][0])))
    union = DisjointSets()
    for number, found in enumerate(different):
        for earlier in different[:number]:
            if 2 * len(found & earlier) > len(found | earlier):
                union.join(earlier, found)
    return [[name for found in group for name in names[found]] for group in union.sets(different)]


def _pruned(branch: Branch) -> Branch | None:
    """Remove branches without hosts, and branches that join only one branch."""
    if branch.hosts:
        return branch
    branch.below = [kept for below in branch.below if (kept := _pruned(below))]
    if len(branch.below) == 1 and not branch.top:
        return branch.below[0]
    return branch if branch.below else None
