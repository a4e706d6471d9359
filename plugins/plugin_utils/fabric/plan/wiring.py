# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of templates: hosts, the numbers of a fabric, and the cables between leaves, spines and cores, port by port."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ..core.fabric_model import COMPUTE, Hca, Plan, Switch

# Both ends and the kind of a link between switches.
Cable = tuple[str, str, str]


class TemplateError(ValueError):
    """Numbers that make no fabric; `mistakes` are keys of the section `fabric` that correct them, and texts."""

    def __init__(self, text: str, key: str = "", *more: tuple[str, str]) -> None:
        self.mistakes = [(key, text), *more]
        # The plan as far as it is there, and whether all cables between switches are.
        self.plan: Plan | None = None
        self.whole = False
        super().__init__("\n".join(one for _key, one in self.mistakes))


@dataclass(frozen=True)
class WiredNic:
    """An adapter of a host: its device name, its rail and what it is for."""

    device: str
    rail: int | None = None
    purpose: str = COMPUTE
    # Its device name in NodeDescriptions, if that is not `device`.
    label: str = ""


@dataclass(frozen=True)
class WiredHost:
    """A host with its place; `unit` is its scalable unit, pod or dragonfly group."""

    name: str
    nics: Sequence[WiredNic]
    rack: str = ""
    unit: str = ""
    # Leaf of its rack, where leaves are per rack.
    leaf: str = ""


@dataclass(frozen=True)
class FabricShape:
    """The numbers of a fabric."""

    name: str = "fabric"
    technology: str = "infiniband"
    speed: str = "NDR"
    width: str = "4x"
    # Ports of a switch.
    ports: int = 64
    lanes: int = 1
    model: str = ""
    # Cables up from a leaf; 0: as many as it has hosts, split evenly over the spines.
    uplinks: int = 0
    spines: Sequence[str] = ()
    cores: Sequence[str] = ()
    oversubscription: float = 1.0
    # Whether switches have SHARP's aggregation nodes.
    sharp: bool = False
    # Cables between two dragonfly groups.
    global_links: int = 1
    # Switch -> ports that are kept free.
    spare: Mapping[str, Sequence[int]] = field(default_factory=dict)
    spine_rack: str = ""
    # Switch -> its ports, and the ports of a cage of it, where these differ.
    own_ports: Mapping[str, int] = field(default_factory=dict)
    own_lanes: Mapping[str, int] = field(default_factory=dict)

    def ports_of(self, switch: str) -> int:
        """Return the number of ports of a switch."""
        return self.own_ports.get(switch, self.ports)

    def sized(self, switch: Switch) -> Switch:
        """Return a switch with its own number of ports, and of ports of a cage."""
        lanes = self.own_lanes.get(switch.name, self.lanes)
        return replace(switch, ports=self.ports_of(switch.name), lanes=lanes)


def attach(
    plan: Plan,
    hosts: Sequence[WiredHost],
    shape: FabricShape,
    leaf_of: Callable[[WiredHost, WiredNic], str],
    place_of: Callable[[WiredNic], tuple[int | None, str]],
) -> list[str]:
    """Add the hosts' HCAs, each on the next port of its leaf; return the leaves."""
    # Leaf -> rack of its hosts; none where they stand in several, for nobody said in which the leaf does.
    leaves: dict[str, str] = {}
    for host in hosts:
        for nic in host.nics:
            leaf = leaf_of(host, nic)
            rail, plane = place_of(nic)
            if leaf not in leaves:
                leaves[leaf] = host.rack
                plan.add(_switch(leaf, shape, tier=1, rail=rail, plane=plane, group=host.unit, rack=host.rack))
            elif leaves[leaf] and leaves[leaf] != host.rack:
                leaves[leaf] = ""
                plan.add(replace(plan.switches[leaf], rack=""))
            hca = Hca(host.name, nic.device, nic.rail, plane, nic.purpose, host.rack, host.unit, label=nic.label)
            plan.add(hca)
            plan.join(hca.name, leaf, "host")
    _fits(plan, leaves)
    return list(leaves)


def _switch(
    name: str,
    shape: FabricShape,
    *,
    tier: int,
    rail: int | None = None,
    plane: str = "",
    group: str = "",
    rack: str = "",
) -> Switch:
    return shape.sized(Switch(name, shape.ports, tier, rail, group, plane, rack, shape.lanes, shape.model))


def add_spines(
    plan: Plan,
    names: Sequence[str],
    shape: FabricShape,
    *,
    tier: int,
    rail: int | None = None,
    group: str = "",
    plane: str = "",
) -> list[str]:
    """Add the switches above the leaves; return their names."""
    for name in names:
        plan.add(_switch(name, shape, tier=tier, rail=rail, plane=plane, group=group, rack=shape.spine_rack))
    return list(names)


def uplinks_of(plan: Plan, leaves: Sequence[str], spines: int, shape: FabricShape) -> int:
    """Return how many cables go up from each leaf: as stated, or enough for the busiest leaf, the same to every spine."""
    if not spines:
        raise TemplateError("there is no spine: name some in fabric.spines", "spines")
    # What is stated holds for every leaf there is, so all that are too full are told of.
    looked = [switch.name for switch in plan.switches.values() if switch.tier == 1] if shape.uplinks else leaves
    hosts = {leaf: plan.used[leaf] - _passed(plan, leaf) for leaf in looked}
    kept = {leaf: sum(port <= shape.ports_of(leaf) for port in plan.spare.get(leaf, ())) for leaf in looked}
    wanted = shape.uplinks or -(-max(hosts.values()) // spines) * spines
    wrong = []
    if wanted % spines:
        text = (
            f"{wanted} uplinks of a leaf cannot be split evenly over {spines} spines; allowed: a multiple of {spines}"
        )
        wrong.append(("uplinks", text))
    # Where a number that can be split fits, that it does not is none of the leaf's fault.
    least = max(wanted // spines, 1) * spines
    full: dict[tuple[int, int, int], list[str]] = {}
    for leaf in looked:
        if least > shape.ports_of(leaf) - hosts[leaf] - kept[leaf]:
            full.setdefault((hosts[leaf], kept[leaf], shape.ports_of(leaf)), []).append(leaf)
    for (there, free, ports), names in full.items():
        but = f" and {free} that are kept free" if free else ""
        has = f"{fold(names)} {'has' if len(names) == 1 else 'have'} {ports} ports{'' if len(names) == 1 else ' each'}"
        text = (
            f"{has} and {there} hosts' ports{but}, so {ports - there - free} are left and not {wanted} for "
            f"uplinks to {spines} spines; state fabric.uplinks (a multiple of {spines}), or take fewer hosts to a leaf"
        )
        wrong.append(("uplinks", text))
    _raise(wrong)
    return wanted


def _passed(plan: Plan, name: str) -> int:
    """Return how many ports of a switch were passed over so far, because they are kept free."""
    return sum(port <= plan.used[name] for port in plan.spare.get(name, ()))


def join_above(plan: Plan, lower: Sequence[str], upper: Sequence[str], uplinks: int, kind: str) -> None:
    """Join every lower switch with every upper one by `uplinks` cables in all, which have its last ports."""
    each = uplinks // len(upper)
    join_last(plan, [(low, high, kind) for low in lower for high in upper for _cable in range(each)], lower)


def join_last(plan: Plan, cables: Sequence[Cable], names: Iterable[str]) -> None:
    """Join switches; named ones have these cables in their last ports, so that later cables below move no earlier one."""
    counts = Counter(end for one, other, _kind in cables for end in (one, other))
    below = {name: plan.used.get(name, 0) for name in names}
    for name in below:
        _leave_room(plan, name, counts[name])
    for one, other, kind in cables:
        plan.join(one, other, kind)
    _fits(plan, counts)
    plan.used.update(below)


def _leave_room(plan: Plan, name: str, cables: int) -> None:
    """Continue with the last ports of a switch, as many as these cables need."""
    free = (port for port in range(plan.switches[name].ports, 0, -1) if port not in plan.spare.get(name, ()))
    first = min(itertools.islice(free, cables), default=1)
    plan.used[name] = max(first - 1, plan.used.get(name, 0))


def add_cores(plan: Plan, shape: FabricShape) -> None:
    """Join all spines with the cores. Where a spine has fewer uplinks than there are cores, the n-th spines of all pods share a part."""
    spines = [switch for switch in plan.switches.values() if switch.tier == 2]
    down = max(plan.used[spine.name] - _passed(plan, spine.name) for spine in spines)
    smallest = min(spines, key=lambda spine: spine.ports - len(plan.spare.get(spine.name, ())))
    up = min(down, smallest.ports - len(plan.spare.get(smallest.name, ())) - down)
    parts = max(1, -(-len(shape.cores) // up)) if up else 0
    if not parts:
        raise TemplateError(
            f"a spine has {smallest.ports} ports and {down} cables from leaves, so no port is left for the cores: take fewer leaves to a "
            "pod, more spines, or fewer uplinks of a leaf",
            "spines",
        )
    per_part = even(len(shape.cores), parts, "cores", "parts of the core tier", "cores")
    even(up, per_part, "uplinks of a spine", "cores of its part", "cores")
    cores = add_spines(plan, shape.cores, shape, tier=3)
    place: dict[str, int] = {}
    members: dict[int, list[str]] = {part: [] for part in range(parts)}
    for spine in spines:
        number = place[spine.group] = place.get(spine.group, -1) + 1
        members[number % parts].append(spine.name)
    if len({len(names) for names in members.values()}) > 1:
        raise TemplateError(
            f"the spines of a pod cannot be split evenly over {parts} parts of {per_part} cores", "spines"
        )
    for part, names in members.items():
        join_above(plan, names, cores[part * per_part : (part + 1) * per_part], up, "spine-core")


def between(edges: dict[str, list[str]], cables: int) -> list[Cable]:
    """Return as many cables between every pair of groups, the switches of a group in turn."""
    turns = {group: itertools.cycle(switches) for group, switches in edges.items()}
    pairs = [pair for pair in itertools.combinations(edges, 2) for _cable in range(cables)]
    return [(next(turns[one]), next(turns[other]), "global") for one, other in pairs]


def _fits(plan: Plan, names: Iterable[str]) -> None:
    full: dict[tuple[int, int, int], list[str]] = {}
    for name in names:
        used, ports = plan.used.get(name, 0), plan.switches[name].ports
        if used > ports:
            full.setdefault((used, _passed(plan, name), ports), []).append(name)
    wrong = []
    for (used, kept, ports), alike in full.items():
        but = f" and {kept} ports that are kept free" if kept else ""
        each = " each" if len(alike) > 1 else ""
        text = (
            f"{fold(alike)} would have {used - kept} cables{but}{each}, and a switch has {ports} ports; "
            "take fewer hosts to a leaf, more switches above, or fewer uplinks"
        )
        wrong.append(("switch_ports", text))
    _raise(wrong)


def _raise(wrong: Sequence[tuple[str, str]]) -> None:
    """Raise the mistakes, keys and texts; do nothing without any."""
    if wrong:
        (key, text), *more = wrong
        raise TemplateError(text, key, *more)


def even(things: int, parts: int, what: str, over: str, key: str = "spines") -> int:
    """Return the number of items in each part; TemplateError if they cannot be split evenly."""
    if not things or things % parts:
        raise TemplateError(
            f"{things} {what} cannot be split evenly over {parts} {over}; allowed: a multiple of {parts}", key
        )
    return things // parts
