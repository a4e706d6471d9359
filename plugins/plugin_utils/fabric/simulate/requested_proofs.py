# SPDX-License-Identifier: GPL-3.0-or-later
"""The proofs of a cluster file's fabric: what is proved of OpenSM's files and of Slurm's topology, how long it takes, the outcome."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold

from ...cluster import Cluster
from ..core.fabric_model import INFINIBAND, Plan
from ..opensm.managers import files_of_masters, managed_fabrics, master_files
from ..opensm.plane_files import LEFT_OUT, opensm_files
from ..plan.checked_plan import planned
from ..topology import slurm_topology
from ..topology.planned_topologies import topologies
from .engine_trials import Trial
from .proved_cables import cables_digest
from .routing_proof import RoutingProof, prove
from .simulated_fabric import simulated_plan
from .slurm_proof import prove_blocks, prove_topology

# Seconds that a tool may take, and for how many HCAs it has one more: ibdmchk has taken some 15 minutes for 8,192 HCAs on two cores.
_SECONDS, _HCAS = 300, 4


@dataclass(frozen=True)
class SlurmProof:
    """A topology.conf, slurmctld's expected report of it, and its options of slurm.conf."""

    topology: str
    shown: Mapping[str, Any]
    options: Mapping[str, str]


@dataclass(frozen=True)
class RequestedProof:
    """A plan, OpenSM's files of each plane that is routed, and Slurm's tree and blocks where they are proved."""

    plan: Plan
    files: Mapping[str, Mapping[str, str]]
    tree: SlurmProof | None = None
    # Only a slurmctld from 24.05 on can take them.
    blocks: SlurmProof | None = None

    @property
    def seconds(self) -> int:
        """Return how long a tool may take unless stated."""
        return _SECONDS + len(self.plan.hcas) // _HCAS


@dataclass
class ProofReport:
    """All findings, OpenSM's result for each plane, and a line for each part that was proved."""

    findings: list[Finding] = field(default_factory=list)
    planes: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


def of_plan(
    cluster: Cluster, slurm_version: str | None = None, choices: Mapping[str, Any] | None = None
) -> RequestedProof:
    """Return the proof of the planned fabric, with the files that the role `opensm` deploys with its variables `choices`.

    GUIDs that are not on record are made, as for a fabric not yet there; a plane without a subnet manager has the files that
    playbooks/fabric.yml writes. Raises PlanError, TopologyError for a wrong version, and what `files_of_masters` raises.
    """
    work = planned(cluster)
    work = replace(work, plan=simulated_plan(work.plan))
    version = slurm_version or cluster.slurm.version
    files = {plane: opensm_files(work, plane) for plane in work.plan.planes if work.plan.technology == INFINIBAND}
    files |= files_of_masters(cluster, work.plan, choices or {}) if files else {}
    for one in files.values():
        one.pop(LEFT_OUT, None)
    if not cluster.stated.first:
        return RequestedProof(work.plan, files)
    found = topologies(cluster, work.plan, version)
    tree = SlurmProof(slurm_topology.conf(found.tree, version), slurm_topology.shown(found.tree), found.tree.options)
    blocks = None
    if found.blocks:
        members = {name: fold(nodes) for name, nodes in found.blocks.blocks.items()}
        blocks = SlurmProof(slurm_topology.conf(found.blocks, version), members, found.blocks.options)
    return RequestedProof(work.plan, files, tree, blocks)


def of_managers(cluster: Cluster, choices: Mapping[str, Any]) -> list[RequestedProof]:
    """Return the proofs of the masters' files of all fabrics as the role `opensm` deploys them with its variables.

    Raises what `master_files` raises.
    """
    return [RequestedProof(*master_files(view, choices)) for view in managed_fabrics(cluster)]


def run_all(requests: Sequence[RequestedProof], seconds: float | None = None) -> ProofReport:
    """Run the proofs one after the other; `seconds` is by default that of each."""
    report = ProofReport()
    for request in requests:
        one = run(request, seconds or request.seconds)
        report.findings += one.findings
        report.planes += one.planes
        report.lines += one.lines
    return report


def run(request: RequestedProof, seconds: float) -> ProofReport:
    """Simulate the planes, and let slurmctld read the topology; each tool may take so many seconds."""
    report = ProofReport()
    for plane, files in request.files.items():
        proof = prove(request.plan, plane, files, seconds=seconds)
        report.findings += [one for one in proof.findings if one not in report.findings]
        part = request.plan.part
        report.planes.append(
            {**({"fabric": part} if part else {}), "cables": cables_digest(request.plan, plane), **_facts(plane, proof)}
        )
        label = " ".join(filter(None, (part, plane)))
        report.lines.append(f"{label}: {proof.summary}" if label else proof.summary)
    if tree := request.tree:
        report.findings += prove_topology(tree.topology, tree.shown, tree.options, seconds)
        report.lines.append("slurmctld takes the topology")
    if blocks := request.blocks:
        wrong, line = prove_blocks(blocks.topology, blocks.shown, blocks.options, seconds)
        report.findings += wrong
        report.lines += [line] if line else []
    return report


def _facts(plane: str, proof: RoutingProof) -> dict[str, Any]:
    """Return OpenSM's result for a plane."""
    found: dict[str, Any] = {"plane": plane, "engine": proof.engine}
    if metrics := proof.metrics:
        found |= {"hcas": metrics.hcas, "switches": metrics.switches, "imbalance": round(metrics.imbalance, 3)}
        found |= {"unreachable": metrics.unreachable, "idle": len(metrics.idle)}
        found |= {"busiest": metrics.most, "least": proof.bound}
    if proof.trials:
        found["trials"] = [_trial(one) for one in proof.trials]
    return found


def _trial(one: Trial) -> dict[str, Any]:
    """Return another engine's result."""
    known: dict[str, Any] = {"engine": one.engine, "options": dict(one.options), "obstacle": one.obstacle}
    return {**known, "busiest": one.most, "imbalance": round(one.imbalance, 3)}


def duration(plan: Plan) -> str:
    """Return how much is simulated and about how long that takes: 1,024 HCAs take 4 s, and each way from leaf to HCA is walked."""
    if plan.technology != INFINIBAND:
        return "slurmctld reads the topology; this takes some seconds"
    count = Counter(hca.plane for hca in plan.hcas.values())
    seconds = sum(4 * (hcas / 1024) ** 2 for hcas in count.values())
    known = "some seconds" if seconds < 10 else f"about {_rounded(seconds)}, and twice that on busy cores"
    return f"OpenSM is at work on {len(plan.hcas)} HCAs and {len(plan.switches)} switches that ibsim makes; this takes {known}"


def _rounded(seconds: float) -> str:
    return f"{math.ceil(seconds / 10) * 10} s" if seconds < 90 else f"{math.ceil(seconds / 60)} minutes"
