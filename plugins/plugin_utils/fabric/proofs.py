# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be proved of the fabric of a cluster file: each plane with OpenSM's files for it, and Slurm's topology."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import slurm_topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.plan_data import to_data
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.simulation import simulated_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from .artefacts import INFINIBAND, LEFT_OUT, opensm_files, planned


def proofs(cluster: Cluster, slurm_version: str | None = None) -> dict[str, Any]:
    """Return `plan`, `planes` (each with its files) and `slurm`. GUIDs that are not on record are made, as for a fabric not yet there."""
    work = planned(cluster)
    work = replace(work, plan=simulated_plan(work.plan))
    top = cluster.fabric.top if cluster.fabric else "top"
    topology = slurm_topology.tree(work.plan, nodes=[node.name for node in cluster.nodes], top=top)
    planes = []
    for plane in work.plan.planes if work.plan.technology == INFINIBAND else []:
        files = opensm_files(work, plane)
        files.pop(LEFT_OUT, None)
        planes.append({"plane": plane, "files": files})
    version = slurm_version or cluster.slurm.version
    shown = {name: list(values) for name, values in slurm_topology.shown(topology).items()}
    slurm = {"topology": slurm_topology.conf(topology, version), "shown": shown, "options": topology.options}
    return {"plan": to_data(work.plan), "planes": planes, "slurm": slurm}
