# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the cluster file, check it whole, and build the cluster."""

from __future__ import annotations

from pathlib import Path as FilePath

from ..gpu_lock import lock_document, stray_files
from ..gpu_rows import rows_file
from ..snapshots import snapshot_lock
from .build_cluster import build
from .model import (
    Cluster,
    Fabric,
    Gpus,
    GpuStack,
    Health,
    Host,
    HostNic,
    Image,
    Monitoring,
    NamedFabric,
    Network,
    Nic,
    Node,
    Numa,
    PackageAccess,
    Partition,
    Profile,
    ProfileMetal,
    Provision,
    Rack,
    Services,
    Slurm,
    SnapshotOrigin,
    Snapshots,
    SwitchTraits,
    SystemDisk,
    Tenant,
)
from .schema.cluster_file import CLUSTER_FILE
from .schema.fields import Mistake, Mistakes, walk
from .schema.reader import ClusterFileError, read

__all__ = [
    "Cluster", "ClusterFileError", "Fabric", "GpuStack", "Gpus", "Health", "Host", "HostNic", "Image", "Mistake", "Monitoring",
    "NamedFabric", "Network", "Nic", "Node", "Numa", "PackageAccess", "Partition", "Profile", "ProfileMetal", "Provision", "Rack",
    "Services", "Slurm", "SnapshotOrigin", "Snapshots", "SwitchTraits", "SystemDisk", "Tenant",
    "load",
]  # fmt: skip

_loaded: dict[tuple[str | int, ...], Cluster] = {}


def load(path: str | FilePath) -> Cluster:
    """Return the cluster of a file; ClusterFileError has every mistake of it.

    A file is read once per process and version of the file: Ansible's forks share what the inventory plugin has read.
    """
    absolute = FilePath(path).absolute()
    try:
        status = absolute.stat()
    except OSError:
        return _load(str(absolute))
    # A playbook may write the lock while it runs.
    beside = (*lock_document.stamp(absolute), *rows_file.stamp(absolute), *snapshot_lock.stamp(absolute))
    key = (str(absolute), status.st_ino, status.st_mtime_ns, status.st_size, *beside)
    if key not in _loaded:
        _loaded[key] = _load(str(absolute))
        _loaded[key].stamp = key
    return _loaded[key]


def _load(path: str) -> Cluster:
    data, lines, twice = read(path)
    mistakes = Mistakes(lines, twice)
    for text in stray_files.mistakes(path):
        mistakes.add((), text)
    cluster = build(path, walk(data, CLUSTER_FILE, (), mistakes), mistakes)
    beside = rows_file.error_of(path)
    if mistakes.found or beside:
        raise ClusterFileError(path, mistakes.found, beside)
    return cluster
