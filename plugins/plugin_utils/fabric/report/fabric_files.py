# SPDX-License-Identifier: GPL-3.0-or-later
"""All files that follow from the plan of a fabric: for Slurm, OpenSM, ibsim, installers of cables, and readers.

What is wrong with the plan ends it before there is any file. What only lacks GUIDs, as before delivery, is left out and named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.gc_pause import suspend_collection

from ...cluster import Cluster
from ..core.fabric_model import INFINIBAND, Plan
from ..core.places import ordered
from ..opensm.plane_files import directory, opensm_files
from ..plan.checked_plan import Planned, warnings_of
from ..plan.checks import check_topology
from ..simulate import netfile
from ..topology.planned_topologies import Topologies, slurm_files, topologies
from . import cable_list
from .page import page
from .svg import picture


@suspend_collection
def written(work: Planned, slurm_version: str | None = None) -> tuple[dict[str, str], list[Finding]]:
    """Return name -> text of all files of a fabric, in the same order and of the same text each time, and the warnings about its plan.

    `slurm_version` is by default the cluster file's. Raises PlanError, and TopologyError for a wrong version.
    """
    cluster, plan = work.cluster, work.plan
    version = slurm_version or cluster.slurm.version
    # Slurm has the topology of the first fabric.
    slurm = topologies(cluster, plan, version) if cluster.stated.first else None
    found = slurm_files(slurm.named, version) if slurm else {}
    if plan.technology == INFINIBAND:
        for plane in plan.planes:
            at = directory(plane, plan.part)
            found |= {f"opensm/{at}/{name}": text for name, text in opensm_files(work, plane).items()}
            found[f"ibsim/{at}.net"] = netfile.netfile(plan, plane=plane)
    odd = _of_slurm(cluster, plan, slurm) if slurm else []
    where = places(cluster)
    rows = cable_list.rows(plan, where)
    if lacking := cable_list.unmeasured(plan, rows, where):
        odd.append(Finding("plan", "cabling.csv", "", f"of {len(rows)} cables {lacking[0]}", lacking[1], NOTICE))
    findings = cluster.stated.findings(ordered(dict.fromkeys([*work.warnings, *odd])))
    drawn = picture(plan, findings, compared=False, branches=slurm.tree.branches if slurm else None)
    return found | {
        "cabling.csv": cable_list.as_csv(rows),
        "cables-bill.csv": cable_list.as_csv(cable_list.bill(plan, rows), cable_list.Item),
        "fabric.svg": drawn,
        "fabric.html": page(plan, findings, rows, drawn=drawn),
    }, findings


def _of_slurm(cluster: Cluster, plan: Plan, slurm: Topologies) -> list[Finding]:
    """Return the findings of Slurm's topologies."""
    odd = warnings_of(cluster, check_topology(plan, slurm.tree, [node.name for node in cluster.nodes]))
    if slurm.blocks:
        left_out = {node for nodes in slurm.blocks.left_out.values() for node in nodes}
        of_blocks = [host for domain in plan.domains for host in domain.hosts if host not in left_out]
        odd += warnings_of(cluster, check_topology(plan, slurm.blocks, of_blocks))
    return [*odd, *slurm.findings]


def summary(plan: Plan, findings: Sequence[Finding]) -> str:
    """Return in a line what was planned."""
    cabled = sum(1 for _unused in plan.present)
    text = f"{plan.name}: {plan.kind}, {len(plan.switches)} switches, {len(plan.hcas)} HCAs, {cabled} cables"
    return text + ("" if findings else "; no warnings about the plan")


def places(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Return rack -> row and column, for racks with both."""
    return {
        rack.name: (rack.row, rack.column) for rack in cluster.racks.values() if rack.row and rack.column is not None
    }


def entries(files: Mapping[str, str], target: str) -> list[dict[str, str]]:
    """Return files (name -> text) as entries of bedplate.cluster.files below a directory."""
    return [{"path": f"{target.rstrip('/')}/{name}", "content": text} for name, text in sorted(files.items())]
