# SPDX-License-Identifier: GPL-3.0-or-later
"""Match adapters that name their host, but not a device of the plan: `gpu1 HCA-1` for `gpu1 mlx5_0`.

The host is certain, since the node names it. Which device it is, is learned from hosts whose adapters are all in ports of the same host:
hosts with the same devices number them in the same way. Without such hosts the order of a host's devices decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA

from ..core.node_descriptions import natural, plain_name
from .binding import Binding
from .identified_fabric import DEVICE, NAME, ORDER, PLACE, RECORDED, RENUMBERED, REST
from .merge import MergedNode

# Devices of a host, in their order.
Devices = tuple[str, ...]
# Share of the hosts that must agree before a device name of the plan is taken to be that of another device.
_OVERRULING = 0.9


@dataclass
class _Host:
    """A host with adapters that have other names: its planned names in order, label in the subnet -> node, and the nodes to match."""

    key: str
    names: list[str]
    devices: Devices
    nodes: dict[str, MergedNode]
    left: list[MergedNode]


class DeviceMatcher:
    """Matcher of the adapters of hosts that name their devices in another way. `matched`: host -> how its devices were matched."""

    def __init__(self, binding: Binding) -> None:
        self.binding, self.plan = binding, binding.plan
        self.matched: dict[str, str] = {}

    def match(self, nodes: Iterable[MergedNode]) -> None:
        """Match what is certain by the device names of all hosts, else by the order of a host's devices."""
        hosts = self._hosts(nodes)
        if not hosts:
            return
        learned = self._learned(hosts)
        for host in hosts:
            self._by_map(host, learned.get(host.devices, {}))
        for host in hosts:
            self._by_order(host)

    def claimed(self, nodes: Iterable[MergedNode]) -> dict[str, list[MergedNode]]:
        """Return host in lower case -> nodes without a match that name it."""
        found: dict[str, list[MergedNode]] = {}
        for node in nodes:
            if node.kind == CA and node.guid not in self.binding.seen.names:
                host = self.binding.host_of(node)
                if host in self.binding.adapters:
                    found.setdefault(host, []).append(node)
        return found

    def match_rest(self, nodes: Iterable[MergedNode]) -> None:
        """Match a host's last nodes: each by its port if that is a port of the host, then the only one left."""
        taken = self.binding.taken
        for host, left in self.claimed(nodes).items():
            own = self.binding.adapters[host]
            for node in left:
                name = self.binding.place_of(node.guid)
                if name in own and name not in taken:
                    self.binding.bind(node, name, PLACE)
            left = [node for node in left if node.guid not in self.binding.seen.names]
            free = [name for name in own if name not in taken]
            if len(left) == len(free) == 1:
                self.binding.bind(left[0], free[0], REST)

    def _hosts(self, nodes: Iterable[MergedNode]) -> list[_Host]:
        found = []
        for key, left in self.claimed(nodes).items():
            names = sorted(self.binding.adapters[key], key=natural)
            named = [
                self.binding.merged.nodes[self.binding.taken[name]] for name in names if name in self.binding.taken
            ]
            labels = {_label(node): node for node in (*named, *left)}
            if len(labels) == len(named) + len(left):
                devices = tuple(self.plan.hcas[name].device for name in names)
                found.append(_Host(key, names, devices, labels, left))
        return found

    def _learned(self, hosts: Iterable[_Host]) -> dict[Devices, dict[str, str]]:
        """Return devices of a host -> label -> device, as hosts show that have all cables at their own ports."""
        votes: dict[Devices, dict[str, Counter[str]]] = {}
        for host in hosts:
            shown = self._shown(host)
            for label, device in shown.items():
                votes.setdefault(host.devices, {}).setdefault(label, Counter())[device] += 1
        return {devices: dict(_certain(of_labels, devices)) for devices, of_labels in votes.items()}

    def _shown(self, host: _Host) -> dict[str, str]:
        """Return label -> device by the ports of a host's cables; empty if one is in no port of this host."""
        own = dict(zip(host.names, host.devices, strict=True))
        places = {label: own.get(self.binding.place_of(node.guid), "") for label, node in host.nodes.items()}
        return places if all(places.values()) and len(set(places.values())) == len(places) else {}

    def _by_map(self, host: _Host, learned: Mapping[str, str]) -> None:
        names = dict(zip(host.devices, host.names, strict=True))
        wanted = {label: names[learned[label]] for label in host.nodes if label in learned}
        if len(set(wanted.values())) < len(wanted):
            return
        guids, left = {node.guid for node in host.nodes.values()}, {node.guid for node in host.left}
        # A device of the plan is matched by its name already, unless all adapters of the host show that it is another one.
        if len(wanted) == len(host.nodes) and all(
            self.binding.taken.get(name) in (None, *guids) for name in wanted.values()
        ):
            new = wanted
        else:
            free = {label for label, name in wanted.items() if name not in self.binding.taken}
            new = {label: name for label, name in wanted.items() if label in free and host.nodes[label].guid in left}
        for label in new:
            self.binding.release(host.nodes[label].guid)
        for label, name in new.items():
            same = label == self.plan.hcas[name].device
            self.binding.bind(host.nodes[label], name, NAME if same else DEVICE)
        if new:
            self.matched[self.plan.hcas[host.names[0]].host] = DEVICE

    def _by_order(self, host: _Host) -> None:
        """Match the devices of a host by their order, if none has a name yet and their number is as planned."""
        if len(host.left) == len(host.names) and not any(name in self.binding.taken for name in host.names):
            for node, name in zip(sorted(host.left, key=lambda node: natural(_label(node))), host.names, strict=True):
                self.binding.bind(node, name, ORDER)
            self.matched[self.plan.hcas[host.names[0]].host] = ORDER


def _certain(of_labels: Mapping[str, Counter[str]], devices: Devices) -> Iterable[tuple[str, str]]:
    """Yield label and device where most hosts agree, and more than one."""
    for label, counts in of_labels.items():
        device, most = counts.most_common(1)[0]
        total = sum(counts.values())
        overruled = label in devices and device != label
        if most > 1 and 2 * most > total and not (overruled and most < _OVERRULING * total):
            yield label, device
        elif label in devices:
            yield label, label


def _label(node: MergedNode) -> str:
    return plain_name(node.description).partition(" ")[2]


def match_renumbered(binding: Binding, misplaced: Iterable[str]) -> None:
    """Name the adapters of hosts again that lack a card, where the kernel gave its number to the next one.

    `misplaced` are adapters that have their own name, and a cable in another port. A host is renumbered if its adapters have the first
    numbers without a gap, and are in ports of the same host in the same order.
    """
    for key in dict.fromkeys(binding.plan.hcas[name].host.lower() for name in misplaced):
        names = sorted(binding.adapters[key], key=natural)
        there = [name for name in names if binding.seen.how.get(name) == NAME]
        places = [binding.place_of(binding.taken[name]) for name in there]
        if not 2 <= len(there) < len(names) or there != names[: len(there)] or len(set(places)) < len(places):
            continue
        if all(place in names for place in places) and places == sorted(places, key=natural):
            moves = {one: other for one, other in zip(there, places, strict=True) if one != other}
            if moves and not any(other in binding.taken and other not in moves for other in moves.values()):
                binding.rename(moves, RENUMBERED)
                binding.seen.renumbered[binding.plan.hcas[names[0]].host] = list(moves.values())


def match_recorded(binding: Binding, nodes: Iterable[MergedNode]) -> None:
    """Name the adapters of hosts again that got other device names, where the GUIDs on record and the cables show that no card moved.

    Only hosts that have a name of the plan at a wrong adapter: other names contradict nothing. If nearly all hosts of a kind have the same
    names, and some are not in the plan, this is how the site names devices, and DeviceMatcher learns it.
    """
    seen, hcas = binding.seen, binding.plan.hcas
    hosts: dict[str, list[MergedNode]] = {}
    for node in nodes:
        if (
            node.kind == CA
            and node.guid not in binding.contested
            and (host := binding.host_of(node)) in binding.adapters
        ):
            hosts.setdefault(host, []).append(node)
    moves: dict[str, dict[str, str]] = {}
    for host, there in hosts.items():
        own = {
            node.guid: name for node in there if (name := _recorded(binding, host, node)) != seen.names.get(node.guid)
        }
        own = {guid: name for guid, name in own.items() if name}
        if any(guid in seen.names for guid in own) and hcas[binding.adapters[host][0]].host not in seen.renumbered:
            moves[host] = own
    devices = {host: tuple(hcas[name].device for name in binding.adapters[host]) for host in hosts}
    kinds = Counter(devices.values())
    alike = Counter((devices[host], _names_of(binding, own)) for host, own in moves.items())
    for host, own in moves.items():
        usual = alike[devices[host], _names_of(binding, own)] > max(1, _OVERRULING * kinds[devices[host]])
        if usual and not all(guid in seen.names for guid in own):
            continue
        for guid in {*own, *(binding.taken[name] for name in own.values() if name in binding.taken)}:
            binding.release(guid)
        for guid, name in own.items():
            binding.bind(binding.merged.nodes[guid], name, RECORDED)
        seen.misnamed[hcas[binding.adapters[host][0]].host] = [
            (_label(binding.merged.nodes[guid]), name)
            for guid, name in sorted(own.items(), key=lambda pair: natural(pair[1]))
        ]


def _recorded(binding: Binding, host: str, node: MergedNode) -> str:
    """Return the adapter of a host that a node is by its GUID on record and its cable; "" if they do not agree."""
    name = binding.on_record.get(node.guid, "")
    mine = name in binding.adapters[host] and binding.place_of(node.guid) == name
    return name if mine else ""


def _names_of(binding: Binding, own: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset((_label(binding.merged.nodes[guid]), binding.plan.hcas[name].device) for guid, name in own.items())
