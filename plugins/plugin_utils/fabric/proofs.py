# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be proved of the fabric of a cluster file: each plane with OpenSM's files for it, and Slurm's topology."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import slurm_topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.plan_data import to_data
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.simulation import simulated_plan
from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from .artefacts import INFINIBAND, LEFT_OUT, opensm_files, planned
from .topologies import topologies


def proofs(cluster: Cluster, slurm_version: str | None = None) -> dict[str, Any]:
    """Return `plan`, `planes` (each with its files), `slurm` and `takes`, which says how long.

    GUIDs that are not on record are made, as for a fabric not yet there.
    `slurm` has the tree, and with NVLink domains `blocks`, which only a slurmctld from 24.05 on can take.
    """
    work = planned(cluster)
    work = replace(work, plan=simulated_plan(work.plan))
    version = slurm_version or cluster.slurm.version
    found = topologies(cluster, work.plan, version)
    planes = []
    for plane in work.plan.planes if work.plan.technology == INFINIBAND else []:
        files = opensm_files(work, plane)
        files.pop(LEFT_OUT, None)
        planes.append({"plane": plane, "files": files})
    shown = {name: list(values) for name, values in slurm_topology.shown(found.tree).items()}
    slurm: dict[str, Any] = {
        "topology": slurm_topology.conf(found.tree, version),
        "shown": shown,
        "options": found.tree.options,
    }
    if found.blocks:
        members = {name: fold(nodes) for name, nodes in found.blocks.blocks.items()}
        text = slurm_topology.conf(found.blocks, version)
        slurm["blocks"] = {"topology": text, "shown": members, "options": found.blocks.options}
    return {"plan": to_data(work.plan), "planes": planes, "slurm": slurm, "takes": takes(work.plan)}


def takes(plan: Plan) -> str:
    """Return how much is simulated and about how long that takes: 1,024 HCAs take 4 s, and each way from leaf to HCA is walked."""
    if plan.technology != INFINIBAND:
        return "slurmctld reads the topology; this takes some seconds"
    count = Counter(hca.plane for hca in plan.hcas.values())
    seconds = sum(4 * (hcas / 1024) ** 2 for hcas in count.values())
    known = "some seconds" if seconds < 10 else f"about {_rounded(seconds)}, and twice that on busy cores"
    return f"OpenSM is at work on {len(plan.hcas)} HCAs and {len(plan.switches)} switches that ibsim makes; this takes {known}"


def _rounded(seconds: float) -> str:
    return f"{math.ceil(seconds / 10) * 10} s" if seconds < 90 else f"{math.ceil(seconds / 60)} minutes"
