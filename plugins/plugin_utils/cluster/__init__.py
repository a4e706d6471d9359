# SPDX-License-Identifier: GPL-3.0-or-later
"""The cluster file: read it, check it whole, derive from it. `load` is the way in."""

from __future__ import annotations

from pathlib import Path as FilePath

from .build import build
from .fields import Mistake, Mistakes, walk
from .model import Cluster, Fabric, Gpus, Host, Network, Node, Partition, Profile, Rack
from .reader import ClusterFileError, read
from .schema import CLUSTER_FILE

__all__ = [
    "Cluster", "ClusterFileError", "Fabric", "Gpus", "Host", "Mistake", "Network", "Node", "Partition", "Profile", "Rack", "load",
]  # fmt: skip

_loaded: dict[tuple[str, int, int], Cluster] = {}


def load(path: str) -> Cluster:
    """Return the cluster of a file; ClusterFileError has every mistake of it.

    A file is read once per process and version of the file: Ansible's forks share what the inventory plugin has read.
    """
    status = FilePath(path).stat() if FilePath(path).exists() else None
    key = (path, status.st_mtime_ns, status.st_size) if status else (path, 0, 0)
    if key not in _loaded:
        _loaded[key] = _load(path)
    return _loaded[key]


def _load(path: str) -> Cluster:
    data, lines = read(path)
    mistakes = Mistakes(lines)
    checked = walk(data, CLUSTER_FILE, (), mistakes)
    shaped = not mistakes.found
    cluster = None
    try:
        cluster = build(path, checked, mistakes)
    except (KeyError, TypeError, AttributeError, ValueError):
        # A value of the wrong type is noted already and may stop the second look; without such a one it is our fault.
        if shaped:
            raise
    if mistakes.found or cluster is None:
        raise ClusterFileError(path, mistakes.found)
    return cluster
