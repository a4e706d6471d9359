# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to be proved of the fabric of a cluster file: each plane with OpenSM's files for it, and Slurm's topology."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import slurm_topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.plan_data import to_data
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.simulation import simulated_plan
from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from .artefacts import INFINIBAND, LEFT_OUT, opensm_files, planned
from .topologies import topologies


def proofs(cluster: Cluster, slurm_version: str | None = None) -> dict[str, Any]:
    """Return `plan`, `planes` (each with its files) and `slurm`. GUIDs that are not on record are made, as for a fabric not yet there.

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
    return {"plan": to_data(work.plan), "planes": planes, "slurm": slurm}
