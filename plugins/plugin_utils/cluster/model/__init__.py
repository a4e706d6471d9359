# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as objects."""

from __future__ import annotations

from .machines import Gpus, Host, HostNic, Nic, Node, Numa, Profile, Rack
from .networks import Fabric, NamedFabric, Network, SwitchTraits
from .scheduler import Partition, Services, Slurm, SystemUser, Tenant, names_slurmdbd
from .software import GpuMirror, GpuStack, PackageAccess, PackageLogin, SnapshotOrigin, Snapshots
from .whole import BLOCKS, SEVERAL_TOPOLOGIES, Cluster

__all__ = [
    "BLOCKS",
    "SEVERAL_TOPOLOGIES",
    "Cluster",
    "Fabric",
    "GpuMirror",
    "GpuStack",
    "Gpus",
    "Host",
    "HostNic",
    "NamedFabric",
    "Network",
    "Nic",
    "Node",
    "Numa",
    "PackageAccess",
    "PackageLogin",
    "Partition",
    "Profile",
    "Rack",
    "Services",
    "Slurm",
    "SnapshotOrigin",
    "Snapshots",
    "SwitchTraits",
    "SystemUser",
    "Tenant",
    "names_slurmdbd",
]
