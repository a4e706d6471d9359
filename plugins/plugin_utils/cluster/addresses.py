# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks, and the book in which every address is entered once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from .model import Network
from .schema.fields import Mistakes, Path


def networks_of(data: Mapping[str, Any], mistakes: Mistakes) -> dict[str, Network]:
    """Return networks by name."""
    networks: dict[str, Network] = {}
    for name, network in data.items():
        if found := _network(name, network, mistakes):
            for other in networks.values():
                if found.first <= other.last and other.first <= found.last:
                    mistakes.add(("networks", name, "cidr"), f"{found.cidr} overlaps {other.name}, {other.cidr}.")
            networks[name] = found
    if data and "management" not in data:
        hint = did_you_mean("management", list(data))
        mistakes.add(("networks",), f"'management' is missing: the network that Ansible and Slurm use.{hint}")
    return networks


def number_of(text: Any, path: Path, mistakes: Mistakes) -> int | None:
    """Return an IPv4 address as a number; a mistake in it is noted."""
    if text is None:
        return None
    try:
        return int(IPv4Address(text))
    except ValueError:
        mistakes.add(path, f"{text!r} is not an IPv4 address. Allowed: such as 10.20.1.11.")
        return None


def _network(name: str, data: Mapping[str, Any], mistakes: Mistakes) -> Network | None:
    path: Path = ("networks", name)
    if data["cidr"] is None:
        return None
    try:
        stated = _interface(data["cidr"])
    except ValueError:
        mistakes.add((*path, "cidr"), f"{data['cidr']!r} is not an IPv4 network. Allowed: such as 10.20.0.0/16.")
        return None
    block = stated.network
    first, last = int(block.network_address), int(block.broadcast_address)
    if int(stated) != first:
        mistakes.add((*path, "cidr"), f"{data['cidr']} is an address in a network; the network is {block}.")
    if block.num_addresses < 4:
        mistakes.add((*path, "cidr"), f"{data['cidr']} has no room for machines. Allowed: /30 or larger.")
        return None
    gateway = number_of(data["gateway"], (*path, "gateway"), mistakes)
    start = number_of(data["start"], (*path, "start"), mistakes)
    for key, number in (("gateway", gateway), ("start", start)):
        if number is not None and not first < number < last:
            mistakes.add(
                (*path, key), f"{data[key]} is outside {block}, or its first or last address. {_room(first, last)}"
            )
    if data["start"] is None:
        start = first + 1
    elif start is None or not first < start < last:
        # Counting from a wrong start, or from another one, would tell a mistake for every rack.
        return None
    return Network(name, str(block), first, last, gateway, start)


def _interface(text: str) -> IPv4Interface:
    """Return an address with the length of its network, such as 10.20.0.0/16. ValueError for anything else."""
    address, _unused, length = text.partition("/")
    # ipaddress refuses a length with a space beside it; cluster files may have one.
    with suppress(ValueError):
        return IPv4Interface((address, int(length)))
    return IPv4Interface(text)


def _room(first: int, last: int) -> str:
    return f"Allowed: {address_text(first + 1)} to {address_text(last - 1)}."


class Book:
    """Hands out the addresses of one network, and knows whose each is.

    Counted addresses never step aside for stated ones: then a new host would silently move the nodes behind it.
    """

    def __init__(self, network: Network, mistakes: Mistakes) -> None:
        self.network, self.mistakes = network, mistakes
        self.owner: dict[int, str] = {}
        self.next = network.start

    def given(self, text: Any, name: str, path: Path) -> str | None:
        """Enter a stated address and return it as text."""
        number = number_of(text, path, self.mistakes)
        if number is None:
            return None
        self._enter([number], [name], path)
        return address_text(number)

    def run(
        self, names: list[str], stated: Mapping[str, str | None], start: Any, where: tuple[Path, Path]
    ) -> list[str]:
        """Return the address of each name: consecutive, from `start` or after the run before.

        A name with an address in `stated` keeps that; its place in the count stays empty. `where` has the paths of the
        names and of the start.
        """
        first = number_of(start, where[1], self.mistakes)
        number = self.next if first is None else first
        gateway = self.network.gateway
        if gateway is not None and number <= gateway < number + len(names):
            numbers = [one for one in range(number, number + len(names) + 1) if one != gateway]
        else:
            numbers = list(range(number, number + len(names)))
        self.next = numbers[-1] + 1 if numbers else number
        counted = (
            [(one, name) for one, name in zip(numbers, names, strict=True) if not stated.get(name)] if stated else None
        )
        path = where[0] if first is None else where[1]
        if counted is None:
            self._enter(numbers, names, path)
        else:
            self._enter([one for one, _unused in counted], [name for _unused, name in counted], path)
        return [stated.get(name) or address_text(one) for one, name in zip(numbers, names, strict=True)]

    def _enter(self, numbers: list[int], names: list[str], path: Path) -> None:
        network, owner = self.network, self.owner
        if numbers and not network.first < numbers[0] <= numbers[-1] < network.last:
            at = next(index for index, one in enumerate(numbers) if not network.first < one < network.last)
            left = len(numbers) - at
            room = _room(network.first, network.last)
            whose = f"{names[at]} and {left - 1} more" if left > 1 else names[at]
            self.mistakes.add(
                path, f"{address_text(numbers[at])}, for {whose}, is outside {network.name} ({network.cidr}). {room}"
            )
        elif network.gateway is not None and numbers == [network.gateway]:
            self.mistakes.add(
                path, f"{address_text(numbers[0])} is the gateway of {network.name}; {names[0]} cannot have it."
            )
        taken = [(one, name) for one, name in zip(numbers, names, strict=True) if owner.setdefault(one, name) != name]
        if taken:
            number, name = taken[0]
            more = f", and {len(taken) - 1} more are" if len(taken) > 1 else ""
            hint = "State another address, or a `start` or `address` that leaves room."
            self.mistakes.add(path, f"{address_text(number)} of {name} is {owner[number]}'s already{more}. {hint}")


def address_text(number: int) -> str:
    """Return an IPv4 address that is given as a number, such as 10.20.1.11."""
    return f"{_block(number >> 8)}{number & 255}" if number < 2**32 else "an address after 255.255.255.255"


@lru_cache(maxsize=1024)
def _block(number: int) -> str:
    """Return the text that 256 addresses have in common, such as 10.20.1. with its dot."""
    return str(IPv4Address(number << 8)).removesuffix("0")
