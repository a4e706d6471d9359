# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster as objects."""

from __future__ import annotations

from .health import DrainCaps, Health, IgnoredCheck, Monitoring, ProfileHealth
from .machines import Gpus, Host, HostNic, Nic, Node, Numa, Profile, Rack
from .metal import NO_METAL, NO_PROVISION, Image, ProfileMetal, Provision, SystemDisk
from .networks import Fabric, NamedFabric, Network, SwitchTraits
from .scheduler import Partition, Services, Slurm, SystemUser, Tenant, names_slurmdbd
from .software import GpuMirror, GpuStack, PackageAccess, PackageLogin, SnapshotOrigin, Snapshots
from .whole import BLOCKS, SEVERAL_TOPOLOGIES, Cluster

__all__ = [
    "BLOCKS",
    "NO_METAL",
    "NO_PROVISION",
    "SEVERAL_TOPOLOGIES",
    "Cluster",
    "DrainCaps",
    "Fabric",
    "GpuMirror",
    "GpuStack",
    "Gpus",
    "Health",
    "Host",
    "HostNic",
    "IgnoredCheck",
    "Image",
    "Monitoring",
    "NamedFabric",
    "Network",
    "Nic",
    "Node",
    "Numa",
    "PackageAccess",
    "PackageLogin",
    "Partition",
    "Profile",
    "ProfileHealth",
    "ProfileMetal",
    "Provision",
    "Rack",
    "Services",
    "Slurm",
    "SnapshotOrigin",
    "Snapshots",
    "SwitchTraits",
    "SystemDisk",
    "SystemUser",
    "Tenant",
    "names_slurmdbd",
]
