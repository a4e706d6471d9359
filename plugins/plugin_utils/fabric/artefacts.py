# SPDX-License-Identifier: GPL-3.0-or-later
"""All files that follow from the plan of a fabric: for Slurm, OpenSM, ibsim, those who lay cables, and those who look.

What is wrong with the plan ends it before there is any file. What only lacks GUIDs, as before delivery, is left out and told of.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import cables, netfile, opensm, slurm_topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.bulk import bulk
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.checks import (
    OF_FILES,
    RULES,
    WITHOUT_CABLES,
    check,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.compare import comparison
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import ordered
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import (
    STORAGE,
    Plan,
    Problem,
    SubnetManager,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import QOS, Choices, engines_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import options as opensm_options
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import text_of as options_text
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.page import as_json, junit, page
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.partitions import text_of as partitions_text
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.picture import picture
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_topology import Topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import TemplateError
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.tiers import Branch
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.view import Beside
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster

from . import record
from .mistakes import told
from .plan import plan_of
from .topologies import SEVERAL, topologies

INFINIBAND = "infiniband"
# The file of a plane that says which files are not there, and why.
LEFT_OUT = "left-out.txt"
_HIGHEST = 15


class PlanError(ValueError):
    """A plan that would make no working fabric, with every mistake on a line of its own."""


@dataclass
class Planned:
    """A plan with the GUIDs on record and its subnet managers, what is odd in it, and what could not be planned."""

    cluster: Cluster
    plan: Plan
    warnings: list[Finding] = field(default_factory=list)
    # Plane -> what is said of its subnet managers.
    managers: dict[str, list[str]] = field(default_factory=dict)


def planned(cluster: Cluster) -> Planned:
    """Return the checked plan; PlanError names all mistakes, those of the record of GUIDs among them."""
    wrong: list[str] = []
    known: record.Record = {}
    try:
        known = record.read(record.path_of(cluster.path))
    except record.RecordError as error:
        wrong = str(error).split("\n")
    try:
        plan = record.with_record(plan_of(cluster), known)
    except TemplateError as error:
        problems = check(error.plan, names=RULES if error.whole else WITHOUT_CABLES) if error.plan else []
        raise PlanError("\n".join([str(error), *told(cluster, filter(_is_error, problems)), *wrong])) from None
    notes: dict[str, list[str]] = {}
    if not plan.managers and plan.technology == INFINIBAND:
        plan.managers, notes = _managers(cluster, plan)
    return Planned(cluster, plan, _checked(cluster, plan, wrong=wrong), notes)


def _checked(cluster: Cluster, plan: Plan, beside: Beside | None = None, wrong: Sequence[str] = ()) -> list[Finding]:
    """Return what is odd in a plan and what is written of it; PlanError names all that is wrong."""
    problems = check(plan) if beside is None else check(plan, beside, OF_FILES)
    if lines := [*told(cluster, filter(_is_error, problems)), *wrong]:
        raise PlanError("\n".join(lines))
    return [Finding("plan", one.where, "", f"{one.text} [{one.rule}]", severity=WARNING) for one in problems]


def _is_error(problem: Problem) -> bool:
    return problem.severity == "error"


def _managers(cluster: Cluster, plan: Plan) -> tuple[list[SubnetManager], dict[str, list[str]]]:
    """Return the SMs of every plane, the first host of `subnet_managers` as master, and what is to be said of planes without."""
    found, notes = [], {}
    wanted = cluster.services.subnet_managers
    for plane in plan.planes:
        there: dict[str, str] = {}
        for hca in plan.hcas.values():
            if hca.plane == plane:
                there.setdefault(hca.host, hca.name)
        found += [
            SubnetManager(there[host], max(0, _HIGHEST - number)) for number, host in enumerate(wanted) if host in there
        ]
        if not wanted:
            notes[plane] = ["the cluster file names no services.subnet_managers"]
        elif without := [host for host in wanted if host not in there]:
            text = f"{', '.join(without)} of services.subnet_managers has no HCA in this plane of the plan"
            notes[plane] = [f"{text}; state its `nics` under `hosts`, or, for a node of a rack, in its profile"]
    return found, notes


@bulk
def artefacts(
    cluster: Cluster, slurm_version: str | None = None, discoveries: Mapping[str, Discovery] | None = None
) -> dict[str, str]:
    """Return name -> text of all files of a cluster's fabric, in the same order and of the same text each time.

    `slurm_version` is by default the cluster file's. With `discoveries` (plane or any name -> discovery) the picture and the page show
    what differs, and findings.json and findings.xml hold it. Raises what `planned` raises, and TopologyError for a wrong version.
    """
    return files_of(planned(cluster), slurm_version, discoveries)


@bulk
def files_of(
    work: Planned, slurm_version: str | None = None, discoveries: Mapping[str, Discovery] | None = None
) -> dict[str, str]:
    """Return what `artefacts` does, of a plan that is there already."""
    return written(work, slurm_version, discoveries)[0]


@bulk
def written(
    work: Planned, slurm_version: str | None = None, discoveries: Mapping[str, Discovery] | None = None
) -> tuple[dict[str, str], list[Finding]]:
    """Return the files, and what is odd in the plan or not known of it."""
    cluster, plan = work.cluster, work.plan
    version = slurm_version or cluster.slurm.version
    slurm = topologies(cluster, plan, version)
    found = slurm_files(slurm.named, version)
    of_planes: dict[str, dict[str, str]] = {}
    if plan.technology == INFINIBAND:
        for plane in plan.planes:
            of_planes[plane] = opensm_files(work, plane)
            found |= {f"opensm/{directory(plane)}/{name}": text for name, text in of_planes[plane].items()}
            found[f"ibsim/{directory(plane)}.net"] = netfile.netfile(plan, plane=plane)
    beside = Beside(files=of_planes, topology=slurm.tree, nodes=[node.name for node in cluster.nodes])
    odd = _checked(cluster, plan, beside)
    if slurm.blocks:
        of_blocks = [host for domain in plan.domains for host in domain.hosts]
        odd += _checked(cluster, plan, Beside(topology=slurm.blocks, nodes=of_blocks))
    where = places(cluster)
    rows = cables.rows(plan, where)
    if lacking := cables.unmeasured(plan, rows, where):
        odd.append(Finding("plan", "cabling.csv", "", f"of {len(rows)} cables {lacking[0]}", lacking[1], NOTICE))
    told = ordered(dict.fromkeys([*work.warnings, *odd, *slurm.findings]))
    return found | _shown(plan, rows, told, discoveries, slurm.tree.branches), told


def summary(plan: Plan, findings: Sequence[Finding]) -> str:
    """Return in a line what was planned."""
    cabled = sum(1 for _ in plan.present)
    text = f"{plan.name}: {plan.kind}, {len(plan.switches)} switches, {len(plan.hcas)} HCAs, {cabled} cables"
    return text + ("" if findings else "; nothing is odd in the plan")


def slurm_files(named: Mapping[str, Topology], version: str) -> dict[str, str]:
    """Return Slurm's files of topologies by name, the first for all partitions that name none; TopologyError for what a version lacks.

    topology.conf holds the first alone.
    """
    first = next(iter(named.values()))
    found = {"slurm/topology.conf": _head(first) + slurm_topology.conf(first, version)}
    if slurm_topology.release(version) >= SEVERAL:
        found["slurm/topology.yaml"] = slurm_topology.yaml(named, version)
    return found


def _head(topology: Topology) -> str:
    """Return the comment that says which options of slurm.conf go with the file."""
    return "".join(f"# slurm.conf: {name}={value}\n" for name, value in topology.options.items())


def directory(plane: str) -> str:
    """Return the name of a plane as that of a directory; `fabric` for the only one.

    >>> directory(""), directory("rail 0/a")
    ('fabric', 'rail-0-a')
    """
    return re.sub(r"[^A-Za-z0-9_.-]", "-", plane).lstrip(".") or "fabric"


def opensm_files(work: Planned, plane: str) -> dict[str, str]:
    """Return OpenSM's files of a plane, and the file that says which are not there."""
    plan = work.plan
    qos = QOS if any(hca.purpose == STORAGE and hca.plane == plane for hca in plan.hcas.values()) else ()
    choices = Choices(qos=qos)
    writers = _writers(plan, plane, choices)
    managers = [one for one in plan.managers if plan.hcas[one.hca].plane == plane]
    for number, manager in enumerate(managers):
        host = plan.hcas[manager.hca].host
        name = f"opensm-{host}.conf" if number else opensm.OPTIONS
        writers[name] = lambda manager=manager: options_text(opensm_options(plan, manager, choices))  # type: ignore[misc]
    found, left = {}, list(work.managers.get(plane, []))
    for name, write in writers.items():
        try:
            found[name] = write()
        except ValueError as error:
            left += str(error).split("\n")
    if not managers:
        left.insert(0, f"{opensm.OPTIONS} needs a subnet manager:")
    if left:
        text = "# What is not here, and why. A run after the GUIDs are on record writes it.\n" + "\n".join(left)
        found[LEFT_OUT] = f"{text}\n"
    return found


def _writers(plan: Plan, plane: str, choices: Choices) -> dict[str, Callable[[], str]]:
    engines, hcas = set(engines_of(plan, plane)), opensm.leaf_major(plan, plane)
    writers: dict[str, Callable[[], str]] = {}
    if engines & {"ftree", "updn"}:
        writers[opensm.ROOTS] = lambda: opensm.roots(plan, plane)
    if "ftree" in engines:
        writers[opensm.COMPUTE_LIST] = lambda: opensm.compute(plan, plane, hcas)
    writers[opensm.ORDER] = lambda: opensm.order(plan, plane, hcas)
    writers[opensm.NAMES] = lambda: opensm.node_names(plan, plane)
    writers[opensm.PARTITIONS] = lambda: partitions_text(plan, plane)
    if choices.qos:
        writers[opensm.POLICY] = lambda: opensm.policy(plan, choices, plane)
    return writers


def _shown(
    plan: Plan,
    rows: list[cables.Row],
    findings: list[Finding],
    discoveries: Mapping[str, Discovery] | None,
    branches: Sequence[Branch] | None,
) -> dict[str, str]:
    """Return what is for people: cabling, picture and page; with a comparison also its findings for machines."""
    ok, found = None, {}
    if discoveries is not None:
        compared = comparison(plan, discoveries)
        findings, ok = compared.findings, len(compared.ok)
        found = {"findings.json": as_json(plan, findings, ok=ok), "findings.xml": junit(plan, findings)}
    drawn = picture(plan, findings, compared=discoveries is not None, branches=branches)
    return {
        "cabling.csv": cables.as_csv(rows),
        "cables-bill.csv": cables.as_csv(cables.bill(plan, rows), cables.Item),
        "fabric.svg": drawn,
        "fabric.html": page(plan, findings, rows, ok=ok, drawn=drawn),
        **found,
    }


def places(cluster: Cluster) -> dict[str, tuple[str, int]]:
    """Return rack -> row and column, for racks of which both are stated."""
    return {
        rack.name: (rack.row, rack.column) for rack in cluster.racks.values() if rack.row and rack.column is not None
    }


def entries(files: Mapping[str, str], target: str) -> list[dict[str, str]]:
    """Return files (name -> text) as entries of bedplate.cluster.files below a directory."""
    return [{"path": f"{target.rstrip('/')}/{name}", "content": text} for name, text in sorted(files.items())]
