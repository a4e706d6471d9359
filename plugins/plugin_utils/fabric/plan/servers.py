# SPDX-License-Identifier: GPL-3.0-or-later
"""Servers beside the racks' nodes: subnet managers and storage, and where their adapters plug into a finished plan.

They come last and take ports that are left, so that one more of them moves no cable of a node and no uplink; and on a leaf of nodes
the last of those ports, so that one more node moves none of theirs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, few

from ..core.fabric_model import MANAGEMENT, Hca, Link, Plan, Switch


@dataclass(frozen=True)
class Plug:
    """An adapter of a server; an unstated place is chosen."""

    device: str
    rail: int | None = None
    purpose: str = MANAGEMENT
    leaf: str = ""
    port: int | None = None
    label: str = ""


@dataclass(frozen=True)
class Server:
    """A server; `near` is the leaf or scalable unit of its rack, if it has nodes."""

    name: str
    plugs: Sequence[Plug]
    rack: str = ""
    near: str = ""


@dataclass(frozen=True)
class ServerMistake:
    """Impossible place: the number of the adapter of a server, or of the leaf without a server."""

    server: str
    number: int
    text: str


def attach(
    plan: Plan,
    servers: Sequence[Server],
    leaves: Sequence[str] = (),
    whole: bool = True,
    sized: Callable[[Switch], Switch] = lambda switch: switch,
) -> list[ServerMistake]:
    """Add the servers' HCAs to a plan, and `leaves` that are theirs alone; return all that is wrong, and [] when all plug in.

    `sized` returns a leaf of servers with its own number of ports; by default that of a leaf of nodes.
    Of a plan that is not `whole`, for it has no cables between switches, only what those do not matter for is told.
    """
    return _Attaching(plan, servers, leaves, whole, sized).go() if servers or leaves else []


@dataclass
class _Attaching:
    plan: Plan
    servers: Sequence[Server]
    leaves: Sequence[str]
    whole: bool
    sized: Callable[[Switch], Switch]
    wrong: list[ServerMistake] = field(default_factory=list)
    # Switch -> ports that have a cable, and the end at the other side.
    taken: dict[str, dict[int, str]] = field(default_factory=dict)
    # Lower switch -> upper switch -> cables.
    above: dict[str, Counter[str]] = field(default_factory=dict)
    # Leaf -> adapters of servers.
    servers_on: Counter[str] = field(default_factory=Counter)
    # A leaf of servers -> the leaf of nodes below whose spines it stands.
    sisters: dict[str, str] = field(default_factory=dict)

    def go(self) -> list[ServerMistake]:
        """Attach everything."""
        switches = self.plan.switches
        self.nodes = [name for name, switch in switches.items() if switch.tier == 1]
        for link in self.plan.links:
            for (one, port), (other, _port) in (link.ends, link.ends[::-1]):
                if one in switches:
                    self.taken.setdefault(one, {})[port] = other
            if link.a in switches and link.b in switches and switches[link.a].tier < switches[link.b].tier:
                self.above.setdefault(link.a, Counter())[link.b] += 1
        plugs = list(self._plugs())
        self._own_leaves(plugs)
        # A stated port goes before one that is chosen.
        for server, number, plug in sorted(plugs, key=lambda one: (one[2].port is None, not one[2].leaf)):
            self._plug(server, number, plug)
        if not self.wrong and self.whole:
            self._in_order(plugs)
            for name in self.leaves:
                self._uplinks(name)
        return self.wrong

    def _plugs(self) -> Iterator[tuple[Server, int, Plug]]:
        """Yield server, number and adapter; where a rail is a plane, adapters without one have one plane after the other."""
        rails = self._rails() if self.plan.kind == "rail-only" else []
        for server in self.servers:
            free = [rail for rail in rails if rail not in {plug.rail for plug in server.plugs}]
            for number, plug in enumerate(server.plugs):
                if rails and plug.rail is None and not (stated := self.plan.switches.get(plug.leaf)):
                    if not free:
                        self._say(
                            server, number, f"there is no plane left for {plug.device}: the fabric has {len(rails)}"
                        )
                        continue
                    plug = replace(plug, rail=free.pop(0))
                elif rails and plug.rail is None and stated:
                    plug = replace(plug, rail=stated.rail)
                yield server, number, plug

    def _rails(self) -> list[int]:
        return sorted({rail for name in self.nodes if (rail := self.plan.switches[name].rail) is not None})

    def _say(self, server: Server | None, number: int, text: str) -> None:
        self.wrong.append(ServerMistake(server.name if server else "", number, text))

    def _own_leaves(self, plugs: Sequence[tuple[Server, int, Plug]]) -> None:
        """Add the leaves of servers, each as a sister of one of the nodes."""
        for number, name in enumerate(self.leaves):
            if name in self.plan.switches:
                self._say(None, number, f"{name} is a switch of the plan already. A switch has one name and one tier.")
                continue
            on = [(server, plug) for server, _number, plug in plugs if plug.leaf == name]
            rails = list(dict.fromkeys(plug.rail for _server, plug in on if plug.rail is not None))
            sister = self._sister(rails[0] if rails else None, on[0][0] if on else None)
            if self.whole and not self.above.get(sister.name):
                text = f"{name} would be beside {sister.name}, which has no spine above it. Put its NICs on leaves of the racks."
                self._say(None, number, text)
            rail = sister.rail if self.plan.kind == "rail-only" else rails[0] if len(rails) == 1 else None
            self.sisters[name] = sister.name
            # The group of a rail's leaf is a scalable unit, of which this one is none.
            group = sister.group if sister.rail is None else ""
            self.plan.add(self.sized(replace(sister, name=name, rail=rail, rack="", group=group)))

    def _sister(self, rail: int | None, server: Server | None) -> Switch:
        """Return the leaf whose spines are above a server's separate leaf."""
        found = [self.plan.switches[name] for name in self.nodes]
        if rail is not None:
            found = [one for one in found if one.rail == rail] or found
        if server and server.near:
            groups = {one.group for one in found if server.near in (one.name, one.group)}
            found = [one for one in found if one.group in groups] or found
        return found[0]

    def _plug(self, server: Server, number: int, plug: Plug) -> None:
        leaf = self._leaf(server, number, plug)
        if leaf is None:
            return
        port = plug.port or self._free(leaf)
        taken = self.taken.setdefault(leaf.name, {})
        if not port and not self.whole:
            return
        if not port:
            text = f"{leaf.name} has no port left: {len(taken)} of {leaf.ports} have a cable{self._kept(leaf)}. {self._room()}"
        elif port > leaf.ports - self._reserved(leaf):
            but = ": the others are for its uplinks" if port <= leaf.ports else ""
            text = f"{leaf.name} has no port {port} for it. Allowed: 1 to {leaf.ports - self._reserved(leaf)}{but}."
        elif port in taken:
            text = f"{leaf.name}:{port} has the cable of {taken[port]} already. {self._free_ports(leaf)}"
        elif port in self.plan.spare.get(leaf.name, ()):
            text = f"{leaf.name}:{port} is kept free by fabric.spare. Take it out there, or another port here."
        elif (name := f"{server.name} {plug.device}") in self.plan.hcas:
            text = f"{name} is in the plan already."
        else:
            hca = Hca(server.name, plug.device, plug.rail, leaf.plane, plug.purpose, server.rack, label=plug.label)
            self.plan.add(hca)
            self.plan.links.append(Link(hca.name, 1, leaf.name, port, "host"))
            taken[port] = hca.name
            self.servers_on[leaf.name] += 1
            self.plan.used[hca.name] = 1
            return
        self._say(server, number, text)

    def _leaf(self, server: Server, number: int, plug: Plug) -> Switch | None:
        switches = self.plan.switches
        if plug.leaf:
            leaf = switches.get(plug.leaf)
            if leaf is None or leaf.tier != 1:
                self._say(server, number, self._no_leaf(plug.leaf, leaf))
                return None
            if plug.rail is not None and leaf.rail is not None and leaf.rail != plug.rail:
                self._say(
                    server,
                    number,
                    f"{leaf.name} is of rail {leaf.rail}, and the NIC of rail {plug.rail}. State one of the two.",
                )
                return None
            return leaf
        names = [*self.nodes, *(name for name in self.leaves if name in switches)]
        found = [switches[name] for name in names if plug.rail is None or switches[name].rail in (None, plug.rail)]
        if not found:
            rails = ", ".join(map(str, self._rails())) or "none, because its leaves are not by rail"
            self._say(server, number, f"there is no leaf of rail {plug.rail}. Allowed: {rails}.")
            return None
        best = min(found, key=lambda leaf: self._rank(server, plug, leaf))
        if not self._free(best) and not self.whole:
            return None
        if not self._free(best):
            kept = " or are kept free" if self.plan.spare else ""
            text = f"no leaf has a port left for it: all ports of {few(leaf.name for leaf in found)} have cables{kept}. {self._room()}"
            self._say(server, number, text)
            return None
        return best

    def _rank(self, server: Server, plug: Plug, leaf: Switch) -> tuple[bool, bool, bool, bool, int]:
        """Return what makes a leaf a worse place: no port left, another's leaf, far away, uplinks that have enough, more servers.

        How many nodes are on it must not count further, else one more node would move a server to another leaf.
        """
        near = server.near != "" and server.near in (leaf.name, leaf.group)
        enough = plug.purpose != MANAGEMENT and self._laden(leaf.name)
        return not self._free(leaf), leaf.name not in self.leaves, not near, enough, self.servers_on[leaf.name]

    def _laden(self, leaf: str) -> bool:
        """Return whether one more HCA is too many for the uplinks of a leaf of nodes."""
        up = sum(self.above.get(leaf, Counter()).values())
        hcas = [self.plan.hcas.get(name) for name in self.taken.get(leaf, {}).values()]
        loading = sum(hca is not None and hca.purpose != MANAGEMENT for hca in hcas)
        return leaf in self.above and loading + 1 > up * self.plan.oversubscription

    def _no_leaf(self, name: str, switch: Switch | None) -> str:
        if switch:
            return (
                f"{name} is a switch of tier {switch.tier}, and HCAs plug into leaves: OpenSM's ftree refuses others."
            )
        known = [*self.nodes, *self.leaves]
        hint = did_you_mean(name, known, lead="Did", otherwise=f"Allowed: {few(known)}.")
        return f"leaf {name!r} is unknown. {hint} One for hosts alone is named in fabric.leaves."

    def _ports(self, leaf: Switch) -> Iterator[int]:
        """Yield the free ports of a leaf for a server: on a leaf of nodes, the last ports first."""
        if leaf.name not in self.leaves:
            return self._last(leaf.name)
        most = leaf.ports - self._reserved(leaf)
        return (port for port in sorted(self._last(leaf.name)) if port <= most)

    def _reserved(self, leaf: Switch) -> int:
        """Return how many ports at the end of a server's leaf are for its uplinks: the upper half, as on other leaves."""
        return leaf.ports - leaf.ports // 2 if leaf.name in self.leaves else 0

    def _free(self, leaf: Switch) -> int:
        return next(self._ports(leaf), 0)

    def _free_ports(self, leaf: Switch) -> str:
        if not self.whole:
            return "Take another port."
        free = [str(port) for port in self._ports(leaf)]
        return f"Free: {few(free)}." if free else "None is free."

    def _kept(self, leaf: Switch) -> str:
        count = len(self.plan.spare.get(leaf.name, ()))
        parts = [f"{count} kept free"] if count else []
        parts += [f"{self._reserved(leaf)} for its uplinks"] if leaf.name in self.leaves else []
        return f" and {', '.join(parts)}" if parts else ""

    def _room(self) -> str:
        return (
            "Give the hosts a separate leaf in fabric.leaves if spines have free ports, or take fewer nodes to a leaf."
        )

    def _in_order(self, plugs: Sequence[tuple[Server, int, Plug]]) -> None:
        """Put the servers' HCAs and cables into the order of the file."""
        order = {f"{server.name} {plug.device}": place for place, (server, _number, plug) in enumerate(plugs)}
        links, start = self.plan.links, len(self.plan.links) - len(plugs)
        links[start:] = sorted(links[start:], key=lambda link: order[link.a])
        for name in order:
            self.plan.hcas[name] = self.plan.hcas.pop(name)

    def _uplinks(self, name: str) -> None:
        """Join a leaf of servers with the spines above its sister, by as many cables as its NICs need."""
        leaf, sister = self.plan.switches[name], self.sisters[name]
        hosts, above = self._hosts(name), self.above[sister]
        number = self.leaves.index(name)
        if not hosts:
            self._say(None, number, f"no NIC is on {name}. Name it as the `leaf` of one, or remove it.")
            return
        # Where they stand in several racks, nobody said in which the leaf does.
        racks = {self.plan.hcas[other].rack for other in self.taken[name].values() if other in self.plan.hcas}
        self.plan.switches[name] = replace(leaf, rack=racks.pop() if len(racks) == 1 else "")
        # Of leaves with as many hosts, P3 wants as many uplinks; in a group of a dragonfly all are alike.
        alike = hosts == self._hosts(sister) or self.plan.kind == "dragonfly"
        each = -(-math.ceil(hosts / self.plan.oversubscription) // len(above))
        kind = next(link.kind for link in self.plan.links if link.a == sister)
        cables = {high: theirs if alike else each for high, theirs in above.items()}
        kept = self.plan.spare.get(name, ())
        ports = (port for port in range(leaf.ports - self._reserved(leaf) + 1, leaf.ports + 1) if port not in kept)
        # In turn, so that one more cable to each moves none.
        for high in (high for turn in range(max(cables.values())) for high, count in cables.items() if turn < count):
            # The last that is free, so that one more leaf of nodes moves no cable of this one.
            there, here = next(self._last(high), 0), next(ports, 0)
            if not there:
                text = f"{high} has no port left for {name}: {cables[high]} are needed on each of {len(above)} spines"
                self._say(None, number, f"{text}. Name more spines, or put the NICs on leaves of the racks.")
                return
            if not here:
                text = f"{name} has {leaf.ports} ports, too few for {hosts} NICs and {sum(cables.values())} uplinks"
                self._say(None, number, f"{text}. Name one more leaf in fabric.leaves.")
                return
            self.plan.links.append(Link(name, here, high, there, kind))
            self.taken[high][there] = name

    def _last(self, switch: str) -> Iterator[int]:
        """Yield the ports of a switch that are free, the last one first."""
        taken, spare = self.taken.get(switch, {}), self.plan.spare.get(switch, ())
        return (
            port for port in range(self.plan.switches[switch].ports, 0, -1) if port not in taken and port not in spare
        )

    def _hosts(self, leaf: str) -> int:
        """Return how many adapters are on a leaf."""
        return sum(other in self.plan.hcas for other in self.taken.get(leaf, {}).values())
