# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit nodes: without a usable name, with the name or GUID of another one, silent, and cards that are not seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..core.fabric_shape import SwitchCables
from ..core.node_descriptions import natural
from ..core.places import counted, describe
from .seen_fabric import SeenFabric

# Share of hosts that have a device, from which a host without it lacks it.
_NEARLY_ALL = 0.75


def node_findings(
    seen: SeenFabric, cables: SwitchCables, expected: Mapping[str, Iterable[str]] | None
) -> Iterator[Finding]:
    """Yield the findings on nodes; `expected` has the devices of hosts."""
    yield from _twice(seen)
    yield from _unnamed(seen)
    yield from _silent(seen)
    yield from _second_ports(seen)
    yield from _dead(seen, cables, expected)


def _twice(seen: SeenFabric) -> Iterator[Finding]:
    for guid, at in seen.merged.duplicate_guids.items():
        where = [describe((seen.names[one], port), seen.plan) for one, port in at if one in seen.names]
        text = f"the GUID {guid} is at {few(where)}" if where else f"two nodes have the GUID {guid}"
        remedy = "OpenSM stops because of it: replace one of the two"
        yield Finding("duplicate-guid", where[0] if where else guid, "", text, remedy, ERROR)
    for name, nodes in sorted(seen.twice.items()):
        places = [_at(seen, node) for node in nodes]
        text = f"{len(nodes)} nodes have this name: at {few(places)}"
        ports = tuple((node, 1) for node in nodes)
        yield Finding("duplicate-name", name, "", text, "give each its own name", ERROR, ports=ports)


def _at(seen: SeenFabric, name: str) -> str:
    """Return the port of a switch that an HCA is at; a switch itself."""
    end = seen.plan.leaf_of().get(name)
    return describe(end, seen.plan) if end else name


def _unnamed(seen: SeenFabric) -> Iterator[Finding]:
    """Yield one finding for each switch with unnamed cards, and one for the switches without a name."""
    twice = {node for nodes in seen.twice.values() for node in nodes}
    at = seen.plan.leaf_of()
    cards: dict[str, list[tuple[int, str]]] = {}
    switches = []
    for name, node in seen.unnamed.items():
        if name in twice:
            continue
        if name in seen.plan.switches:
            switches.append(name)
        else:
            leaf, port = at.get(name, ("no switch", 0))
            cards.setdefault(leaf, []).append((port, f"{node.description!r} [{node.guid}]"))
    if switches:
        many = f"{len(switches)} switches" if len(switches) > 1 else "1 switch"
        text = f"{many} without a usable name: {few(sorted(switches))}"
        ports = tuple((name, 0) for name in switches)
        yield Finding(
            "unnamed", seen.plan.name, "", text, "name the switches, or use a node-name map", WARNING, ports=ports
        )
    for leaf in sorted(cards, key=natural):
        listed = sorted(cards[leaf])
        text = f"{counted(len(listed), 'card')} without a usable name, in port {few(f'{port}: {text}' for port, text in listed)}"
        ports = tuple((leaf, port) for port, _text in listed if port)
        yield Finding(
            "unnamed", leaf, "", text, "set its NodeDescription (rdma-ndd), then discover again", WARNING, ports=ports
        )


def _silent(seen: SeenFabric) -> Iterator[Finding]:
    switches = [name for name in seen.silent if name in seen.plan.switches]
    hcas = [name for name in seen.silent if name not in seen.plan.switches]
    for names, severity in ((switches, ERROR), (hcas, WARNING)):
        if names:
            text = f"{counted(len(names), 'node')} named by others did not report themselves: {few(names)}"
            remedy = "the discovery was cut off, or they do not answer: discover again"
            ports = tuple((name, 0) for name in names)
            yield Finding("partial", names[0], "", text, remedy, severity, ports=ports)


def _second_ports(seen: SeenFabric) -> Iterator[Finding]:
    for link in seen.second_ports:
        text = f"port {link.a_port} of {link.a} is here; a plan has one port of each device"
        remedy = "have the driver name the port as a separate device"
        where = describe((link.b, link.b_port), seen.plan)
        yield Finding("second-port", where, "", text, remedy, NOTICE, ports=link.ends)


def _dead(seen: SeenFabric, cables: SwitchCables, expected: Mapping[str, Iterable[str]] | None) -> Iterator[Finding]:
    """Yield the leaves on which cards are not seen: more than there are cards without a name on them."""
    plan = seen.plan
    at = {name: end[0] for name, end in plan.leaf_of().items()}
    devices: dict[str, dict[str, str]] = {}
    for name, hca in plan.hcas.items():
        if name in at and name not in seen.unnamed:
            devices.setdefault(hca.host, {})[hca.device] = at[name]
    wanted = _expected(devices) if expected is None else {host: set(expected.get(host, ())) for host in devices}
    nameless = Counter(at[name] for name in seen.unnamed if name in at)
    absent: dict[str, list[str]] = {}
    for host, there in devices.items():
        for device in sorted(wanted[host] - there.keys(), key=natural):
            absent.setdefault(_leaf(host, device, devices), []).append(f"{host} {device}")
    for leaf in sorted(absent, key=natural):
        names = absent[leaf]
        if leaf and len(names) <= nameless[leaf]:
            continue
        where = leaf or names[0]
        text = f"{counted(len(names), 'card')} not seen here that hosts of this kind have: {few(names)}"
        if leaf and nameless[leaf]:
            text += f"; {nameless[leaf]} of them may be the cards without a name"
        if leaf and (ports := _dark_ports(seen, leaf, cables)):
            text += f"; ports without a link: {few(map(str, ports), 8)}"
        remedy = "check the card, its cable and its port on this switch"
        yield Finding("dead-port", where, "", text, remedy, WARNING, ports=tuple((name, 1) for name in names))


def _expected(devices: Mapping[str, Mapping[str, str]]) -> dict[str, set[str]]:
    """Return host -> devices of the hosts that are on mostly the same leaves as it is."""
    groups: dict[str, list[str]] = {}
    for host, there in devices.items():
        for leaf in set(there.values()):
            groups.setdefault(leaf, []).append(host)
    found: dict[str, set[str]] = {host: set(there) for host, there in devices.items()}
    for hosts in groups.values():
        counts = Counter(device for host in hosts for device in devices[host])
        usual = {device for device, count in counts.items() if count >= _NEARLY_ALL * len(hosts) and len(hosts) > 2}
        for host in hosts:
            # A server beside nodes has few of their devices.
            if 2 * len(usual & devices[host].keys()) >= len(usual):
                found[host] |= usual
    return found


def _leaf(host: str, device: str, devices: Mapping[str, Mapping[str, str]]) -> str:
    """Return the leaf on which most hosts beside this one have the device; "" if none has it."""
    mine = set(devices[host].values())
    votes: Counter[str] = Counter()
    for there in devices.values():
        if device in there and (shared := len(mine.intersection(there.values()))):
            votes[there[device]] += shared
    return max(votes, key=lambda leaf: (votes[leaf], leaf), default="")


def _dark_ports(seen: SeenFabric, leaf: str, cables: SwitchCables) -> list[int]:
    """Return the ports of a leaf without a link, up to the highest one with a host."""
    used = {port for link in seen.plan.links for name, port in link.ends if name == leaf}
    hosts = set(cables.hcas[leaf])
    highest = max((link.b_port for link in seen.plan.links if link.a in hosts and link.b == leaf), default=0)
    return [port for port in range(1, highest + 1) if port not in used]
