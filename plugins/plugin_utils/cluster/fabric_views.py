# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster as one of its fabrics has it: NICs, leaves of racks and subnet managers of this fabric alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .schema.fabric_keys import StatedFabric

if TYPE_CHECKING:
    from .cluster_model import Cluster, Host, NamedFabric, Nic, Profile, Rack


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
        stamp=(*cluster.stamp, stated.name) if cluster.stamp else None,
    )
