# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the order of each node from cluster file, record and image: the same input always gives the same order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from ...module_utils.provision import order_text, seed
from ...module_utils.provision.network_boot import BIOS, PXE, UEFI
from ...module_utils.provision.order_text import OrderError
from ..bmc.bmc_targets import Target, targets_of
from ..cluster import Cluster
from ..cluster.metal.bare_metal import provision_address
from ..cluster.model import Network, Node
from ..hosts.machine_facts import hosts_file
from ..machines.machine_record import Machine
from .confirmation import Confirmed

_DUMMY = {"id": "0" * 32, "token": "0" * 64, "issued": "1700000000", "seed_sha256": "0" * 64}


@dataclass(frozen=True)
class Wanted:
    """The order that a node needs. `machine` has the keys of an order, `image` is an image.json, `keys` the text of authorized_keys.

    `method`: media, http or pxe; `mode`: UEFI or Legacy. `network` is the permanent address in CIDR notation and the gateway or `none`.
    """

    target: Target
    image_name: str
    image: Mapping[str, Any]
    method: str
    mode: str
    machine: Mapping[str, str]
    network: tuple[str, str]
    hosts: str
    keys: str

    @property
    def node(self) -> str:
        """Return the name of the node."""
        return self.target.node

    @property
    def wipes(self) -> bool:
        """Return whether a disk with data may be erased."""
        return self.machine["wipe"] == "yes"

    @property
    def digest(self) -> str:
        """Return what changes whenever the order would be another one."""
        text = json.dumps([dict(self.machine), self.image["sha256"], self.method, self.mode], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def makes_own_key(self) -> bool:
        """Return whether the machine makes its SSH host key: with PXE no private key may travel."""
        return self.method == PXE

    def files(self, host_key: tuple[str, str] | None) -> dict[str, seed.SeedFile]:
        """Return the seed of the machine with its SSH host key, the private and the public text; None if the machine makes its own."""
        address, gateway = self.network
        mac = self.machine["mac"]
        return seed.machine_files(self.node, self.hosts, mac, address, gateway, self.keys, host_key)


def image_mistakes(
    confirmed: Confirmed, cluster: Cluster, images: Mapping[str, Any], errors: Mapping[str, str]
) -> list[str]:
    """Return why images of the nodes cannot be installed. `images`: as the provision host serves them; `errors`: of all others."""
    found = []
    for name in dict.fromkeys(node.image for node in confirmed.nodes):
        stated = cluster.images[name].sha256
        if name not in images:
            found.append(f"image {name}: {errors.get(name, 'the provision host reported nothing')}")
        elif images[name].get("sha256") != stated:
            text = f"the cluster file has sha256 {stated}, and the provision host serves {images[name].get('sha256')}"
            found.append(
                f"image {name}: {text}. Write the right one into `images.{name}.sha256`, or build the image again."
            )
    return found


def wanted_of(
    confirmed: Confirmed, cluster: Cluster, record: Mapping[str, Machine], images: Mapping[str, Any], keys: str
) -> tuple[dict[str, Wanted], list[str]]:
    """Return node -> its order, and mistakes: values that an order cannot have, such as a serial number that is a placeholder."""
    targets = targets_of(cluster, record, [node.name for node in confirmed.nodes])
    found, mistakes, hosts = dict[str, Wanted](), list[str](), hosts_file(cluster)
    for node in confirmed.nodes:
        metal = node.profile.metal
        network = cluster.networks["management"]
        one = Wanted(
            targets[node.name],
            node.image,
            images[node.image],
            metal.method,
            BIOS if metal.boot_firmware == "bios" else UEFI,
            _machine(node, cluster, record[node.name], node.name in confirmed.wiped),
            (_cidr(node.address, network), _gateway(network)),
            hosts,
            keys,
        )
        try:
            order_text.check(_values(one))
            found[node.name] = one
        except (OrderError, KeyError) as error:
            mistakes.append(f"{node.name}: {error}")
    return found, mistakes


def _machine(node: Node, cluster: Cluster, recorded: Machine, wipes: bool) -> dict[str, str]:
    network = cluster.networks.get("provision") or cluster.networks["management"]
    return {
        "node": node.name,
        "serial": recorded.serial,
        "mac": recorded.boot_mac,
        "disk": recorded.disk_serial,
        "wipe": "yes" if wipes else "no",
        "address": _cidr(provision_address(cluster, node), network),
        "gateway": _gateway(network),
    }


def _values(one: Wanted) -> dict[str, str]:
    """Return the whole values of an order, with stand-ins for what only the provision host makes."""
    server, sha256 = "https://192.0.2.1:1", str(one.image["sha256"])
    values = {key: str(one.image[key]) for key in ("raw_sha256", "raw_bytes", "root_start")}
    urls = {"server": server, "image": f"{server}/images/{sha256}.img.zst", "image_sha256": sha256}
    return {**_DUMMY, **values, **urls, **one.machine, "host_key": "machine" if one.makes_own_key else "seed"}


def _cidr(address: str, network: Network) -> str:
    return f"{address}/{IPv4Network(network.cidr).prefixlen}"


def _gateway(network: Network) -> str:
    return str(IPv4Address(network.gateway)) if network.gateway else "none"
