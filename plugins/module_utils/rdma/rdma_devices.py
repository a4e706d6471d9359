# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the RDMA devices of a machine from sysfs, and match them with the NICs of the cluster file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.sysfs import Root

CLASS = "sys/class/infiniband"
_NET = "sys/class/net"
# Ports of virtual functions, which a switch in the NIC has besides its own.
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+\Z")


@dataclass(frozen=True)
class RdmaDevice:
    """RDMA device: name, PCI address ("" for soft RoCE), GUID in 16 digits, link layer, driver, network interface."""

    name: str
    pci: str
    guid: str
    layer: str
    driver: str
    interface: str


@dataclass(frozen=True)
class NicSettings:
    """Desired settings of a NIC. `pci` and `guid` identify it, `address` includes the prefix length; "" and 0 mean not managed."""

    name: str
    pci: str = ""
    guid: str = ""
    address: str = ""
    # Whether other NICs of the node have IPv4 addresses, too.
    shared: bool = False
    mtu: int = 0
    rail: bool = False
    # Of a rail in a network with a gateway: its route table, and the networks behind the gateway. 0: not routed.
    gateway: str = ""
    table: int = 0
    routes: tuple[str, ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Return whether the device that must get the name is known."""
        return bool(self.pci or self.guid)


def nics_from(data: Sequence[Mapping[str, Any]]) -> list[NicSettings]:
    """Return the settings from JSON objects."""
    return [NicSettings(**{**one, "routes": tuple(one.get("routes", ()))}) for one in data]


def read_devices(root: Root) -> list[RdmaDevice]:
    """Return the machine's RDMA devices by name."""
    return [_device(root, name) for name in root.names(CLASS)]


def find(devices: Sequence[RdmaDevice], nic: NicSettings) -> RdmaDevice | None:
    """Return the device of a NIC in the cluster file: by PCI address, else by GUID, else by name."""
    if nic.pci:
        return next((one for one in devices if one.pci == nic.pci), None)
    if nic.guid:
        return next((one for one in devices if one.guid == nic.guid), None)
    return next((one for one in devices if one.name == nic.name), None)


def _device(root: Root, name: str) -> RdmaDevice:
    base = f"{CLASS}/{name}"
    physical = root.exists(f"{base}/device")
    return RdmaDevice(
        name=name,
        pci=root.link(f"{base}/device") or "" if physical else "",
        guid=(root.text(f"{base}/node_guid", needed=False) or "").replace(":", ""),
        layer=root.text(f"{base}/ports/1/link_layer", needed=False) or "",
        driver=root.link(f"{base}/device/driver") or "" if physical else "",
        # Soft RoCE has no PCI device, and names the interface that carries it.
        interface=_interface(root, base) if physical else root.text(f"{base}/parent", needed=False) or "",
    )


def _interface(root: Root, base: str) -> str:
    """Return the network interface of the first port, ignoring interfaces of partitions and virtual functions."""
    for name in root.names(f"{base}/device/net"):
        port = root.text(f"{_NET}/{name}/dev_port", needed=False)
        if port not in (None, "0") or root.exists(f"{_NET}/{name}/parent"):
            continue
        try:
            label = root.find(f"{_NET}/{name}/phys_port_name").read_text().strip()
        except OSError:
            label = ""  # most interfaces have none, which the kernel reports as an error
        if not _REPRESENTOR.match(label):
            return name
    return ""
