# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that follow from the cluster file, such as what a node has on record of the run before."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import discovery_of, ibnetdiscover_text
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import managers

Answers = list[dict[str, Any]]


def opensm_proved(folder: Path) -> Answers:
    """Return the answer of hosts that have the digest of what was proved."""
    digest = managers.proof(_cluster(folder), {"routing_engines": [], "no_fallback": False, "options": {}})["digest"]
    content = base64.b64encode(f"{digest}\n".encode()).decode()
    return [{"module": "slurp", "result": {"changed": False, "content": content, "encoding": "base64"}}]


def fabric_as_planned(folder: Path) -> Answers:
    """Return the answer of a host that sees the whole fabric of the plan."""
    return _discovered(folder, lambda text: text)


def fabric_without_a_cable(folder: Path) -> Answers:
    """Return the answer of a host that sees a fabric where sm2 has no cable."""
    return _discovered(folder, _without_sm2)


def fabric_cut_short(folder: Path) -> Answers:
    """Return the answer of a host whose ibnetdiscover was cut short."""
    return _discovered(
        folder, lambda text: f"ibwarn: [1] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1)\n{text}"
    )


def _without_sm2(text: str) -> str:
    parts = [part for part in text.split("\n\n") if 'sm2 mlx5_0"\t\t#' not in part]
    return "\n\n".join("\n".join(line for line in part.splitlines() if '# "sm2' not in line) for part in parts)


def _discovered(folder: Path, change: Callable[[str], str]) -> Answers:
    text = change(ibnetdiscover_text(discovery_of(managers.plan_of(_cluster(folder)))))
    counts = {"switches": 0, "hcas": 0, "cables": 0, "unread": 0, "troubles": 0}
    found = [{"name": "fabric", "kind": "infiniband", "text": text, "counts": counts}]
    return [{"module": "fabric_facts", "result": {"changed": False, "msg": "discovered", "discoveries": found}}]


def _cluster(folder: Path) -> Cluster:
    (path,) = folder.glob("*.bedplate.yml")
    return load(str(path))


ANSWERS: dict[str, Callable[[Path], Answers]] = {
    one.__name__: one for one in (opensm_proved, fabric_as_planned, fabric_without_a_cable, fabric_cut_short)
}
