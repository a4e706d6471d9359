# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the places of the machines of a run from its cluster file."""

from __future__ import annotations

from typing import Any

from ..cluster import ClusterFileError, load
from .report_document import Place


def site_of(variables: Any) -> tuple[str, dict[str, Place]]:
    """Return the name of the cluster and host -> its place, of Ansible's variable manager; empty without a cluster file."""
    path = _path(variables)
    if not path:
        return "", {}
    try:
        cluster = load(path)
    except ClusterFileError:
        return "", {}  # validate.yml says what is wrong
    return cluster.name, {node.name: Place(node.rack.name, node.rack.row, node.rack.column) for node in cluster.nodes}


def _path(variables: Any) -> str:
    """Return the path of the cluster file: a variable of the group `all`."""
    inventory = getattr(variables, "_inventory", None)
    group = inventory.groups.get("all") if inventory is not None else None
    return str(group.get_vars().get("bedplate_cluster_file", "")) if group is not None else ""
