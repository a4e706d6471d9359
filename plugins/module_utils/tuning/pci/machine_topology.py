# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the topology of a machine from sysfs."""

from __future__ import annotations

import re

from ...common.cpulists import Core, CpulistError, CpuPlace, cores_of, parse
from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import PCI, address_of, numa_node, read_devices
from .topology_model import Machine, NicTopology, NumaNode, PciDevice, PcieLink, Processor

NODES, CPUS = "sys/devices/system/node", "sys/devices/system/cpu"
# Controllers of Ethernet and of InfiniBand.
_NICS = ("0x0200", "0x0207")
_PAGES = re.compile(r"hugepages-(\d+)kB\Z")
_NUMBERED = re.compile(r"[a-z]+(\d+)\Z")
_MEMORY = re.compile(r"MemTotal:\s+(\d+) kB")


def read_machine(sysroot: str = "/") -> Machine:
    """Read the machine whose root is `sysroot`; an unknown value is null or empty, and `problems` has the reason."""
    root = Root(sysroot)
    nodes = read_nodes(root)
    gpus, _switches = read_devices(root)
    return Machine(
        nodes=nodes,
        cores=_cores(root, nodes),
        gpus=tuple(_device(root, gpu["address"], gpu["numa_node"]) for gpu in gpus),
        nics=_nics(root),
        processor=_processor(root),
        problems=tuple(root.problems),
    )


def size_name(kib: int) -> str:
    """Return the name of a page size in KiB, as in boot parameters.

    >>> size_name(2048), size_name(1048576), size_name(64)
    ('2M', '1G', '64K')
    """
    for unit, factor in (("G", 1 << 20), ("M", 1 << 10)):
        if kib >= factor and kib % factor == 0:
            return f"{kib // factor}{unit}"
    return f"{kib}K"


def _cpus(root: Root, path: str, *, needed: bool = True) -> tuple[int, ...]:
    text = root.text(path, needed=needed)
    try:
        return parse(text or "")
    except CpulistError as error:
        root.problems.append(f"/{path}: {error}")
        return ()


def _number(name: str) -> int:
    match = _NUMBERED.match(name)
    return int(match[1]) if match else -1


def _numbered(root: Root, path: str, prefix: str) -> list[str]:
    found = [name for name in root.names(path) if name.startswith(prefix) and name[len(prefix) :].isdecimal()]
    return sorted(found, key=_number)


def is_container(root: Root) -> bool:
    """Return whether systemd runs in a container here, which shows the kernel and memory of its host."""
    return root.exists("run/systemd/container")


def read_nodes(root: Root) -> tuple[NumaNode, ...]:
    """Return the NUMA nodes; a kernel without NUMA has one node with all CPUs."""
    names = _numbered(root, NODES, "node")
    if not names:
        return (NumaNode(0, _cpus(root, f"{CPUS}/online", needed=False), None, {}, (10,)),)
    return tuple(_node(root, f"{NODES}/{name}", _number(name)) for name in names)


def _node(root: Root, base: str, number: int) -> NumaNode:
    memory = _MEMORY.search(root.text(f"{base}/meminfo", needed=False) or "")
    distances = (root.text(f"{base}/distance", needed=False) or "").split()
    return NumaNode(
        number=number,
        cpus=_cpus(root, f"{base}/cpulist"),
        memory_mib=int(memory[1]) // 1024 if memory else None,
        hugepages=dict(_hugepages(root, f"{base}/hugepages")),
        distances=tuple(int(word) for word in distances if word.isdecimal()),
    )


def _hugepages(root: Root, base: str) -> list[tuple[str, int]]:
    sizes = sorted(int(match[1]) for match in map(_PAGES.match, root.names(base)) if match)
    found = [(size, root.text(f"{base}/hugepages-{size}kB/nr_hugepages")) for size in sizes]
    return [(size_name(size), int(count)) for size, count in found if count and count.isdecimal()]


def _cores(root: Root, nodes: tuple[NumaNode, ...]) -> tuple[Core, ...]:
    """Return the online cores; the values of the first CPU of a core or a cache apply to its other CPUs."""
    numa = {cpu: node.cpus[0] for node in nodes for cpu in node.cpus}
    cores: dict[int, tuple[int, ...]] = {}
    caches: dict[int, int] = {}
    packages: dict[int, str] = {}
    for cpu in _cpus(root, f"{CPUS}/online"):
        if cpu in cores:
            continue
        base = f"{CPUS}/cpu{cpu}"
        threads = _cpus(root, f"{base}/topology/thread_siblings_list") or (cpu,)
        package = root.text(f"{base}/topology/physical_package_id") or ""
        cores.update(dict.fromkeys(threads, threads))
        packages.update(dict.fromkeys(threads, package))
        if cpu not in caches:
            # Without an L3, and on machines that do not show it, cores follow each other in their own order.
            shared = _cpus(root, f"{base}/cache/index3/shared_cpu_list", needed=False) or threads
            caches.update(dict.fromkeys(shared, shared[0]))
    first: dict[str, int] = {}
    for cpu in sorted(packages):
        first.setdefault(packages[cpu], cpu)
    return cores_of(
        CpuPlace(cpu, first[packages[cpu]], numa.get(cpu, -1), caches.get(cpu, cpu), threads[0])
        for cpu, threads in cores.items()
    )


def _device(root: Root, address: str, node: int | None) -> PciDevice:
    path = pci_path(root, address)
    base = f"{PCI}/{address}"
    return PciDevice(
        address=address,
        pci_class=root.text(f"{base}/class") or "",
        numa_node=node,
        cpus=_cpus(root, f"{base}/local_cpulist", needed=False),
        path=path,
        links=tuple(_link(root, path[max(index - 1, 0) : index + 1]) for index in range(len(path))),
    )


def pci_path(root: Root, address: str) -> tuple[str, ...]:
    """Return the PCI addresses on the path to a device, including itself at the end."""
    parts = root.name(root.find(f"{PCI}/{address}")).split("/")
    return tuple(part for part in parts if address_of(part))


def _link(root: Root, ends: tuple[str, ...]) -> PcieLink:
    """Return the maximum that a device and its port can both do."""
    speeds = [root.text(f"{PCI}/{end}/max_link_speed", needed=False) or "" for end in ends]
    known = [speed for speed in speeds if re.match(r"\d+(\.\d+)? GT/s", speed)]
    widths = [root.text(f"{PCI}/{end}/max_link_width", needed=False) or "" for end in ends]
    lanes = [int(width) for width in widths if width.isdecimal() and 0 < int(width) <= 32]
    return PcieLink(min(known, key=lambda speed: float(speed.split()[0]), default=""), min(lanes, default=None))


def network_functions(root: Root) -> dict[str, int | None]:
    """Return PCI address -> NUMA node of all physical functions of network adapters, with a driver or without."""
    return {
        address: numa_node(root, address)
        for address in root.names(PCI)
        if (root.text(f"{PCI}/{address}/class", needed=False) or "")[:6] in _NICS
        and not root.exists(f"{PCI}/{address}/physfn")
    }


def _nics(root: Root) -> tuple[NicTopology, ...]:
    """Return the physical functions of network adapters that have a driver, and so a name."""
    found = []
    for address, node in network_functions(root).items():
        base = f"{PCI}/{address}"
        # The interface of a virtio device is one level below.
        folders = [base, *(f"{base}/{name}" for name in root.names(base) if name.startswith("virtio"))]
        rdma, interfaces = root.names(f"{base}/infiniband"), [one for at in folders for one in root.names(f"{at}/net")]
        if rdma or interfaces:
            found.append(_nic(root, address, node, tuple(rdma), tuple(interfaces)))
    return tuple(found)


def _nic(root: Root, address: str, node: int | None, rdma: tuple[str, ...], interfaces: tuple[str, ...]) -> NicTopology:
    device = _device(root, address, node)
    layer = f"{PCI}/{address}/infiniband/{rdma[0]}/ports/1/link_layer" if rdma else ""
    link = (root.text(layer, needed=False) or "") if layer else ""
    return NicTopology(**vars(device), rdma=rdma, interfaces=interfaces, link=link)


def _processor(root: Root) -> Processor:
    """Return the type of the first CPU; /proc/cpuinfo has different keys on x86 and arm64."""
    told: dict[str, str] = {}
    for line in (root.text("proc/cpuinfo", needed=False) or "").split("\n\n")[0].splitlines():
        key, colon, value = line.partition(":")
        if colon:
            told[key.strip()] = value.strip()
    if "CPU implementer" in told:
        return Processor("arm64", "ARM")
    numbers = [int(told[key]) if told.get(key, "").isdecimal() else None for key in ("cpu family", "model")]
    vendor = told.get("vendor_id", "")
    return Processor("x86_64" if vendor else "", vendor, *numbers)
