# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of NICs: a network with `rails` mirrors `management`, so that every address of a node ends alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from .addresses import address_text
from .model import Cluster, Network, Nic, Node, Profile
from .profiles import numbers
from .schema.fields import Mistakes, Path

_OWN = ("management", "bmc")


def with_rails(
    networks: Mapping[str, Network],
    data: Mapping[str, Any],
    profiles: Mapping[str, Profile],
    nodes: Iterable[Node],
    mistakes: Mistakes,
) -> dict[str, Network]:
    """Return the networks with their rails; what of them cannot be is a mistake of its line."""
    found, owner = dict(networks), dict[int, str]()
    # A profile that is described but of no use is a mistake of its own.
    unread = any(len(path) == 2 and path[0] == "profiles" and path[1] not in profiles for path in mistakes.lines)
    known = sorted({nic.rail for profile in profiles.values() for nic in profile.nics if nic.rail is not None})
    for name, entry in data.items():
        path: Path = ("networks", name, "rails")
        if not entry or entry["rails"] is None:
            continue
        rails = numbers(entry["rails"], path, mistakes)
        if name in _OWN:
            mistakes.add(path, f"{name} has its own addresses. Give the rails another network.")
        elif entry["start"] is not None:
            mistakes.add(("networks", name, "start"), "the places of nodes are set in `management`. Remove it.")
        for rail in rails:
            if rail not in known and not unread:
                have = ", ".join(map(str, known)) or "none: give the profiles `nics` with a `rail`"
                mistakes.add(path, f"no profile has a NIC on rail {rail}. Allowed: {have}.")
            elif owner.setdefault(rail, name) != name:
                mistakes.add(path, f"rail {rail} has its addresses in the network {owner[rail]!r} already.")
        if name in found and rails and name not in _OWN:
            found[name] = replace(found[name], rails=rails)
            if "management" in found:
                _check_room(found[name], found["management"], nodes, path, mistakes)
    _check_routes(found, data, mistakes)
    _check_nics(found, profiles.values(), nodes, mistakes)
    return {name: _routed(network, found, data) for name, network in found.items()}


def _routed(network: Network, networks: Mapping[str, Network], data: Mapping[str, Any]) -> Network:
    """Return a network with what its rails reach through their gateway: the other rails with a gateway, and the stated networks."""
    if not network.rails or network.gateway is None:
        return network
    others = [one.cidr for one in networks.values() if one.rails and one.gateway is not None and one != network]
    stated = [one for text in data[network.name]["routes"] or () if (one := _block(text))]
    return replace(network, routes=tuple(dict.fromkeys([*others, *stated])))


def _block(text: Any) -> str:
    """Return a network in the form of the kernel; "" if it is not one."""
    try:
        return str(IPv4Network(text)) if "/" in str(text) else ""
    except ValueError:
        return ""


def _check_routes(networks: Mapping[str, Network], data: Mapping[str, Any], mistakes: Mistakes) -> None:
    """Find routes of networks that have no rails or no gateway, and routes that are not networks or would hide a network of the node."""
    for name, entry in data.items():
        path: Path = ("networks", name, "routes")
        network = networks.get(name)
        if not entry or not entry["routes"] or network is None:
            continue
        if not network.rails or network.gateway is None:
            lacks = "`gateway`" if network.rails else "`rails`"
            mistakes.add(
                path, f"{name} has no {lacks}, so nothing is routed through it. Give it {lacks}, or remove `routes`."
            )
        for index, text in enumerate(entry["routes"]):
            block = _block(text)
            if not block:
                what = "is not an IPv4 network with its length. Allowed: such as 10.48.0.0/16."
                mistakes.add((*path, index), f"{text!r} {what}")
                continue
            near = [one for one in networks.values() if one.rails or one.name in _OWN]
            if over := [one for one in near if IPv4Network(block).overlaps(IPv4Network(one.cidr))]:
                what = f"{block} overlaps {' and '.join(f'{one.name} ({one.cidr})' for one in over)}."
                mistakes.add((*path, index), f"{what} Allowed: networks outside of this file.")


def _check_nics(
    networks: Mapping[str, Network], profiles: Iterable[Profile], nodes: Iterable[Node], mistakes: Mistakes
) -> None:
    """Find NICs without a rail whose network is missing, is another one's, or has no room for their nodes."""
    free = [name for name, network in networks.items() if name not in _OWN and not network.rails]
    for profile in profiles:
        path: Path = ("profiles", profile.name, "nics")
        for nic in (one for one in profile.nics if one.network and one.rail is None):
            network = networks.get(nic.network)
            if network is None:
                mistakes.unknown(path, "network", nic.network, free)
            elif nic.network not in free:
                whose = "of its rails" if network.rails else "of machines"
                mistakes.add(path, f"{nic.network} has the addresses {whose}. Give {nic.name} another network.")
            elif "management" in networks:
                mine = [node for node in nodes if node.address and node.profile.name == profile.name]
                _check_places(network, networks["management"], mine, path, mistakes)


def _check_places(network: Network, management: Network, nodes: Iterable[Node], path: Path, mistakes: Mistakes) -> None:
    """Find the first node whose place in a network is outside of it, or is the gateway's."""
    for node in nodes:
        number = network.first + _offset(node, management)
        if number >= network.last or number == network.gateway:
            what = "which is the gateway" if number == network.gateway else f"outside {network.cidr}"
            text = f"{node.name} would have {address_text(number)} in {network.name}, {what}."
            mistakes.add(path, f"{text} Choose a larger network, or give the node another place in `management`.")
            return


def addresses(cluster: Cluster, node: Node) -> Iterator[tuple[Nic, str, str]]:
    """Yield (NIC, address with the length of its network, name of the network) for the NICs of a node that have a network."""
    place = {rail: network for network in cluster.networks.values() for rail in network.rails}
    for nic in node.profile.nics:
        network = cluster.networks.get(nic.network) if nic.rail is None else place.get(nic.rail)
        if network is not None:
            offset = _offset(node, cluster.networks["management"])
            number = network.first + offset if nic.rail is None else _number(network, nic.rail, offset)
            length = network.cidr.partition("/")[2]
            yield nic, f"{address_text(number)}/{length}", network.name


def _offset(node: Node, management: Network) -> int:
    return int(IPv4Address(node.address)) - management.first


def _number(network: Network, rail: int, offset: int) -> int:
    return network.first + network.rails.index(rail) * network.part + offset


def _check_room(network: Network, management: Network, nodes: Iterable[Node], path: Path, mistakes: Mistakes) -> None:
    """Find nodes whose place a part lacks, and nodes that would have the gateway's or the last address."""
    placed = [(_offset(node, management), node) for node in nodes if node.address and node.profile.nics]
    beyond = [(offset, node) for offset, node in placed if offset >= network.part]
    if beyond:
        offset, node = max(beyond, key=lambda one: one[0])
        room = (1 << offset.bit_length()) * (1 << (len(network.rails) - 1).bit_length())
        what = f"{node.name} is {node.address}, number {offset} of `management`, and each rail's part of {network.cidr} has"
        mistakes.add(
            path, f"{what} {network.part} addresses. Allowed: a network of /{33 - room.bit_length()} or larger."
        )
        return
    never = {network.gateway: "the gateway", network.last: "the broadcast address"}
    for rail in network.rails:
        for offset, node in placed:
            number = _number(network, rail, offset)
            if number in never and any(nic.rail == rail for nic in node.profile.nics):
                mistakes.add(
                    path,
                    f"{node.name} would have {address_text(number)} on rail {rail}, which is {never[number]} of {network.name}. "
                    "Choose another, or give the node another place in `management`.",
                )
