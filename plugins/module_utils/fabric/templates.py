# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans from a few numbers: the shapes in which GPU fabrics are built.

Every template takes hosts in their physical order and a `Shape`, and returns a `Plan`. What cannot be built from whole cables is a
`TemplateError` that names the numbers and those that would work.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import COMPUTE, Hca, Plan, Switch
from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import fold

# Both ends and the kind of a link between switches.
Cable = tuple[str, str, str]


class TemplateError(ValueError):
    """Numbers of which no fabric can be built; `mistakes` are keys of the section `fabric` that mend them, and texts."""

    def __init__(self, text: str, key: str = "", *more: tuple[str, str]) -> None:
        self.mistakes = [(key, text), *more]
        # The plan as far as it is there, and whether all cables between switches are.
        self.plan: Plan | None = None
        self.whole = False
        super().__init__("\n".join(one for _key, one in self.mistakes))


@dataclass(frozen=True)
class Nic:
    """An adapter of a host: its device name, its rail and what it is for."""

    device: str
    rail: int | None = None
    purpose: str = COMPUTE


@dataclass(frozen=True)
class Host:
    """A host with its place; `unit` is its scalable unit, pod or dragonfly group."""

    name: str
    nics: Sequence[Nic]
    rack: str = ""
    unit: str = ""
    # Leaf of its rack, where leaves are per rack.
    leaf: str = ""


@dataclass(frozen=True)
class Shape:
    """The numbers of a fabric."""

    name: str = "fabric"
    technology: str = "infiniband"
    speed: str = "NDR"
    width: str = "4x"
    # Ports of a switch, all alike.
    ports: int = 64
    lanes: int = 1
    model: str = ""
    # Cables up from a leaf; 0: as many as it has hosts, split evenly over the spines.
    uplinks: int = 0
    spines: Sequence[str] = ()
    cores: Sequence[str] = ()
    oversubscription: float = 1.0
    # Cables between two dragonfly groups.
    global_links: int = 1
    # Switch -> ports that are kept free.
    spare: Mapping[str, Sequence[int]] = field(default_factory=dict)
    spine_rack: str = ""


def leaf_spine(hosts: Sequence[Host], shape: Shape) -> Plan:
    """Return a fabric with a leaf for each rack (or each `leaf` that racks share) and spines above all leaves."""
    plan = _plan("leaf-spine", shape)
    below = _attach(plan, hosts, shape, _rack_leaf, _nowhere)
    spines = _add_spines(plan, shape.spines, shape, tier=2)
    _above(plan, below, spines, _uplinks(plan, below, len(spines), shape), "leaf-spine")
    return plan


def rail_optimised(hosts: Sequence[Host], shape: Shape) -> Plan:
    """Return scalable units with a leaf for each rail, all of them below the same spines; with `cores`, spines by rail below those."""
    plan = _plan("rail-optimised" if not shape.cores else "three-tier", shape)
    below = _attach(plan, hosts, shape, _rail_leaf, _of_rail)
    if not shape.cores:
        spines = _add_spines(plan, shape.spines, shape, tier=2)
        _above(plan, below, spines, _uplinks(plan, below, len(spines), shape), "leaf-spine")
        return plan
    rails = sorted({plan.switches[leaf].rail or 0 for leaf in below})
    per_rail = _even(len(shape.spines), len(rails), "spines", "rails")
    for number, rail in enumerate(rails):
        names = shape.spines[number * per_rail : (number + 1) * per_rail]
        leaves = [leaf for leaf in below if plan.switches[leaf].rail == rail]
        # More spines than a leaf has uplinks: the rail falls into pods, each of as many spines as uplinks.
        pods = max(1, per_rail // shape.uplinks) if shape.uplinks else 1
        size, spines_each = (
            _even(len(leaves), pods, "leaves of a rail", "pods"),
            _even(per_rail, pods, "spines of a rail", "pods"),
        )
        for pod in range(pods):
            part = leaves[pod * size : (pod + 1) * size]
            group = f"rail{rail}" if pods == 1 else f"rail{rail}-pod{pod + 1}"
            above = names[pod * spines_each : (pod + 1) * spines_each]
            spines = _add_spines(plan, above, shape, tier=2, rail=rail, group=group)
            _above(plan, part, spines, _uplinks(plan, part, len(spines), shape), "leaf-spine")
    _add_cores(plan, shape)
    return plan


def three_tier(hosts: Sequence[Host], shape: Shape) -> Plan:
    """Return pods of leaves (a leaf for each rack) and spines, and cores above all pods; `spines` are split evenly over the pods."""
    plan = _plan("three-tier", shape)
    below = _attach(plan, hosts, shape, _rack_leaf, _nowhere)
    pods = list(dict.fromkeys(plan.switches[leaf].group for leaf in below))
    per_pod = _even(len(shape.spines), len(pods), "spines", "pods")
    for number, pod in enumerate(pods):
        names = shape.spines[number * per_pod : (number + 1) * per_pod]
        spines = _add_spines(plan, names, shape, tier=2, group=pod)
        leaves = [leaf for leaf in below if plan.switches[leaf].group == pod]
        _above(plan, leaves, spines, _uplinks(plan, leaves, len(spines), shape), "leaf-spine")
    _add_cores(plan, shape)
    return plan


def rail_only(hosts: Sequence[Host], shape: Shape) -> Plan:
    """Return a fabric of its own for each rail, its plane; `spines` are split evenly over the rails, and may be none."""
    plan = _plan("rail-only", shape)
    below = _attach(plan, hosts, shape, _rail_leaf, _of_plane)
    planes = list(dict.fromkeys(plan.switches[leaf].plane for leaf in below))
    per_plane = _even(len(shape.spines), len(planes), "spines", "rails") if shape.spines else 0
    for number, plane in enumerate(planes):
        leaves = [leaf for leaf in below if plan.switches[leaf].plane == plane]
        names = shape.spines[number * per_plane : (number + 1) * per_plane]
        if not names and len(leaves) > 1:
            raise TemplateError(
                f"plane {plane} has {len(leaves)} leaves and no spine that joins them: name spines for each rail",
                "spines",
            )
        spines = _add_spines(plan, names, shape, tier=2, plane=plane)
        if spines:
            _above(plan, leaves, spines, _uplinks(plan, leaves, len(spines), shape), "leaf-spine")
    return plan


def dragonfly(hosts: Sequence[Host], shape: Shape) -> Plan:
    """Return groups joined pairwise by `global_links` cables: of routers in full mesh, or (dragonfly+) of leaves and spines."""
    plan = _plan("dragonfly", shape)
    below = _attach(plan, hosts, shape, _rack_leaf, _nowhere)
    groups = list(dict.fromkeys(plan.switches[leaf].group for leaf in below))
    per_group = _even(len(shape.spines), len(groups), "spines", "groups") if shape.spines else 0
    edges: dict[str, list[str]] = {}
    cables: list[Cable] = []
    for number, group in enumerate(groups):
        leaves = [leaf for leaf in below if plan.switches[leaf].group == group]
        names = shape.spines[number * per_group : (number + 1) * per_group]
        spines = _add_spines(plan, names, shape, tier=2, group=group)
        if spines:
            _above(plan, leaves, spines, _uplinks(plan, leaves, len(spines), shape), "local")
        else:
            cables += [(one, other, "local") for one, other in itertools.combinations(leaves, 2)]
        edges[group] = spines or leaves
    # From the last port downwards, so that a group that comes later moves none of the others' cables.
    cables += _between(edges, shape.global_links)
    start = len(plan.links)
    _join_last(plan, cables[::-1], itertools.chain(*edges.values()))
    plan.links[start:] = plan.links[start:][::-1]
    return plan


TEMPLATES: dict[str, Callable[[Sequence[Host], Shape], Plan]] = {
    "leaf-spine": leaf_spine,
    "rail-optimised": rail_optimised,
    "three-tier": three_tier,
    "rail-only": rail_only,
    "dragonfly": dragonfly,
}


def _plan(kind: str, shape: Shape) -> Plan:
    spare = {switch: sorted(ports) for switch, ports in shape.spare.items()}
    return Plan(shape.name, kind, shape.technology, shape.speed, shape.width, shape.oversubscription, spare=spare)


def _rail_leaf(host: Host, nic: Nic) -> str:
    return f"{host.leaf or 'leaf-' + host.unit}-r{nic.rail}"


def _rack_leaf(host: Host, _nic: Nic) -> str:
    return host.leaf or f"leaf-{host.rack}"


def _nowhere(_nic: Nic) -> tuple[int | None, str]:
    return None, ""


def _of_rail(nic: Nic) -> tuple[int | None, str]:
    return nic.rail, ""


def _of_plane(nic: Nic) -> tuple[int | None, str]:
    return nic.rail, f"rail{nic.rail}"


# Kind -> how a NIC finds its leaf, and that its rail and plane; every other kind has a leaf for each rack.
_BELOW = {"rail-optimised": (_rail_leaf, _of_rail), "rail-only": (_rail_leaf, _of_plane)}


def unjoined(kind: str, hosts: Sequence[Host], shape: Shape) -> Plan:
    """Return what is there of a fabric that cannot be built: all its switches and HCAs, and no cable between switches.

    What else a cluster file says of switches and ports is judged by it, as far as uplinks do not matter.
    """
    plan = _plan(kind, shape)
    # That they do not fit has been told.
    with contextlib.suppress(TemplateError):
        _attach(plan, hosts, shape, *_BELOW.get(kind, (_rack_leaf, _nowhere)))
    _add_spines(plan, shape.spines, shape, tier=2)
    _add_spines(plan, shape.cores, shape, tier=3)
    return plan


def _attach(
    plan: Plan,
    hosts: Sequence[Host],
    shape: Shape,
    leaf_of: Callable[[Host, Nic], str],
    place_of: Callable[[Nic], tuple[int | None, str]],
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
            hca = Hca(host.name, nic.device, nic.rail, plane, nic.purpose, host.rack, host.unit)
            plan.add(hca)
            plan.join(hca.name, leaf, "host")
    _fits(plan, leaves)
    return list(leaves)


def _switch(
    name: str, shape: Shape, *, tier: int, rail: int | None = None, plane: str = "", group: str = "", rack: str = ""
) -> Switch:
    return Switch(name, shape.ports, tier, rail, group, plane, rack, shape.lanes, shape.model)


def _add_spines(
    plan: Plan,
    names: Sequence[str],
    shape: Shape,
    *,
    tier: int,
    rail: int | None = None,
    group: str = "",
    plane: str = "",
) -> list[str]:
    for name in names:
        plan.add(_switch(name, shape, tier=tier, rail=rail, plane=plane, group=group, rack=shape.spine_rack))
    return list(names)


def _uplinks(plan: Plan, leaves: Sequence[str], spines: int, shape: Shape) -> int:
    """Return how many cables go up from each leaf: as stated, or enough for the busiest leaf, the same to every spine."""
    if not spines:
        raise TemplateError("there is no spine: name some in fabric.spines", "spines")
    # What is stated holds for every leaf there is, so all that are too full are told of.
    looked = [switch.name for switch in plan.switches.values() if switch.tier == 1] if shape.uplinks else leaves
    hosts = {leaf: plan.used[leaf] - _passed(plan, leaf) for leaf in looked}
    kept = {leaf: sum(port <= shape.ports for port in plan.spare.get(leaf, ())) for leaf in looked}
    wanted = shape.uplinks or -(-max(hosts.values()) // spines) * spines
    wrong = []
    if wanted % spines:
        text = (
            f"{wanted} uplinks of a leaf cannot be split evenly over {spines} spines; allowed: a multiple of {spines}"
        )
        wrong.append(("uplinks", text))
    # Where a number that can be split fits, that it does not is none of the leaf's fault.
    least = max(wanted // spines, 1) * spines
    full: dict[tuple[int, int], list[str]] = {}
    for leaf in looked:
        if least > shape.ports - hosts[leaf] - kept[leaf]:
            full.setdefault((hosts[leaf], kept[leaf]), []).append(leaf)
    for (there, free), names in full.items():
        but = f" and {free} that are kept free" if free else ""
        has = f"{fold(names)} {'has' if len(names) == 1 else 'have'} {shape.ports} ports{'' if len(names) == 1 else ' each'}"
        text = (
            f"{has} and {there} hosts' ports{but}, so {shape.ports - there - free} are left and not {wanted} for "
            f"uplinks to {spines} spines; state fabric.uplinks (a multiple of {spines}), or take fewer hosts to a leaf"
        )
        wrong.append(("uplinks", text))
    _raise(wrong)
    return wanted


def _passed(plan: Plan, name: str) -> int:
    """Return how many ports of a switch were passed over so far, for they are kept free."""
    return sum(port <= plan.used[name] for port in plan.spare.get(name, ()))


def _above(plan: Plan, lower: Sequence[str], upper: Sequence[str], uplinks: int, kind: str) -> None:
    """Join every lower switch with every upper one by `uplinks` cables in all, which have its last ports."""
    each = uplinks // len(upper)
    _join_last(plan, [(low, high, kind) for low in lower for high in upper for _cable in range(each)], lower)


def _join_last(plan: Plan, cables: Sequence[Cable], names: Iterable[str]) -> None:
    """Join switches; those named have these cables in their last ports, so that what comes below later moves none of them."""
    counts = Counter(end for one, other, _kind in cables for end in (one, other))
    below = {name: plan.used.get(name, 0) for name in names}
    for name in below:
        _leave_room(plan, name, counts[name])
    for one, other, kind in cables:
        plan.join(one, other, kind)
    _fits(plan, counts)
    plan.used.update(below)


def _leave_room(plan: Plan, name: str, cables: int) -> None:
    """Go on with the last ports of a switch, as many as these cables need."""
    free = (port for port in range(plan.switches[name].ports, 0, -1) if port not in plan.spare.get(name, ()))
    first = min(itertools.islice(free, cables), default=1)
    plan.used[name] = max(first - 1, plan.used.get(name, 0))


def _add_cores(plan: Plan, shape: Shape) -> None:
    """Join all spines with the cores. Where a spine has fewer uplinks than there are cores, the n-th spines of all pods share a part."""
    spines = [switch for switch in plan.switches.values() if switch.tier == 2]
    down = max(plan.used[spine.name] - _passed(plan, spine.name) for spine in spines)
    up = min(down, shape.ports - max(len(plan.spare.get(spine.name, ())) for spine in spines) - down)
    parts = max(1, -(-len(shape.cores) // up)) if up else 0
    if not parts:
        raise TemplateError(
            f"a spine has {shape.ports} ports and {down} cables from leaves, so none is left for the cores: take fewer leaves to a "
            "pod, more spines, or fewer uplinks of a leaf",
            "spines",
        )
    per_part = _even(len(shape.cores), parts, "cores", "parts of the core tier", "cores")
    _even(up, per_part, "uplinks of a spine", "cores of its part", "cores")
    cores = _add_spines(plan, shape.cores, shape, tier=3)
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
        _above(plan, names, cores[part * per_part : (part + 1) * per_part], up, "spine-core")


def _between(edges: dict[str, list[str]], cables: int) -> list[Cable]:
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
    """Raise what is wrong, keys and texts; do nothing where nothing is."""
    if wrong:
        (key, text), *more = wrong
        raise TemplateError(text, key, *more)


def _even(things: int, parts: int, what: str, over: str, key: str = "spines") -> int:
    if not things or things % parts:
        raise TemplateError(
            f"{things} {what} cannot be split evenly over {parts} {over}; allowed: a multiple of {parts}", key
        )
    return things // parts
