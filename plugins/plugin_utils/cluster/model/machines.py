# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and their parts: profiles, racks, nodes and hosts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand

from ..schema.fabric_keys import StatedFabric
from .health import NO_NEEDS, ProfileHealth
from .metal import NO_METAL, ProfileMetal
from .software import GpuStack


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs of a profile; `cores` has Slurm's core ids per GPU, empty where the profile has no NUMA map."""

    model: str
    count: int
    devices: tuple[str, ...]
    cores: tuple[str, ...]
    detect: str
    # The MIG profiles on each GPU in the order of PCI addresses, large ones first; () is a whole GPU. Empty: nobody looks at MIG.
    mig: tuple[tuple[str, ...], ...] = ()
    # Of profiles: name and the GRES type that slurmd finds for it, where that is another.
    mig_types: tuple[tuple[str, str], ...] = ()
    # Of every GPU: keys of `gpus.settings` that the file states, with their values.
    settings: tuple[tuple[str, int | bool | str], ...] = ()


@dataclass(frozen=True, slots=True)
class Nic:
    """A NIC of a profile; a NIC outside the compute rails has no `rail`."""

    name: str
    rail: int | None
    # Its PCI address; "": the name is whatever the kernel, or a rule of the distribution, makes of it.
    pci: str = ""
    # The network of its address, for a NIC without a rail; "": none.
    network: str = ""
    # Its device name in the fabric's NodeDescriptions; "": `name`.
    fabric_name: str = ""
    # Of its link, as the file writes them, such as NDR200 and 2x; "": the leaf's speed, and 4x.
    speed: str = ""
    width: str = ""
    # The fabric that it is cabled to; "": the first. In another one its `rail` is known to the view of that fabric alone.
    fabric: str = ""
    own_rail: int | None = None

    def in_fabric(self, stated: StatedFabric) -> Nic:
        """Return the NIC with its rail in its fabric."""
        return self if stated.first else replace(self, rail=self.own_rail)


@dataclass(frozen=True, slots=True)
class HostNic:
    """A NIC of a host, and where it plugs in; no leaf, port or rail means that the plan chooses."""

    name: str
    rail: int | None
    purpose: str
    leaf: str | None
    port: int | None
    # Its device name in the fabric's NodeDescriptions; "": `name`.
    fabric_name: str = ""
    # Of its link, as the file writes them, such as NDR200 and 2x; "": the leaf's speed, and 4x.
    speed: str = ""
    width: str = ""
    # The fabric that it is cabled to; "": the first.
    fabric: str = ""


@dataclass(frozen=True, slots=True)
class Numa:
    """A NUMA node of a profile: logical core ids, indices of its GPUs, names of its NICs, huge pages by size."""

    cores: str
    gpus: tuple[int, ...]
    nics: tuple[str, ...]
    hugepages: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of node. Memory in MiB."""

    name: str
    gpus: Gpus | None
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    memory_mib: int
    reserved_memory_mib: int
    hugepages: dict[str, int]
    numa: tuple[Numa, ...]
    nics: tuple[Nic, ...]
    features: tuple[str, ...]
    # Cores of each NUMA node that are kept from jobs.
    system_cores: int = 0
    # Nodes of one NVLink domain; None where NVLink does not leave a node.
    nvlink_domain: int | None = None
    # What its nodes get of GPU software: the cluster's, with what the profile says instead.
    gpu_stack: GpuStack | None = None
    # Where the kernel command line comes from: loader, network or none.
    boot: str = "loader"
    # What jobs need on its nodes.
    health: ProfileHealth = NO_NEEDS
    # How its machines are commanded, booted and installed.
    metal: ProfileMetal = NO_METAL

    def in_fabric(self, stated: StatedFabric) -> Profile:
        """Return the profile with the NICs of a fabric."""
        nics = tuple(nic.in_fabric(stated) for nic in self.nics if nic.fabric == stated.part)
        return self if nics == self.nics else replace(self, nics=nics)

    @property
    def cpus(self) -> int:
        """Return the number of logical CPUs."""
        return self.sockets * self.cores_per_socket * self.threads_per_core

    @property
    def numa_cores(self) -> tuple[tuple[int, ...], ...]:
        """Return the logical cores of each NUMA node with CPUs; of each socket where the file has no `numa`."""
        if self.numa:
            return tuple(tuple(map(int, expand(f"[{node.cores}]"))) for node in self.numa)
        each = self.cores_per_socket
        return tuple(tuple(range(first * each, (first + 1) * each)) for first in range(self.sockets))

    @property
    def kept_cores(self) -> tuple[int, ...]:
        """Return the logical cores that are kept from jobs: the first of each NUMA node."""
        if not self.system_cores:
            return ()
        return tuple(core for cores in self.numa_cores for core in sorted(cores)[: self.system_cores])

    def node_pages(self, size: str) -> tuple[int, ...]:
        """Return the huge pages of a size (2M, 1G) on each NUMA node with CPUs; one node a socket where the file has no `numa`."""
        if any(node.hugepages for node in self.numa):
            return tuple(dict(node.hugepages).get(size, 0) for node in self.numa)
        count = len(self.numa) or self.sockets
        return (self.hugepages.get(size, 0) // count,) * count

    @property
    def hugepages_mib(self) -> int:
        """Return the memory that huge pages take."""
        return sum(self.node_pages("2M")) * 2 + sum(self.node_pages("1G")) * 1024


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack and its place."""

    name: str
    row: str | None
    column: int | None
    leaf: str
    pod: str | None = None
    nvlink_domain: int | None = None
    # Racks with one name here are one NVLink domain; None where a domain does not leave the rack.
    nvlink_domain_name: str | None = None
    # Of fabrics after the first, for which the file states one: fabric and leaf.
    leaves: tuple[tuple[str, str], ...] = ()

    @property
    def domain(self) -> str:
        """Return the name of its NVLink domain, or the start of the names of its domains: by default the rack's."""
        return self.nvlink_domain_name or self.name

    def in_fabric(self, stated: StatedFabric) -> Rack:
        """Return the rack with its leaf in a fabric."""
        return (
            self if stated.first else replace(self, leaf=dict(self.leaves).get(stated.name) or stated.leaf(self.leaf))
        )


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a rack."""

    name: str
    rack: Rack
    profile: Profile
    address: str
    bmc_address: str | None
    state: str | None
    reason: str | None
    # The image of its exception; "": the profile's.
    own_image: str = ""

    @property
    def image(self) -> str:
        """Return the name of its image; "": none, bedplate does not install it."""
        return self.own_image or self.profile.metal.image

    @property
    def nvlink_domain(self) -> int | None:
        """Return the planned number of nodes of its NVLink domain; the rack's key applies to nodes with GPUs."""
        of_profile, of_rack = self.profile.nvlink_domain, self.rack.nvlink_domain
        return of_rack if of_rack and (of_profile or self.profile.gpus) else of_profile


@dataclass(frozen=True, slots=True)
class Host:
    """A machine outside the racks."""

    name: str
    address: str
    bmc_address: str | None
    rack: str | None
    nics: tuple[HostNic, ...] = ()

    def in_fabric(self, stated: StatedFabric) -> Host:
        """Return the host with its NICs in a fabric."""
        nics = tuple(nic for nic in self.nics if nic.fabric == stated.part)
        return self if nics == self.nics else replace(self, nics=nics)
