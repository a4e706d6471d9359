# SPDX-License-Identifier: GPL-3.0-or-later
"""Notices on probable slips of a cluster file: shown once a run, and not a mistake."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from .cluster_model import Cluster


def notices(cluster: Cluster) -> list[str]:
    """Return texts about a cluster that people should read."""
    used = {name for partition in cluster.partitions.values() for name in partition.nodes}
    unused = [node.name for node in cluster.nodes if node.name not in used]
    if not unused:
        return []
    what = f"node {unused[0]} is" if len(unused) == 1 else f"nodes {fold(unused)} are"
    return [
        f"{cluster.path}: {what} in no partition, so no job runs there. Name them under `partitions`, or use `nodes: all`."
    ]
