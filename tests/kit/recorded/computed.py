# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that follow from the cluster file, such as what a node has on record of the run before."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import DiscoveredNode, Discovery
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render

Answers = list[dict[str, Any]]


def opensm_proved(folder: Path) -> Answers:
    """Return the answer of hosts that have the digest of what was proved."""
    digest = managers.proof_digest(_cluster(folder), {"routing_engines": [], "no_fallback": False, "options": {}})
    content = base64.b64encode(f"{digest}\n".encode()).decode()
    return [{"module": "slurp", "result": {"changed": False, "content": content, "encoding": "base64"}}]


def fabric_as_planned(folder: Path) -> Answers:
    """Return the answer of a host that sees the whole fabric of the plan."""
    return _discovered(_seen(folder))


def fabric_without_a_cable(folder: Path) -> Answers:
    """Return the answer of a host that sees a fabric where sm2 has no cable."""
    seen = _seen(folder)
    cable = _node(seen, "sm2 mlx5_0").cables.pop(1)
    del seen.nodes[cable.guid].cables[cable.port]
    return _discovered(seen)


def fabric_cut_short(folder: Path) -> Answers:
    """Return the answer of a host whose ibnetdiscover did not reach a switch that others name."""
    seen = _seen(folder)
    del seen.nodes[_node(seen, "leaf-r2").guid]
    return _discovered(seen)


def fabric_routed(folder: Path) -> Answers:
    """Return the answer of a host that sees the whole fabric, with a way from each switch to each node."""
    seen = _seen(folder)
    return _discovered(seen, "".join(_table(seen, node, ways) for node, ways in _ways(seen).items()))


def fabric_without_a_way(folder: Path) -> Answers:
    """Return the answer of a host that sees the whole fabric, where one leaf has an empty forwarding table."""
    seen, empty = _seen(folder), _node(_seen(folder), "leaf-r1").guid
    return _discovered(
        seen, "".join(_table(seen, node, {} if node == empty else ways) for node, ways in _ways(seen).items())
    )


def slurm_files_in_force(folder: Path) -> Answers:
    """Return the answer of controllers that all answer, whose files are as the cluster file says, and where a node could get a job."""
    cluster = _cluster(folder)
    files = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in render.slurm_files(cluster).items()}
    result = {
        **{"changed": False, "configured": True, "slurm": [], "gres": [], "nodes": {}, "partitions": {}},
        **{"count": "", "new": "", "changing": [], "fence": {"nodes": "", "partitions": []}},
        **{"exposed": True, "up": list(cluster.services.controllers), "files": files, "loaded": True},
    }
    return [{"module": "slurm_in_use", "result": result}]


def _seen(folder: Path) -> Discovery:
    return discovery_of(managers.infiniband_plan(_cluster(folder)))


def _node(seen: Discovery, name: str) -> DiscoveredNode:
    return next(one for one in seen.nodes.values() if one.description == name)


def _ways(seen: Discovery) -> dict[str, dict[int, int]]:
    """Return GUID of a switch -> LID of a node -> the first port of the shortest way to it."""
    found: dict[str, dict[int, int]] = {switch.guid: {} for switch in seen.switches}
    for target in seen.nodes.values():
        reached, edge = {target.guid}, [target.guid]
        while edge:
            after = []
            for guid in edge:
                for cable in seen.nodes[guid].cables.values():
                    if cable.guid not in reached and cable.guid in found:
                        found[cable.guid][target.lid] = cable.port
                        reached.add(cable.guid)
                        after.append(cable.guid)
            edge = after
    return found


def _table(seen: Discovery, guid: str, ways: dict[int, int]) -> str:
    """Return a forwarding table as dump_fts prints it."""
    name = seen.nodes[guid].description
    lines = [f"0x{lid:04x} {port:03} \n" for lid, port in sorted(ways.items())]
    return f"Unicast lids [0x0-0xff] of switch DR path slid 0; dlid 0; 0 guid 0x{guid} ({name}):\n{''.join(lines)}"


def _discovered(seen: Discovery, tables: str = "") -> Answers:
    counts = {"switches": len(seen.nodes), "hcas": 0, "cables": 0, "unread": 0, "troubles": 0}
    found = [{"name": "fabric", "kind": "infiniband", "text": ibnetdiscover_text(seen), "counts": counts}]
    if tables:
        found.append({"name": "fabric", "kind": "tables", "text": tables, "counts": {"tables": len(seen.switches)}})
    return [{"module": "fabric_facts", "result": {"changed": False, "msg": "discovered", "discoveries": found}}]


def _cluster(folder: Path) -> Cluster:
    (path,) = folder.glob("*.bedplate.yml")
    return load(str(path))


ANSWERS: dict[str, Callable[[Path], Answers]] = {
    one.__name__: one
    for one in (
        opensm_proved,
        fabric_as_planned,
        fabric_without_a_cable,
        fabric_cut_short,
        fabric_routed,
        fabric_without_a_way,
        slurm_files_in_force,
    )
}
