# SPDX-License-Identifier: GPL-3.0-or-later
"""NVLink domains: nodes of a rack that one NVLink fabric joins. The fabric's plan, Slurm and IMEX use the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .cluster_model import Cluster, Node

_T = TypeVar("_T")


def split(members: Sequence[_T], size: int) -> list[tuple[_T, ...]]:
    """Return the domains that the members of a rack make: as many of that size as fit, or one with all of them.

    What is too few or too many by some is no second domain: rule P12 of the fabric tells of it.

    >>> split("abcd", 2), split("abc", 2)
    ([('a', 'b'), ('c', 'd')], [('a', 'b', 'c')])
    """
    parts = len(members) // size if members and len(members) % size == 0 else 1
    each = len(members) // parts
    return [tuple(members[part * each : (part + 1) * each]) for part in range(parts)]


def domain_of(cluster: Cluster, node: Node) -> tuple[Node, ...]:
    """Return the nodes of a node's NVLink domain in file order, itself among them; it alone where NVLink does not leave it."""
    size = node.nvlink_domain
    if not size:
        return (node,)
    rack = [one for one in cluster.nodes_by_rack[node.rack.name] if one.nvlink_domain == size]
    return next(domain for domain in split(rack, size) if any(one is node for one in domain))
