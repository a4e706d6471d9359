# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole cluster file, checked. Values are computed on first use: every ansible command pays for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..schema.fabric_keys import USUAL, StatedFabric
from ..schema.fabric_section import BY_UNIT
from ..schema.fields import Path
from .health import Health, Monitoring
from .machines import Host, Node, Profile, Rack
from .metal import Image, Provision
from .networks import Fabric, NamedFabric, Network
from .scheduler import Partition, Services, Slurm, names_slurmdbd
from .software import PackageAccess, Snapshots

# The release of Slurm from which on topology/block is as it is written here.
BLOCKS = "24.05"
# The release from which on Slurm has several topologies, and a partition one of them.
SEVERAL_TOPOLOGIES = "25.05"


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
    health: Health | None = None
    monitoring: Monitoring | None = None
    # By name, in the order of the file.
    images: dict[str, Image] = field(default_factory=dict)
    provision: Provision | None = None
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
