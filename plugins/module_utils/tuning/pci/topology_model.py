# SPDX-License-Identifier: GPL-3.0-or-later
"""Model the topology of a machine: NUMA nodes, cores, GPUs, NICs, and their distances."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.cpulists import Core


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node. `cpus` is empty for a node with memory only, such as a GPU's on Grace; an unknown `memory_mib` is null.

    `hugepages` has the pages that are reserved by their size, such as 2M; `distances` those to all nodes, in their order.
    """

    number: int
    cpus: tuple[int, ...]
    memory_mib: int | None
    hugepages: dict[str, int]
    distances: tuple[int, ...]


@dataclass(frozen=True)
class PcieLink:
    """Maximum of a PCIe link, both ends considered: speed as in sysfs, and lanes; "" and None if unknown."""

    speed: str
    width: int | None


@dataclass(frozen=True)
class PciDevice:
    """A PCI device: `numa_node` is null if the kernel does not know it, `cpus` are the near CPUs by the kernel.

    `path` has the addresses from the root port down to the device itself; `links` the link above each of them.
    """

    address: str
    pci_class: str
    numa_node: int | None
    cpus: tuple[int, ...]
    path: tuple[str, ...]
    links: tuple[PcieLink, ...]


@dataclass(frozen=True)
class NicTopology(PciDevice):
    """A network adapter, with the names of its RDMA devices and of its interfaces; `link` is InfiniBand, Ethernet or ""."""

    rdma: tuple[str, ...] = ()
    interfaces: tuple[str, ...] = ()
    link: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return all its names, that of the RDMA device first."""
        return (*self.rdma, *self.interfaces)


@dataclass(frozen=True)
class Processor:
    """Type of the CPUs in /proc/cpuinfo; "" and None if it is missing."""

    arch: str = ""
    vendor: str = ""
    family: int | None = None
    model: int | None = None


@dataclass(frozen=True)
class Machine:
    """A machine. GPUs and NICs are in the order of their PCI addresses, cores in that of Slurm's numbers."""

    nodes: tuple[NumaNode, ...]
    cores: tuple[Core, ...]
    gpus: tuple[PciDevice, ...]
    nics: tuple[NicTopology, ...]
    processor: Processor
    problems: tuple[str, ...] = ()

    @property
    def cpu_nodes(self) -> tuple[NumaNode, ...]:
        """Return the NUMA nodes that have CPUs."""
        return tuple(node for node in self.nodes if node.cpus)

    @property
    def sockets(self) -> int:
        """Return the number of sockets that have a CPU online."""
        return len({core.socket for core in self.cores})

    def node(self, number: int | None) -> NumaNode | None:
        """Return a NUMA node by its number; None for None and for an unknown number."""
        return next((node for node in self.nodes if node.number == number), None)

    def home(self, device: PciDevice) -> NumaNode | None:
        """Return the node with CPUs that a device is at: its own, or the nearest if its own lacks CPUs. None if unknown."""
        return self.home_of(device.numa_node)

    def home_of(self, number: int | None) -> NumaNode | None:
        """Return the node with CPUs for a NUMA node's number: the node itself, or the nearest if it lacks CPUs. None if unknown."""
        own = self.node(number)
        if own is None or own.cpus:
            return own
        near = [(distance, node.number) for node, distance in zip(self.nodes, own.distances) if node.cpus]
        return self.node(min(near)[1]) if near else None
