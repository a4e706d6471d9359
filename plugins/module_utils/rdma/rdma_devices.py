# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA devices of a machine as sysfs has them, and who of the cluster file each is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.sysfs import Root

CLASS = "sys/class/infiniband"
_NET = "sys/class/net"
# Ports of virtual functions, which a switch in the NIC has beside its own.
_REPRESENTOR = re.compile(r"(c\d+)?pf\d+(vf|sf)\d+\Z")


@dataclass(frozen=True)
class RdmaDevice:
    """An RDMA device: its name, PCI address ("": none, as of soft RoCE), GUID in 16 digits, link layer, driver, network interface."""

    name: str
    pci: str
    guid: str
    layer: str
    driver: str
    interface: str


@dataclass(frozen=True)
class NicSettings:
    """What is wanted of a NIC. `pci` and `guid` say which one it is, `address` has the length of its network; "" and 0 want nothing."""

    name: str
    pci: str = ""
    guid: str = ""
    address: str = ""
    # Whether other NICs of the node have addresses of the same network.
    shared: bool = False
    mtu: int = 0
    rail: bool = False

    @property
    def is_fixed(self) -> bool:
        """Return whether it is known which one is to have the name."""
        return bool(self.pci or self.guid)


def nics_from(data: Sequence[Mapping[str, Any]]) -> list[NicSettings]:
    """Return what is wanted, of JSON's objects."""
    return [NicSettings(**one) for one in data]


def read_devices(root: Root) -> list[RdmaDevice]:
    """Return the machine's RDMA devices by name."""
    return [_device(root, name) for name in root.names(CLASS)]


def find(devices: Sequence[RdmaDevice], nic: NicSettings) -> RdmaDevice | None:
    """Return the device that a NIC of the cluster file is: by PCI address, else by GUID, else by name."""
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
        # Soft RoCE has no device of its own, and names the interface that carries it.
        interface=_interface(root, base) if physical else root.text(f"{base}/parent", needed=False) or "",
    )


def _interface(root: Root, base: str) -> str:
    """Return the network interface of the first port; not one of a partition, nor one of a virtual function."""
    for name in root.names(f"{base}/device/net"):
        port = root.text(f"{_NET}/{name}/dev_port", needed=False)
        if port not in (None, "0") or root.exists(f"{_NET}/{name}/parent"):
            continue
        try:
            label = root.find(f"{_NET}/{name}/phys_port_name").read_text().strip()
        except OSError:
            label = ""  # most interfaces have none, which the kernel says with an error
        if not _REPRESENTOR.match(label):
            return name
    return ""
