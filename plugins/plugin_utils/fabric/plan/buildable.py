# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a working fabric can be built from the cluster file, before any machine is touched."""

from __future__ import annotations

from ...cluster import Cluster
from ...cluster.fabric_checks import in_fabric
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core.fabric_model import INFINIBAND
from .checked_plan import planned

_MANAGERS = ("services", "subnet_managers")


def fabric_mistakes(cluster: Cluster, needed: bool = False) -> list[str]:
    """Return the mistakes of the plan of the fabric and of its subnet managers.

    Where none is stated that is no mistake, unless the plan is `needed`.
    """
    stated = cluster.fabric is not None and any(node.profile.nics for node in cluster.nodes)
    wrong = MistakeCollector(cluster.path)
    if not stated:
        _without_plan(cluster, wrong)
    else:
        _managers(cluster, wrong)
    found = []
    if stated or needed:
        try:
            planned(cluster)
        except ValueError as error:
            found = str(error).split("\n")
    return [*found, *wrong.lines()]


def _without_plan(cluster: Cluster, wrong: MistakeCollector) -> None:
    if not cluster.services.subnet_managers:
        return
    lacks = "there is no section `fabric`" if cluster.fabric is None else "no profile of a node has `nics`"
    wrong.add(
        _MANAGERS,
        f"{', '.join(cluster.services.subnet_managers)} cannot run OpenSM, as its files cannot be made: {lacks}. State the fabric, the "
        "`nics` of the nodes' profiles, and of these hosts (hosts.NAME.nics; fabric.leaves names switches for such hosts alone), "
        "or take services.subnet_managers out, as where a switch manages the fabric",
    )


def _managers(cluster: Cluster, wrong: MistakeCollector) -> None:
    """Judge the subnet managers by the file alone, so that a plan with other mistakes hides no mistake of theirs."""
    wanted, fabric = cluster.services.subnet_managers, cluster.fabric
    if not wanted or fabric is None:
        return
    if fabric.technology != INFINIBAND:
        wrong.add(
            _MANAGERS,
            f"{', '.join(wanted)}: fabric.technology is {fabric.technology}, which has no subnet managers. Take them out",
        )
        return
    there = {node.name for node in cluster.nodes if in_fabric(node.profile, fabric.kind)}
    there |= {host.name for host in cluster.hosts.values() if host.nics}
    for number, host in enumerate(wanted):
        if host not in there:
            wrong.add(
                (*_MANAGERS, number),
                f"{host} has no HCA in the plan, so OpenSM has no port there: state hosts.{host}.nics (fabric.leaves names switches for "
                "such hosts alone) or, for a node of a rack, `nics` in its profile; or take it out",
            )
