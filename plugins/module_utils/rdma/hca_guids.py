# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GUIDs of the InfiniBand adapters of a machine from sysfs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..common.sysfs import Root
from .rdma_devices import CLASS, read_devices

_LAYER = "InfiniBand"


@dataclass(frozen=True)
class HcaGuids:
    """An adapter: its name, its PCI address, and the GUIDs of node and first port in 16 hex digits; "" for a port without one."""

    name: str
    pci: str
    node: str
    port: str

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def read_guids(root: Root) -> list[HcaGuids]:
    """Return the machine's InfiniBand adapters by name; adapters of Ethernet have no place in a record of GUIDs."""
    return [
        HcaGuids(one.name, one.pci, one.guid, _port_guid(root, one.name))
        for one in read_devices(root)
        if one.guid and one.layer == _LAYER
    ]


def _port_guid(root: Root, name: str) -> str:
    """Return the GUID of the first port: the second half of its first GID."""
    gid = root.text(f"{CLASS}/{name}/ports/1/gids/0", needed=False) or ""
    groups = gid.split(":")
    guid = "".join(groups[4:]) if len(groups) == 8 else ""
    return guid if guid.strip("0") else ""
