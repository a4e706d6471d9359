# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as one of its fabrics has it: NICs, leaves of racks and subnet managers of this fabric alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from .schema.fabric_keys import StatedFabric

if TYPE_CHECKING:
    from .cluster_model import Cluster, Host, NamedFabric, Nic, Profile, Rack

# Kinds in which NICs without a rail are not of the fabric: there, a leaf is a rail's.
BY_UNIT = ("rail-optimised", "rail-only")


def profile_in(profile: Profile, stated: StatedFabric) -> Profile:
    """Return a profile with the NICs of a fabric."""
    nics = tuple(_nic(nic, stated) for nic in profile.nics if nic.fabric == stated.part)
    return profile if nics == profile.nics else replace(profile, nics=nics)


def _nic(nic: Nic, stated: StatedFabric) -> Nic:
    return nic if stated.first else replace(nic, rail=nic.own_rail)


def host_in(host: Host, stated: StatedFabric) -> Host:
    """Return a host with the NICs of a fabric."""
    nics = tuple(nic for nic in host.nics if nic.fabric == stated.part)
    return host if nics == host.nics else replace(host, nics=nics)


def default_leaf(rack: str, stated: StatedFabric) -> str:
    """Return the leaf of a rack that states none, for any fabric."""
    return _of_fabric(f"leaf-{rack}", stated)


def _of_fabric(leaf: str, stated: StatedFabric) -> str:
    return leaf if stated.first else f"{stated.name}-{leaf}"


def rack_in(rack: Rack, stated: StatedFabric) -> Rack:
    """Return a rack with its leaf in a fabric."""
    if stated.first:
        return rack
    return replace(rack, leaf=dict(rack.leaves).get(stated.name) or _of_fabric(rack.leaf, stated))


def view_of(cluster: Cluster, named: NamedFabric) -> Cluster:
    """Return the cluster as a fabric has it; nodes keep their order."""
    stated = named.stated
    profiles = {name: profile_in(profile, stated) for name, profile in cluster.profiles.items()}
    racks = {name: rack_in(rack, stated) for name, rack in cluster.racks.items()}
    return replace(
        cluster,
        profiles=profiles,
        racks=racks,
        nodes=[
            replace(node, rack=racks[node.rack.name], profile=profiles[node.profile.name]) for node in cluster.nodes
        ],
        hosts={name: host_in(host, stated) for name, host in cluster.hosts.items()},
        services=replace(cluster.services, subnet_managers=named.subnet_managers),
        fabric=named.fabric,
        fabrics={stated.name: named},
        stated=stated,
        whole=cluster,
        stamp=(*cluster.stamp, stated.name) if cluster.stamp else None,
    )


def names_in(view: Cluster) -> Iterator[str]:
    """Yield the names of adapters and switches of a fabric that the file has; a list of cables may have more."""
    for node in view.nodes:
        for nic in node.profile.nics:
            yield from {f"{node.name} {nic.name}", f"{node.name} {nic.fabric_name or nic.name}"}
    for host in view.hosts.values():
        for one in host.nics:
            yield from {f"{host.name} {one.name}", f"{host.name} {one.fabric_name or one.name}"}
    if fabric := view.fabric:
        yield from (*fabric.spines, *fabric.cores, *fabric.leaves, *(one.name for one in fabric.switches))
        rails = {nic.rail for profile in view.profiles.values() for nic in profile.nics if nic.rail is not None}
        ends = [f"-r{rail}" for rail in sorted(rails)] if fabric.kind in BY_UNIT else [""]
        for leaf in dict.fromkeys(node.rack.leaf for node in view.nodes if node.profile.nics):
            yield from (f"{leaf}{end}" for end in ends)
