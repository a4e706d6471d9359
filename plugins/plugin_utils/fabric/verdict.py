# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a working fabric can be built as the cluster file says; asked before any machine is touched."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from .artefacts import planned


def mistakes(cluster: Cluster) -> list[str]:
    """Return what is wrong with the plan of the fabric; nothing where no fabric, or no NIC of it, is stated."""
    if cluster.fabric is None or not any(node.profile.nics for node in cluster.nodes):
        return []
    try:
        planned(cluster)
    except ValueError as error:
        return str(error).split("\n")
    return []
