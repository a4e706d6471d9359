# SPDX-License-Identifier: GPL-3.0-or-later
"""Write NCCL's topology file and settings for a machine.

The format of the topology file is what NCCL's own parser accepts (src/graph/xml.cc of NCCL 2.x): elements of one `system` of version 1,
attributes in quotes without entities, values below 255 characters, and no XML declaration, which makes it fail. A `cpu` needs numaid, a
`pci` busid and class; NCCL reads other missing attributes from the machine on which it runs. What is below a GPU or a NIC (`gpu`, `nic`,
`net`) is always absent: rank, dev and sm come from the driver, and a `net` by name would prevent NCCL from reading its place. The files of
cloud vendors are of the same kind.

A device whose NUMA node is unknown is left out; NCCL then reads sysfs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...common.cpulists import mask
from .topology_model import Machine, NumaNode, PciDevice, PcieLink

Tree = dict[str, Any]

_BRIDGE = "0x060400"
# MAX_STR_LEN of NCCL's xml.h is 255, with its end.
_LONGEST = 254


@dataclass(frozen=True)
class Port:
    """A `pci` element."""

    busid: str
    pci_class: str
    link: PcieLink

    def attributes(self) -> dict[str, object]:
        """Return the attributes by NCCL's names."""
        return {
            "busid": self.busid,
            "class": self.pci_class,
            "link_speed": self.link.speed,
            "link_width": self.link.width,
        }


def topology(machine: Machine, nics: Collection[str] = ()) -> str:
    """Return the text of the file that NCCL_TOPO_FILE names; "" if there is nothing for NCCL.

    `nics` are the names of its NICs; by default, all that have RDMA.
    """
    named = [nic for nic in machine.nics if (set(nics).intersection(nic.names) if nics else nic.rdma)]
    placed = [(machine.home(device), device) for device in (*machine.gpus, *named)]
    lines = []
    for node in machine.cpu_nodes:
        devices = [device for home, device in placed if home == node]
        if devices:
            lines += [f"  <cpu {_attributes(_cpu(machine, node))}>", *_pci(devices), "  </cpu>"]
    if not lines:
        return ""
    return "\n".join(
        ["<!-- Written by bedplate: changes are lost. -->", '<system version="1">', *lines, "</system>", ""]
    )


def _attributes(pairs: Mapping[str, object]) -> str:
    """Return the known attributes; NCCL cannot read entities, so a value that needs one is left out."""
    known = {key: str(value) for key, value in pairs.items() if value not in (None, "")}
    return " ".join(
        f'{key}="{value}"'
        for key, value in known.items()
        if len(value) <= _LONGEST and not set(value).intersection('<>&"\n')
    )


def _cpu(machine: Machine, node: NumaNode) -> dict[str, object]:
    """Return the attributes of a node; NCCL reads the vendor only on x86, and then needs family and model."""
    kind = machine.processor
    width = max((cpu for one in machine.nodes for cpu in one.cpus), default=0) + 1
    attributes: dict[str, object] = {"numaid": node.number, "affinity": mask(node.cpus, width), "arch": kind.arch}
    if kind.arch == "x86_64" and None not in (kind.family, kind.model):
        attributes.update(vendor=kind.vendor, familyid=kind.family, modelid=kind.model)
    return attributes


def _pci(devices: Sequence[PciDevice]) -> Iterator[str]:
    """Return the lines of the PCI tree with these devices at its ends.

    NCCL goes up two levels at a time, so the tree contains only the upstream port of a switch: for NCCL, the ports below are part of the
    switch, and the root port is part of the CPU.
    """
    ports: dict[str, Port] = {}
    tree: Tree = {}
    for device in devices:
        branch = tree
        for index in reversed(range(len(device.path) - 1, -1, -2)):
            address = device.path[index]
            own = index == len(device.path) - 1
            ports[address] = Port(address, device.pci_class if own else _BRIDGE, device.links[index])
            branch = branch.setdefault(address, {})
    return _branch(tree, ports, "    ")


def _branch(tree: Tree, ports: Mapping[str, Port], indent: str) -> Iterator[str]:
    for address, below in sorted(tree.items()):
        attributes = _attributes(ports[address].attributes())
        if below:
            yield f"{indent}<pci {attributes}>"
            yield from _branch(below, ports, indent + "  ")
            yield f"{indent}</pci>"
        else:
            yield f"{indent}<pci {attributes}/>"


def settings(
    rails: Sequence[str] = (),
    topology_file: str = "",
    traffic_class: int | None = None,
    socket_interfaces: Sequence[str] = (),
    extra: Mapping[str, object] | None = None,
) -> dict[str, str]:
    """Return NCCL's settings; unknown ones are left out.

    `rails` are the RDMA devices of the compute fabric in the order of rails. "=" before them, and before interfaces, makes NCCL match whole
    names: without it, mlx5_1 also matches mlx5_10. `traffic_class` is the ToS of lossless RoCE, 106 for DSCP 26.
    """
    found: dict[str, object] = {
        "NCCL_IB_HCA": "=" + ",".join(rails) if rails else None,
        "NCCL_IB_TC": traffic_class,
        "NCCL_SOCKET_IFNAME": "=" + ",".join(socket_interfaces) if socket_interfaces else None,
        "NCCL_TOPO_FILE": topology_file or None,
        **(extra or {}),
    }
    return {key: str(value) for key, value in found.items() if value is not None}


def checked(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings for /etc/nccl.conf, where NCCL reads each line to its end, including quotes and blanks.

    Raises ValueError for a value that NCCL could not read: a line has at most 4094 characters, a value 1023.
    """
    for key, value in values.items():
        if "\n" in value or "=" in key or len(value) > 1023:
            raise ValueError(
                f"{key}: {value!r} cannot be in /etc/nccl.conf; allowed: one line of at most 1023 characters"
            )
    return dict(values)
