# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a working fabric can be built as the cluster file says; asked before any machine is touched."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from .artefacts import INFINIBAND, planned


def mistakes(cluster: Cluster) -> list[str]:
    """Return what is wrong with the plan of the fabric and its subnet managers; [] where none is stated."""
    if cluster.fabric is None or not any(node.profile.nics for node in cluster.nodes):
        return _without_plan(cluster)
    try:
        plan = planned(cluster).plan
    except ValueError as error:
        return str(error).split("\n")
    return _managers(cluster, plan)


def _without_plan(cluster: Cluster) -> list[str]:
    if not cluster.services.subnet_managers:
        return []
    lacks = "there is no section `fabric`" if cluster.fabric is None else "no profile of a node has `nics`"
    return [
        f"{cluster.path}: services.subnet_managers is {', '.join(cluster.services.subnet_managers)}, and OpenSM's files cannot be made: "
        f"{lacks}. State the fabric, the `nics` of the nodes' profiles, and those of these hosts (hosts.NAME.nics; fabric.leaves names "
        "switches for such hosts alone), or take services.subnet_managers out, as where a switch manages the fabric"
    ]


def _managers(cluster: Cluster, plan: Plan) -> list[str]:
    wanted = cluster.services.subnet_managers
    if not wanted:
        return []
    if plan.technology != INFINIBAND:
        return [
            f"{cluster.path}: services.subnet_managers is {', '.join(wanted)}, and fabric.technology is {plan.technology}, which has no "
            "subnet managers: take services.subnet_managers out"
        ]
    there = {hca.host for hca in plan.hcas.values()}
    return [
        f"{cluster.path}: services.subnet_managers names {host}, which has no HCA in the plan, so OpenSM has no port there: state "
        f"hosts.{host}.nics (fabric.leaves names switches for such hosts alone) or, for a node of a rack, `nics` in its profile; or take "
        "it out"
        for host in wanted
        if host not in there
    ]
