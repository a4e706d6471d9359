# SPDX-License-Identifier: GPL-3.0-or-later
"""Planned rates of a node's links in Gbit/s, without a plan of the whole fabric."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..cluster import Cluster, Fabric, Node
from ..cluster.schema.fabric_section import BY_UNIT
from ..fabric.core.fabric_model import INFINIBAND
from ..fabric.core.link_rates import TRADE_NAMES, USUAL_WIDTH, total_gbits
from ..fabric.plan.cable_rows import read
from ..fabric.plan.listed_plan import path_of_list


class ListedRate(NamedTuple):
    """The row of a NIC in the list of cables: its width and speed, "" where it states none, and the leaf."""

    width: str = ""
    speed: str = ""
    leaf: str = ""


def expected_rates(cluster: Cluster, node: Node) -> dict[str, Any]:
    """Return `rate`, the usual one of the fabric, and `rates` with NICs that have another one. `rate` None means no comparison.

    `speed` of a fabric has a default, and means InfiniBand's speeds: Ethernet's links negotiate others.
    """
    fabric = cluster.fabric
    if fabric is None or fabric.technology != INFINIBAND:
        return {"rate": None}
    usual = total_gbits((USUAL_WIDTH, fabric.speed))
    rows = _rows(cluster, fabric)
    leaves = {one.name: one.speed for one in fabric.switches if one.speed}
    rates = {}
    # Rails of other fabrics are not compared.
    for nic in (one for one in node.profile.nics if not one.fabric):
        width, speed = TRADE_NAMES.get(nic.speed, (nic.width, nic.speed))
        row = rows.get(f"{node.name} {nic.name}", ListedRate())
        speed = speed or leaves.get(row.leaf or _leaf(fabric, node, nic.rail), fabric.speed)
        if row.width or row.speed:
            width, speed = row.width, row.speed or speed
        if (gbits := total_gbits((width or USUAL_WIDTH, speed))) != usual:
            rates[nic.name] = gbits
    return {"rate": usual} | ({"rates": rates} if rates else {})


def _leaf(fabric: Fabric, node: Node, rail: int | None) -> str:
    """Return the planned leaf of a NIC."""
    return f"{node.rack.leaf}-r{rail}" if fabric.kind in BY_UNIT else node.rack.leaf


def _rows(cluster: Cluster, fabric: Fabric) -> Mapping[str, ListedRate]:
    """Return HCA -> its row of the list of cables; a list that cannot be read states none."""
    if not fabric.cables:
        return {}
    path = path_of_list(cluster, fabric.cables)
    try:
        status = path.stat()
    except OSError:
        return {}
    return _read_rows(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_rows(path: Path, _time: int, _size: int) -> Mapping[str, ListedRate]:
    """Return the rows of HCAs in a list; all hosts of a run share it."""
    found = {}
    for row in read(path).rows:
        for end, far in ((row.a, row.b), (row.b, row.a)):
            # A host and its device are in one cell, or in two.
            words = end.name.split()
            hca = " ".join(words) if len(words) > 1 else f"{end.name} {end.port}"
            found[hca] = ListedRate(row.width, row.speed, far.name)
    return found
