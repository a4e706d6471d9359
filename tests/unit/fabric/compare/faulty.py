"""Fabrics with planted faults: what is done to the discovered one, and what is to be said of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    CA,
    SWITCH,
    Cable,
    DiscoveredNode,
    Discovery,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Link, Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    connect,
    discovery_of,
    generated_guid,
    ibnetdiscover_text,
)

End = tuple[str, int]
Expected = tuple[str, frozenset[End]]
FACTORY = "MT4129 ConnectX7   Mellanox Technologies"


class World:
    """A fabric as it really is. `touched` are ports, nodes and hosts that have a fault already."""

    def __init__(self, plan: Plan, rng: random.Random):
        self.plan, self.rng = plan, rng
        self.nodes = {node.description: node for node in discovery_of(plan).nodes.values()}
        self.touched: set[object] = set()
        self.off: set[str] = set()
        self.mute: set[str] = set()
        self.deaf: list[End] = []
        self.rename: dict[str, str] = {}
        self.new_guid: dict[str, str] = {}
        self.links = list(plan.present)
        self.in_plan = {end for link in plan.links for end in link.ends}
        self.expected: list[Expected] = []

    # What can be done to it.
    def cut(self, *ends: End) -> None:
        for name, port in ends:
            cable = self.nodes[name].cables.pop(port, None)
            if cable:
                far = next(node for node in self.nodes.values() if node.guid == cable.guid)
                far.cables.pop(cable.port, None)

    def join(self, one: End, other: End, width: str = "", speed: str = "") -> None:
        rate = (width or self.plan.width, speed or self.plan.speed)
        connect(self.nodes[one[0]], one[1], self.nodes[other[0]], other[1], *rate)

    def add(self, name: str, kind: str, ports: int) -> None:
        self.nodes[name] = DiscoveredNode(generated_guid(name), kind, ports, name, 0, lid=900 + len(self.nodes))

    def expect(self, kind: str, ends: Iterable[End]) -> bool:
        self.expected.append((kind, frozenset(ends)))
        return True

    # What is free to be broken.
    def around(self, ends: Iterable[End]) -> set[object]:
        found: set[object] = set()
        for end in ends:
            found.add(end)
            if end[0] in self.plan.hcas:
                found.add(self.plan.hcas[end[0]].host)
        return found

    def take(self, *ends: End) -> bool:
        wanted = self.around(ends)
        if wanted & self.touched:
            return False
        self.touched |= wanted
        return True

    def free_node(self, name: str) -> bool:
        ends = [end for link in self.links if name in (link.a, link.b) for end in link.ends]
        taken = any((name, port) in self.touched for port in range(100))
        return not taken and not self.around(ends) & self.touched

    def take_node(self, name: str) -> bool:
        ends = [end for link in self.links if name in (link.a, link.b) for end in link.ends]
        if any((name, port) in self.touched for port in range(100)):
            return False
        return self.take((name, 0), *ends)

    def some_links(self, count: int, which: Callable[[Link], bool] = lambda _link: True) -> list[Link]:
        free = [link for link in self.links if which(link) and not self.around(link.ends) & self.touched]
        found = self.rng.sample(free, count) if len(free) >= count else []
        hosts = [self.plan.hcas[link.a].host for link in found if link.a in self.plan.hcas]
        return found if len(set(hosts)) == len(hosts) else []

    def free_port(self, which: Callable[[str], bool] = lambda _name: True) -> End | None:
        names = [name for name in self.plan.switches if which(name) and (name, 0) not in self.touched]
        ends = [
            (name, port)
            for name in names
            for port in range(1, self.plan.switches[name].ports + 1)
            if port not in self.nodes[name].cables and (name, port) not in self.touched
        ]
        ends = [end for end in ends if end not in self.in_plan]
        return self.rng.choice(ends) if ends else None

    def plane(self, name: str) -> str:
        return (self.plan.switches.get(name) or self.plan.hcas[name]).plane

    # What is discovered.
    def discoveries(self) -> dict[str, Discovery]:
        return {plane: parse(self.text(plane).split("\n")) for plane in self.plan.planes}

    def text(self, plane: str) -> str:
        by_guid = {node.guid: node for node in self.nodes.values()}
        seen: dict[str, DiscoveredNode] = {}
        stack = [self.start(plane, by_guid)]
        while stack:
            node = stack.pop()
            if node.guid not in seen:
                seen[node.guid] = node
                stack += [by_guid[cable.guid] for cable in node.cables.values()]
        names = {node.guid: name for name, node in self.nodes.items()}
        told = {}
        order = list(seen)
        self.rng.shuffle(order)
        for guid in order:
            name, node = names[guid], seen[guid]
            if name in self.mute:
                continue
            cables = {p: self.cable(c, names) for p, c in node.cables.items() if (name, p) not in self.deaf}
            told[self.guid(name, guid)] = replace(
                node,
                guid=self.guid(name, guid),
                description=self.rename.get(name, node.description),
                cables=cables,
                port_guids={port: self.port_guid(name, own) for port, own in node.port_guids.items()},
            )
        return ibnetdiscover_text(Discovery(told), full=self.rng.random() < 0.2)

    def cable(self, cable: Cable, names: dict[str, str]) -> Cable:
        name = names[cable.guid]
        return replace(
            cable,
            guid=self.guid(name, cable.guid),
            description=self.rename.get(name, self.nodes[name].description),
            port_guid=self.port_guid(name, cable.port_guid) if cable.port_guid else "",
        )

    def guid(self, name: str, guid: str) -> str:
        return self.new_guid.get(name, guid)

    def port_guid(self, name: str, own: str) -> str:
        return f"{int(self.new_guid[name], 16) + 1:016x}" if name in self.new_guid else own

    def start(self, plane: str, by_guid: dict[str, DiscoveredNode]) -> DiscoveredNode:
        parts = self.parts(by_guid)
        mine = [name for name, switch in self.plan.switches.items() if switch.plane == plane and name not in self.off]
        return self.nodes[max(mine, key=lambda name: sum(other in parts[name] for other in mine))]

    def parts(self, by_guid: dict[str, DiscoveredNode]) -> dict[str, set[str]]:
        names = {node.guid: name for name, node in self.nodes.items()}
        found: dict[str, set[str]] = {}
        for name in self.nodes:
            if name in found:
                continue
            part: set[str] = set()
            stack = [name]
            while stack:
                one = stack.pop()
                if one not in part:
                    part.add(one)
                    found[one] = part
                    stack += [names[cable.guid] for cable in self.nodes[one].cables.values()]
        return found

    def whole(self) -> bool:
        """Tell whether every switch that is on is reached, so that no fault hides another."""
        parts = self.parts({node.guid: node for node in self.nodes.values()})
        for plane in self.plan.planes:
            names = [n for n, s in self.plan.switches.items() if s.plane == plane and n not in self.off]
            if not names or any(name not in parts[names[0]] for name in names):
                return False
        return True


# Faults: each changes the world and says what is expected, or returns False where there is no room for it.
def missing(w: World) -> bool:
    links = w.some_links(1)
    if not links or not w.take(*links[0].ends):
        return False
    w.cut(links[0].ends[0])
    return w.expect("missing", links[0].ends)


def extra(w: World) -> bool:
    one = w.free_port()
    other = one and w.free_port(lambda name: name != one[0] and w.plane(name) == w.plane(one[0]))
    if not one or not other or not w.take(one, other):
        return False
    w.join(one, other)
    return w.expect("extra", (one, other))


def joined(w: World) -> bool:
    one = w.free_port()
    other = one and w.free_port(lambda name: w.plane(name) != w.plane(one[0]))
    if not one or not other or not w.take(one, other):
        return False
    w.join(one, other)
    return w.expect("joined", (one, other))


def _circle(w: World, links: list[Link], kind: str) -> bool:
    if not links or not w.take(*(end for link in links for end in link.ends)):
        return False
    for link in links:
        w.cut(link.ends[0])
    for link, following in zip(links, [*links[1:], links[0]], strict=True):
        w.join(link.ends[0], following.ends[1])
    return w.expect(kind, (end for link in links for end in link.ends))


def swapped(w: World) -> bool:
    return _circle(w, w.some_links(2), "swapped")


def swapped_in_a_pair(w: World) -> bool:
    first = w.some_links(1, lambda link: link.a in w.plan.switches)
    return bool(first) and _circle(
        w, w.some_links(2, lambda link: (link.a, link.b) == (first[0].a, first[0].b)), "swapped"
    )


def swapped_across_rails(w: World) -> bool:
    first = w.some_links(1, lambda link: link.a in w.plan.hcas)
    if not first:
        return False
    hca = w.plan.hcas[first[0].a]
    others = [
        link
        for link in w.links
        if link.a in w.plan.hcas and w.plan.hcas[link.a].host == hca.host and link.a != hca.name
    ]
    return bool(others) and _circle(w, [first[0], w.rng.choice(others)], "swapped")


def leaf_to_leaf(w: World) -> bool:
    links = w.some_links(2, lambda link: link.a in w.plan.switches)
    if not links or not w.take(*links[0].ends, *links[1].ends):
        return False
    (a, b), (c, d) = links[0].ends, links[1].ends
    w.cut(a, c)
    w.join(a, c)
    w.join(b, d)
    return w.expect("swapped", (a, b, c, d))


def rotated(w: World) -> bool:
    return _circle(w, w.some_links(w.rng.choice((3, 3, 4))), "rotated")


def _move(w: World, same: bool, kind: str) -> bool:
    links = w.some_links(1)
    if not links:
        return False
    fixed, planned = links[0].ends
    if fixed[0] in w.plan.switches and w.rng.random() < 0.5:
        fixed, planned = planned, fixed
    now = w.free_port(
        lambda name: (name == planned[0]) == same and name != fixed[0] and w.plane(name) == w.plane(planned[0])
    )
    if not now or not w.take(fixed, planned, now):
        return False
    w.cut(fixed)
    w.join(fixed, now)
    return w.expect(kind, (fixed, planned, now))


def wrong_port(w: World) -> bool:
    return _move(w, True, "wrong-port")


def miswired(w: World) -> bool:
    return _move(w, False, "miswired")


def shifted(w: World) -> bool:
    spare = w.free_port()
    links = w.some_links(w.rng.choice((2, 3)), lambda link: bool(spare) and spare[0] in (link.a, link.b))
    if not spare or not links:
        return False
    here = [next(end for end in link.ends if end[0] == spare[0]) for link in links]
    there = [next(end for end in link.ends if end[0] != spare[0]) for link in links]
    if not w.take(spare, *here, *there):
        return False
    w.cut(*here)
    for far, port in zip(there, [*here[1:], spare], strict=True):
        w.join(far, port)
    return w.expect("shifted", (spare, *here, *there))


def half_seen(w: World) -> bool:
    links = w.some_links(1)
    if not links or not w.take(*links[0].ends):
        return False
    w.deaf.append(w.rng.choice(links[0].ends))
    return w.expect("half-seen", links[0].ends)


def slow(w: World) -> bool:
    links = w.some_links(1)
    if not links or not w.take(*links[0].ends):
        return False
    width, speed = w.rng.choice((("1x", w.plan.speed), ("2x", w.plan.speed), (w.plan.width, "EDR"), ("1x", "SDR")))
    w.join(*links[0].ends, width=width, speed=speed)
    return w.expect("slow", links[0].ends)


def unknown(w: World) -> bool:
    one = w.free_port()
    if not one or not w.take(one):
        return False
    name = f"stranger{len(w.nodes)} mlx5_0"
    w.add(name, CA, 1)
    w.join((name, 1), one)
    return w.expect("unknown", (one,))


def unknown_switch(w: World) -> bool:
    one = w.free_port()
    if not one or not w.take(one):
        return False
    other = w.free_port(lambda name: w.plane(name) == w.plane(one[0]))
    ends = [one, other] if other and w.take(other) else [one]
    name = f"foreign{len(w.nodes)}"
    w.add(name, SWITCH, 8)
    for port, end in enumerate(ends, 1):
        w.join((name, port), end)
    return w.expect("unknown", ends)


def unknown_in_place(w: World) -> bool:
    links = w.some_links(1, lambda link: link.a in w.plan.hcas)
    if not links or not w.take(*links[0].ends):
        return False
    w.cut(links[0].ends[0])
    name = f"usurper{len(w.nodes)} mlx5_0"
    w.add(name, CA, 1)
    w.join((name, 1), links[0].ends[1])
    return w.expect("unknown", (links[0].ends[1],))


def _hca(w: World) -> str:
    links = w.some_links(1, lambda link: link.a in w.plan.hcas)
    return links[0].a if links and w.take(*links[0].ends) else ""


def _few(w: World, kind: str) -> bool:
    """Tell whether there is room for one more of a kind: more than three are told of together."""
    return sum(one == kind for one, _ends in w.expected) < 3


def unnamed(w: World) -> bool:
    name = _hca(w) if _few(w, "unnamed") else ""
    if not name:
        return False
    w.rename[name] = w.rng.choice((FACTORY, "localhost HCA-1", "ubuntu mlx5_0", ""))
    return w.expect("unnamed", [(name, 1)])


def unnamed_switch(w: World) -> bool:
    # Two switches of one place would be one without a name each; more than three are told of together.
    if sum(kind == "unnamed" for kind, _ in w.expected) > 1:
        return False
    name = w.rng.choice(list(w.plan.switches))
    if not w.take_node(name):
        return False
    w.rename[name] = w.rng.choice(("MF0;switch-b87b40:MQM9700/U1", "Quantum Mellanox Technologies", "old-name"))
    return w.expect("unnamed", [(name, 1)])


def replaced(w: World) -> bool:
    if not any(switch.guid for switch in w.plan.switches.values()) or not _few(w, "replaced"):
        return False
    name = _hca(w)
    if not name:
        return False
    w.new_guid[name] = generated_guid(f"new {name}")
    return w.expect("replaced", [(name, 1)])


def exchanged_switches(w: World) -> bool:
    """Exchange the names of two or three switches of a tier, as a wrong node-name map does."""
    first = w.plan.switches[w.rng.choice(list(w.plan.switches))]
    alike = [one.name for one in w.plan.switches.values() if (one.tier, one.plane) == (first.tier, first.plane)]
    names = w.rng.sample(alike, min(len(alike), w.rng.choice((2, 3))))
    # More than three rings are told of together.
    if len(names) < 2 or not _few(w, "exchanged") or any(not w.free_node(name) for name in names):
        return False
    for name in names:
        w.take_node(name)
    w.rename.update(zip(names, [*names[1:], names[0]], strict=True))
    return w.expect("exchanged", ((name, 0) for name in names))


def exchanged_hosts(w: World) -> bool:
    """Exchange all cables of two hosts."""
    of_host: dict[str, list[Link]] = {}
    for link in w.links:
        if link.a in w.plan.hcas and not w.around(link.ends) & w.touched:
            of_host.setdefault(w.plan.hcas[link.a].host, []).append(link)
    hosts = [host for host, links in of_host.items() if len(links) == _nics(w, host) > 1]
    if len(hosts) < 2:
        return False
    # A listed fabric has cables in any order; a device takes the place of its like.
    one, other = ({w.plan.hcas[link.a].device: link for link in of_host[host]} for host in w.rng.sample(hosts, 2))
    if one.keys() != other.keys():
        return False
    pairs = [(link, other[device]) for device, link in one.items()]
    if not w.take(*(end for pair in pairs for link in pair for end in link.ends)):
        return False
    for near, far in pairs:
        w.cut(near.ends[0], far.ends[0])
        w.join(near.ends[0], far.ends[1])
        w.join(far.ends[0], near.ends[1])
    return w.expect("exchanged", (link.ends[0] for pair in pairs for link in pair))


def _nics(w: World, host: str) -> int:
    return sum(hca.host == host for hca in w.plan.hcas.values())


def duplicate_guid(w: World) -> bool:
    links = w.some_links(2, lambda link: link.a in w.plan.hcas)
    if not links or not w.take(*links[0].ends, *links[1].ends):
        return False
    one, other = links[0].a, links[1].a
    w.new_guid[other] = w.nodes[one].guid
    # One node is in the output, with the cable that was seen last.
    w.mute.add(w.rng.choice((one, other)))
    return w.expect("duplicate-guid", [(one, 0), (other, 0)])


def duplicate_name(w: World) -> bool:
    links = w.some_links(2, lambda link: link.a in w.plan.hcas)
    if not links or not w.take(*links[0].ends, *links[1].ends):
        return False
    w.rename[links[0].a] = links[1].a
    return w.expect("duplicate-name", [(links[0].a, 1), (links[1].a, 1)])


def dead_host(w: World) -> bool:
    host = w.rng.choice([hca.host for hca in w.plan.hcas.values()])
    links = [link for link in w.links if link.a in w.plan.hcas and w.plan.hcas[link.a].host == host]
    if len(links) < 2 or not w.take(*(end for link in links for end in link.ends)):
        return False
    w.cut(*(link.ends[0] for link in links))
    return w.expect("isolated", [link.ends[0] for link in links])


def dead_switch(w: World) -> bool:
    name = w.rng.choice(list(w.plan.switches))
    if not w.take_node(name):
        return False
    w.cut(*((name, port) for port in list(w.nodes[name].cables)))
    w.off.add(name)
    return w.expect("isolated", [(name, 0)])


def mute(w: World) -> bool:
    name = w.rng.choice([*w.plan.switches, *w.plan.hcas])
    if not w.take_node(name):
        return False
    w.mute.add(name)
    return w.expect("partial", [(name, 0)])


FAULTS = (
    missing, extra, joined, swapped, swapped_in_a_pair, swapped_across_rails, leaf_to_leaf, rotated, wrong_port, miswired, shifted,
    half_seen, slow, unknown, unknown_switch, unknown_in_place, unnamed, unnamed_switch, replaced, duplicate_guid, duplicate_name,
    dead_host, dead_switch, mute, exchanged_switches, exchanged_hosts,
)  # fmt: skip


def plant(
    plan: Plan,
    seed: int,
    count: int,
    faults: tuple[Callable[[World], bool], ...] = FAULTS,
    prepare: Callable[[World], object] = lambda _world: None,
) -> World:
    """Return a world with `count` faults that do not touch each other, and of which none cuts a switch off.

    `prepare` makes of a world what it is without any fault.
    """
    rng = random.Random(seed)
    while True:
        world = World(plan, rng)
        prepare(world)
        planted = tries = 0
        while planted < count and tries < 60:
            tries += 1
            planted += rng.choice(faults)(world)
        if planted and world.whole():
            return world


def matches(expected: Expected, finding: Finding) -> bool:
    """Tell whether a finding is of a fault; nodes that keep silent are told of together."""
    kind, ends = expected
    same = ends <= set(finding.ports) if kind == "partial" else ends == set(finding.ports)
    return kind == finding.kind and same
