# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as objects. Values are computed on first use: every ansible command pays for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..gpu_lock.lock_document import GpuLock
from ..gpu_rows.site_rows import NO_ROWS, SiteRows
from ..slurm.tables.packagings import Packaging, packaging
from ..snapshots.snapshot_lock import ChosenSnapshot, SnapshotLock
from .schema.fabric_keys import USUAL, StatedFabric
from .schema.fabric_section import BY_UNIT
from .schema.fields import Path

# The release of Slurm from which on topology/block is as it is written here.
BLOCKS = "24.05"
# The release from which on Slurm has several topologies, and a partition one of them.
SEVERAL_TOPOLOGIES = "25.05"


@dataclass(frozen=True, slots=True)
class Network:
    """A network; addresses are numbers, so that ten thousand of them cost nothing."""

    name: str
    cidr: str
    first: int
    last: int
    gateway: int | None
    start: int
    # Whose NICs have their addresses here; several have equal parts of it, in this order.
    rails: tuple[int, ...] = ()
    # Of rails with a gateway: the networks behind it, such as 10.40.8.0/22.
    routes: tuple[str, ...] = ()

    @property
    def part(self) -> int:
        """Return how many addresses the part of a rail has."""
        size = (self.last - self.first + 1) // len(self.rails)
        return 1 << (size.bit_length() - 1) if size else 0


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
class GpuMirror:
    """A repository with all of the GPU software: its address, and the path of the armored public key that signs it."""

    url: str
    key: str
    # Of the key, as the file writes them; (): not stated.
    fingerprints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotOrigin:
    """A repository that snapshots copy: the system that reads it, its kind, and its origin. `key` is a path.

    `suites` and `components` are apt's; dnf has none. `architecture` is x86_64 or arm64.
    """

    system: str
    kind: str
    url: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    architecture: str
    key: str


@dataclass(frozen=True, slots=True)
class Snapshots:
    """Dated copies of all repositories: where machines find them, the key that signs them (a path), and their origins.

    `system` is that of machines without GPU software, `test` names the nodes that try a snapshot first.
    """

    url: str
    key: str
    fingerprints: tuple[str, ...]
    system: str
    test: tuple[str, ...]
    repositories: tuple[SnapshotOrigin, ...]
    lock: SnapshotLock

    def of_machine(self, name: str) -> ChosenSnapshot | None:
        """Return the snapshot of a machine; None before the first promotion."""
        return self.lock.of_machine(name in self.test)


@dataclass(frozen=True, slots=True)
class GpuStack:
    """Requested GPU software of a profile's nodes; `plugin_utils/gpu_stack/resolve.py` resolves it to packages."""

    os: str
    source: str
    # A branch, whose latest known version is meant, or an exact version.
    driver: str
    # open, proprietary, or "" for what fits the GPUs.
    module: str = ""
    # hgx, nvl72, pcie, or "" for what the GPUs tell.
    platform: str = ""
    # A GPU model of the table; "": the profile's is one.
    model: str = ""
    # The kernel that is to run; "": the newest that is installed.
    kernel: str = ""
    cuda: tuple[str, ...] = ()
    toolkit: str = ""
    dcgm: str = ""
    nccl: str = ""
    # Of the kernel module: name and value.
    module_options: tuple[tuple[str, str], ...] = ()
    mirror: GpuMirror | None = None
    # Whether a snapshot has its repositories, which the role node_os writes.
    in_snapshot: bool = False
    # Of repositories: name and address, name and path of the armored public key.
    urls: tuple[tuple[str, str], ...] = ()
    keys: tuple[tuple[str, str], ...] = ()
    # Whether DCGM comes with its proprietary modules.
    dcgm_proprietary: bool = True
    # Further packages: a name, or name=version.
    packages: tuple[str, ...] = ()
    # Modules of GPUDirect: a name, or name=version.
    gpudirect: tuple[str, ...] = ()
    # Sources of others on a node that are in the way: vendor, refuse or take_over.
    foreign_sources: str = "vendor"
    # The versions of the site's lock; None: those of the table.
    lock: GpuLock | None = None
    # The site's own rows of the table.
    rows: SiteRows = NO_ROWS
    # Of the keys: name of the repository and fingerprints as the file writes them.
    fingerprints: tuple[tuple[str, tuple[str, ...]], ...] = ()


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


def names_slurmdbd(options: Mapping[Any, Any]) -> bool:
    """Return whether options of slurm.conf name the host of a slurmdbd that bedplate does not manage."""
    return any(
        str(key).lower() == "accountingstoragehost" and value not in (None, "") for key, value in options.items()
    )


@dataclass(frozen=True, slots=True)
class Services:
    """Names of the hosts of each service, in order."""

    controllers: tuple[str, ...]
    database: tuple[str, ...]
    login: tuple[str, ...]
    rest: tuple[str, ...]
    subnet_managers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its selectors as written, and the names of its nodes in file order."""

    name: str
    selectors: tuple[str, ...]
    nodes: tuple[str, ...]
    default: bool
    max_time: str | None
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SystemUser:
    """A system user with a group of the same name. `place`: file, line and key that state the numbers."""

    uid: int
    gid: int
    place: str


@dataclass(frozen=True, slots=True)
class Slurm:
    """Slurm's release and the user's options, checked."""

    version: str
    options: dict[str, Any]
    cgroup: dict[str, Any]
    slurmdbd: dict[str, Any]
    qos: dict[str, Any]
    accounts: dict[str, dict[str, Any]]
    # Kind -> scripts in order, each a `file` of the control node or a `path` of the machines.
    scripts: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    packages: Packaging = field(default_factory=packaging)
    # Of slurm and munge the users whose numbers the file states, by name.
    users: dict[str, SystemUser] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tenant:
    """A partition of InfiniBand: names of nodes and hosts -> full, limited or both."""

    name: str
    pkey: int
    members: dict[str, str]
    ipoib: bool


@dataclass(frozen=True, slots=True)
class SwitchTraits:
    """A switch with values that differ from the fabric's; `key` is the key of the file that names it."""

    key: str
    name: str
    ports: int | None = None
    cage_ports: int | None = None
    group: str = ""
    # Fastest speed of a lane of its ports; "": the fabric's.
    speed: str = ""


@dataclass(frozen=True, slots=True)
class Fabric:
    """The fabric as the file states it; `plugin_utils/fabric` makes the plan of it."""

    spines: tuple[str, ...]
    top: str
    rails: int | None
    kind: str = "leaf-spine"
    technology: str = "infiniband"
    speed: str = "NDR"
    switch_ports: int = 64
    cage_ports: int = 1
    uplinks: int | None = None
    cores: tuple[str, ...] = ()
    global_links: int = 1
    oversubscription: int = 1
    # Whether switches have SHARP's aggregation nodes.
    sharp: bool = False
    # Of each, which entry of the file names it, switch and port.
    missing: tuple[tuple[int, str, int], ...] = ()
    spare: tuple[tuple[int, str, int], ...] = ()
    leaves: tuple[str, ...] = ()
    partitions: tuple[Tenant, ...] = ()
    # Of each, which key of the file names it, switch and rack.
    switch_racks: tuple[tuple[str, str, str], ...] = ()
    # The list of cables that states the fabric, as the file names it; None: the shape is planned from the other keys.
    cables: str | None = None
    # Those that differ from the values above.
    switches: tuple[SwitchTraits, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedFabric:
    """A fabric of the file: its name and keys, its section (None: not stated, so it has no plan), and the hosts of its OpenSM in order."""

    stated: StatedFabric
    fabric: Fabric | None
    subnet_managers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PackageLogin:
    """A server of packages that needs a user and a password; `secret` is the name of the password."""

    url: str
    user: str
    secret: str


@dataclass(frozen=True, slots=True)
class PackageAccess:
    """Access of package managers to repositories. `proxy` is an address or "", `ca` the path of PEM certificates or ""."""

    proxy: str = ""
    no_proxy: tuple[str, ...] = ()
    ca: str = ""
    logins: tuple[PackageLogin, ...] = ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the names of the passwords."""
        return tuple(dict.fromkeys(login.secret for login in self.logins))


@dataclass
class Cluster:
    """A whole cluster file, checked."""

    path: str
    site: str
    name: str
    domain: str | None
    networks: dict[str, Network]
    profiles: dict[str, Profile]
    racks: dict[str, Rack]
    nodes: list[Node]
    hosts: dict[str, Host]
    services: Services
    partitions: dict[str, Partition]
    slurm: Slurm
    # Of a view its fabric, else the first of `fabrics`; None where its section is not stated.
    fabric: Fabric | None
    package_access: PackageAccess | None = None
    snapshots: Snapshots | None = None
    # Whether the user has `groups`, `keyed_groups` or `compose` of their own.
    constructed: bool = False
    # Path, inode, time and size of the file that was read, of its locks and of its rows; two clusters with one stamp are alike.
    stamp: tuple[str | int, ...] | None = None
    # All fabrics by name, in the order of the file; a view has its own alone.
    fabrics: dict[str, NamedFabric] = field(default_factory=dict)
    # Of `fabric`.
    stated: StatedFabric = field(default_factory=StatedFabric)
    # Of a view of several fabrics, the cluster with all of them.
    whole: Cluster | None = field(default=None, repr=False, compare=False)

    @cached_property
    def views(self) -> dict[str, Cluster]:
        """Return fabric -> the cluster with this fabric alone; one fabric, or none, is the cluster itself.

        Plans and checks of a fabric work on its view: there, `fabric`, NICs, leaves of racks and subnet managers are those of the fabric.
        """
        if len(self.fabrics) < 2:
            return {next(iter(self.fabrics), USUAL): self}
        return {name: self._view(one) for name, one in self.fabrics.items()}

    def _view(self, named: NamedFabric) -> Cluster:
        stated = named.stated
        profiles = {name: profile.in_fabric(stated) for name, profile in self.profiles.items()}
        racks = {name: rack.in_fabric(stated) for name, rack in self.racks.items()}
        return replace(
            self,
            profiles=profiles,
            racks=racks,
            nodes=[replace(one, rack=racks[one.rack.name], profile=profiles[one.profile.name]) for one in self.nodes],
            hosts={name: host.in_fabric(stated) for name, host in self.hosts.items()},
            services=replace(self.services, subnet_managers=named.subnet_managers),
            fabric=named.fabric,
            fabrics={stated.name: named},
            stated=stated,
            whole=self,
            stamp=(*self.stamp, stated.name) if self.stamp else None,
        )

    def view(self, name: str = "") -> Cluster:
        """Return the view of a fabric, by default of the first; KeyError names the nearest one."""
        views = self.views
        if name and name not in views:
            said = did_you_mean(name, list(views)) or f" Allowed: {', '.join(views)}."
            raise KeyError(f"{name!r} is not a fabric of {self.path}.{said}")
        return views[name] if name else next(iter(views.values()))

    @cached_property
    def elsewhere(self) -> dict[str, str]:
        """Return name in lower case -> fabric, of adapters (`host device`) and switches of other fabrics, as far as the file names them."""
        views = self.whole.views if self.whole else {}
        others = {name: view for name, view in views.items() if name != self.stated.name}
        return {one.lower(): name for name, view in others.items() for one in view.names_in_fabric}

    @property
    def names_in_fabric(self) -> Iterator[str]:
        """Yield the names of adapters and switches of a view's fabric that the file has; a list of cables may have more."""
        for node in self.nodes:
            for nic in node.profile.nics:
                yield from {f"{node.name} {nic.name}", f"{node.name} {nic.fabric_name or nic.name}"}
        for host in self.hosts.values():
            for one in host.nics:
                yield from {f"{host.name} {one.name}", f"{host.name} {one.fabric_name or one.name}"}
        if fabric := self.fabric:
            yield from (*fabric.spines, *fabric.cores, *fabric.leaves, *(switch.name for switch in fabric.switches))
            rails = {nic.rail for profile in self.profiles.values() for nic in profile.nics if nic.rail is not None}
            ends = [f"-r{rail}" for rail in sorted(rails)] if fabric.kind in BY_UNIT else [""]
            for leaf in dict.fromkeys(node.rack.leaf for node in self.nodes if node.profile.nics):
                yield from (f"{leaf}{end}" for end in ends)

    def nic_path(self, owner: tuple[str, str], number: int) -> Path:
        """Return the keys of a view's NIC in the file; `owner`: `hosts` or `profiles`, and a name."""
        kind, name = owner
        mine, listed = (getattr(one, kind)[name].nics for one in (self, self.whole or self))
        names = [nic.name for nic in listed]
        return (*owner, "nics", names.index(mine[number].name))

    @property
    def fabric_title(self) -> str:
        """Return the name of the fabric in findings and summaries: the cluster's, of a further fabric with its own."""
        return self.name if self.stated.first else f"{self.name} {self.stated.name}"

    @cached_property
    def machines(self) -> dict[str, Node | Host]:
        """Every machine by name: hosts, then nodes in file order."""
        return {**self.hosts, **{node.name: node for node in self.nodes}}

    @cached_property
    def nodes_by_rack(self) -> dict[str, list[Node]]:
        """Return the nodes of each rack by its name, in file order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(node.rack.name, []).append(node)
        return found

    @cached_property
    def nodes_by_domain(self) -> dict[tuple[str, int], list[Node]]:
        """Return the nodes of NVLink domains, in file order, by what their racks call the domain and by its planned number of nodes."""
        found: dict[tuple[str, int], list[Node]] = {}
        for node in self.nodes:
            if size := node.nvlink_domain:
                found.setdefault((node.rack.domain, size), []).append(node)
        return found

    @cached_property
    def has_domains(self) -> bool:
        """Return whether an NVLink domain has several nodes."""
        of_profile = any(profile.nvlink_domain for profile in self.profiles.values())
        stated = of_profile or any(rack.nvlink_domain for rack in self.racks.values())
        return stated and any(node.nvlink_domain for node in self.nodes)

    @cached_property
    def has_blocks(self) -> bool:
        """Return whether Slurm gets NVLink domains as blocks, and no tree: it supports them, and no node is outside."""
        takes = self.fabric is not None and self.slurm.version >= BLOCKS and self.has_domains
        return takes and all(node.nvlink_domain for node in self.nodes)

    @cached_property
    def has_tree_and_blocks(self) -> bool:
        """Return whether Slurm gets a tree and blocks, and each partition one of them: some nodes are in NVLink domains, some are not."""
        several = self.fabric is not None and self.slurm.version >= SEVERAL_TOPOLOGIES
        return several and self.has_domains and not self.has_blocks

    @cached_property
    def client_hosts(self) -> tuple[str, ...]:
        """The hosts of Slurm's clients on which neither slurmctld nor slurmd has the configuration."""
        clients = dict.fromkeys([*self.services.login, *self.services.rest])
        served = {*self.services.controllers, *(name for name in clients if isinstance(self.machines.get(name), Node))}
        return tuple(name for name in clients if name not in served)

    @property
    def has_slurmdbd(self) -> bool:
        """Return whether Slurm has a slurmdbd: of services.database, or of the site, named by AccountingStorageHost."""
        return bool(self.services.database) or names_slurmdbd(self.slurm.options)

    @property
    def has_sackd(self) -> bool:
        """Return whether sackd fetches the configuration for clients. An older release has no sackd: clients have a slurm.conf."""
        return self.slurm.packages.has_sackd(self.slurm.version)

    def machine(self, name: str) -> Node | Host:
        """Return a machine by name; KeyError names the nearest one."""
        try:
            return self.machines[name]
        except KeyError:
            hint = did_you_mean(name, list(self.machines))
            raise KeyError(f"{name!r} is not a machine of {self.path}.{hint}") from None

    def node(self, name: str) -> Node:
        """Return a node of a rack by name; KeyError names the mistake."""
        machine = self.machine(name)
        if isinstance(machine, Node):
            return machine
        raise KeyError(f"{name!r} is a host of {self.path}, not a node of a rack.")
