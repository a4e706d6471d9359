# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks, and the book in which every address is entered once."""

from __future__ import annotations

from typing import Any

from netaddr import AddrFormatError, IPAddress, IPNetwork
from netaddr.strategy.ipv4 import int_to_str

from .fields import Mistakes, Path, near
from .model import Network


def networks_of(data: dict[str, Any], mistakes: Mistakes) -> dict[str, Network]:
    """Return networks by name."""
    networks: dict[str, Network] = {}
    for name, network in data.items():
        if network and (found := _network(name, network, mistakes)):
            for other in networks.values():
                if found.first <= other.last and other.first <= found.last:
                    mistakes.add(("networks", name, "cidr"), f"{found.cidr} overlaps {other.name}, {other.cidr}.")
            networks[name] = found
    if "management" not in data:
        hint = near("management", list(data))
        mistakes.add(("networks",), f"'management' is missing: the network that Ansible and Slurm use.{hint}")
    return networks


def number_of(text: Any, path: Path, mistakes: Mistakes) -> int | None:
    """Return an IPv4 address as a number; a mistake in it is noted."""
    if text is None:
        return None
    try:
        return int(IPAddress(text, version=4))
    except (AddrFormatError, ValueError, TypeError):
        mistakes.add(path, f"{text!r} is no IPv4 address.")
        return None


def _network(name: str, data: dict[str, Any], mistakes: Mistakes) -> Network | None:
    path: Path = ("networks", name)
    try:
        block = IPNetwork(data["cidr"], version=4)
    except (AddrFormatError, ValueError, TypeError):
        if data["cidr"] is not None:
            mistakes.add((*path, "cidr"), f"{data['cidr']!r} is no IPv4 network, such as 10.20.0.0/16.")
        return None
    if block.ip != block.network:
        mistakes.add((*path, "cidr"), f"{data['cidr']} has host bits; the network is {block.cidr}.")
    if block.size < 4:
        mistakes.add((*path, "cidr"), f"{data['cidr']} has no room for machines.")
        return None
    gateway = number_of(data["gateway"], (*path, "gateway"), mistakes)
    start = number_of(data["start"], (*path, "start"), mistakes)
    for key, number in (("gateway", gateway), ("start", start)):
        if number is not None and not block.first < number < block.last:
            mistakes.add((*path, key), f"{data[key]} is no machine's address in {block.cidr}.")
    return Network(name, str(block.cidr), block.first, block.last, gateway, start or block.first + 1)


class Book:
    """Hands out addresses, and knows whose each is."""

    def __init__(self, networks: dict[str, Network], mistakes: Mistakes) -> None:
        self.networks, self.mistakes = networks, mistakes
        self.owner: dict[int, str] = {}
        self.next = {name: network.start for name, network in networks.items()}

    def given(self, network: str, text: Any, name: str, path: Path) -> str | None:
        """Enter a stated address; return it as text."""
        number = number_of(text, path, self.mistakes)
        if number is None:
            return None
        if network not in self.networks:
            if network == "bmc":
                self.mistakes.add(path, "there is no network 'bmc'.")
            return text if isinstance(text, str) else None
        self._enter(self.networks[network], number, name, path)
        return str(int_to_str(number))

    def run(self, names: list[str], exceptions: dict[str, Any], start: Any, path: Path) -> list[tuple[str, str | None]]:
        """Return (address, BMC address) of each name: consecutive, but for those that an exception states."""
        first = number_of(start, path, self.mistakes)
        stated = {name: (one["address"], one["bmc_address"]) for name, one in exceptions.items()}
        management = self._column("management", names, {name: one[0] for name, one in stated.items()}, first, path)
        bmc = self._column("bmc", names, {name: one[1] for name, one in stated.items()}, None, path)
        return list(zip([address or "" for address in management], bmc, strict=True))

    def _column(
        self, network_name: str, names: list[str], stated: dict[str, Any], first: int | None, path: Path
    ) -> list[str | None]:
        network = self.networks.get(network_name)
        if network is None:
            return [None] * len(names)
        number = self.next[network_name] if first is None else first
        column: list[str | None] = []
        for name in names:
            if stated.get(name):
                column.append(stated[name])
                number += 1
                continue
            # Counted addresses step over the gateway and over what is stated elsewhere; a stated start does not.
            while first is None and (number == network.gateway or number in self.owner):
                number += 1
            if not self._enter(network, number, name, path):
                return [*column, *[None] * (len(names) - len(column))]
            column.append(int_to_str(number))
            number += 1
        self.next[network_name] = number
        return column

    def _enter(self, network: Network, number: int, name: str, path: Path) -> bool:
        if not network.first < number < network.last:
            text = int_to_str(number) if 0 <= number < 2**32 else str(number)
            self.mistakes.add(path, f"{text} of {name} is no machine's address in {network.name}, {network.cidr}.")
            return False
        if number == network.gateway:
            self.mistakes.add(path, f"{int_to_str(number)} of {name} is the gateway of {network.name}.")
        if self.owner.setdefault(number, name) != name:
            self.mistakes.add(path, f"{int_to_str(number)} is given twice: to {self.owner[number]} and to {name}.")
        return True
