# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's NVLink takes beside packages: IMEX's list of the nodes of its domain, and modules for the fabric manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...cluster import Cluster
from ...cluster.nvlink_domains import domain_of
from ..resolve import Stack

IMEX = "nvidia-imex.service"


def added(deployed: Mapping[str, Any], stack: Stack, cluster: Cluster, host: str) -> dict[str, Any]:
    """Return what the driver's role brings to a host, with the list of the nodes of its NVLink domain, and both to be read back."""
    nodes = addresses(cluster, host) if stack.nodes_file else []
    # IMEX compares its list with that of every other node, so it is the same everywhere, the own address among the others.
    content = "".join(f"{address}\n" for address in nodes)
    files = [{"path": stack.nodes_file, "content": content}] if nodes else []
    nvlink = {"nodes_file": stack.nodes_file, "nodes": nodes, "modules": list(stack.modules_load)}
    return {
        **deployed,
        "files": [*deployed["files"], *files],
        "nodes_file": stack.nodes_file,
        "expected": {**deployed["expected"], "nvlink": nvlink},
    }


def addresses(cluster: Cluster, host: str) -> list[str]:
    """Return the addresses of the nodes of a node's NVLink domain, in file order. KeyError: no node of a rack."""
    return [one.address for one in domain_of(cluster, cluster.node(host))]


def units(found: Sequence[Mapping[str, Any]], nodes_file: str) -> list[dict[str, Any]]:
    """Return the units, with IMEX started again after its list has changed: it reads that at its start alone."""
    return [
        {**unit, "restart_after": [*unit.get("restart_after", []), nodes_file]}
        if nodes_file and unit["name"] == IMEX and unit.get("state") == "started"
        else {**unit}
        for unit in found
    ]
