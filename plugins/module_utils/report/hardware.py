# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the hardware of a machine that a profile of the cluster file describes."""

from __future__ import annotations

import re
from typing import Any

from ..common.sysfs import Root
from ..gpu.devices.gpu_devices import PCI
from ..gpu.gpu_inventory import read_facts
from ..tuning.pci.machine_topology import is_container, read_machine
from ..tuning.pci.numa_map import record
from ..tuning.pci.topology_model import Machine, NicTopology, PciDevice
from .pci_names import pci_names

Facts = dict[str, Any]
_TOTAL = re.compile(r"^MemTotal:\s+(\d+) kB", re.MULTILINE)


def read_hardware(sysroot: str = "/", seconds: float = 30.0, machine: Machine | None = None) -> Facts:
    """Return the hardware as plain data; an unknown value is null, and `problems` has the reason.

    `shape` has the keys sockets, cores_per_socket, threads_per_core and numa of a profile. GPUs and NICs are in the order of their PCI
    addresses. `container` is whether this is a container, which shows the hardware of its host. `machine` is the machine if it was read
    already. Nothing is run but `cat`, and nothing changes.
    """
    root = Root(sysroot)
    machine = machine or read_machine(sysroot)
    shape, problems = record(machine)
    facts = {gpu["address"]: gpu for gpu in read_facts(sysroot, seconds, None)["gpus"]}
    ids = {device.address: _ids(root, device.address) for device in (*machine.gpus, *machine.nics)}
    names = pci_names(root, set(ids.values()))
    gpus = [
        {
            "address": gpu.address,
            "vendor": ids[gpu.address][0],
            "device": ids[gpu.address][1],
            "minor": facts.get(gpu.address, {}).get("minor"),
            "name": facts.get(gpu.address, {}).get("model") or names.get(ids[gpu.address], ""),
            "numa": _home(machine, gpu),
        }
        for gpu in machine.gpus
    ]
    nics = [_nic(root, machine, nic, ids[nic.address], names.get(ids[nic.address], "")) for nic in machine.nics]
    return {
        "shape": shape,
        "memory_mib": _memory(root, machine),
        "gpus": gpus,
        "nics": nics,
        "container": is_container(root),
        "problems": [*machine.problems, *problems, *root.problems],
    }


def _ids(root: Root, address: str) -> tuple[str, str]:
    vendor, device = (root.text(f"{PCI}/{address}/{name}", needed=False) or "" for name in ("vendor", "device"))
    return vendor.lower(), device.lower()


def _home(machine: Machine, device: PciDevice) -> int | None:
    """Return the place of a device among the NUMA nodes that have CPUs."""
    home = machine.home(device)
    return machine.cpu_nodes.index(home) if home else None


def _memory(root: Root, machine: Machine) -> int | None:
    """Return the memory in MiB as slurmd counts it: all pages that the kernel manages."""
    found = _TOTAL.search(root.text("proc/meminfo", needed=False) or "")
    if found:
        return int(found[1]) // 1024
    known = [node.memory_mib for node in machine.nodes]
    return sum(one for one in known if one) or None


def _nic(root: Root, machine: Machine, nic: NicTopology, ids: tuple[str, str], name: str) -> Facts:
    rate = root.text(f"{PCI}/{nic.address}/infiniband/{nic.rdma[0]}/ports/1/rate", needed=False) if nic.rdma else None
    return {
        "address": nic.address,
        "vendor": ids[0],
        "device": ids[1],
        "name": name,
        "rdma": list(nic.rdma),
        "interfaces": list(nic.interfaces),
        "link": nic.link,
        "rate": rate or "",
        "numa": _home(machine, nic),
        "near_gpus": _near(machine, nic),
    }


def _near(machine: Machine, nic: NicTopology) -> list[int]:
    """Return the GPUs that share the most PCI bridges with a NIC; none if it shares no bridge with any GPU."""
    shared = [_common(gpu.path, nic.path) for gpu in machine.gpus]
    most = max(shared, default=0)
    return [index for index, count in enumerate(shared) if count == most] if most else []


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for left, right in zip(one, other):
        if left != right:
            break
        count += 1
    return count
