# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a cluster file with the GUIDs on record and its subnet managers, checked: a wrong plan is an error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding

from ...cluster import Cluster
from ..core import guid_record
from ..core.fabric_model import INFINIBAND, Plan, PlanProblem, SubnetManager
from .checks import RULES, WITHOUT_CABLES, check
from .cluster_plan import plan_of
from .plan_mistakes import mistake_lines
from .templates import TemplateError

# Priority of the master.
_HIGHEST = 15


class PlanError(ValueError):
    """A plan that would not make a working fabric, with one mistake a line."""


@dataclass
class Planned:
    """A plan with the GUIDs on record and its subnet managers, its warnings, and its unplanned parts."""

    cluster: Cluster
    plan: Plan
    warnings: list[Finding] = field(default_factory=list)
    # Plane -> what is said of its subnet managers.
    managers: dict[str, list[str]] = field(default_factory=dict)


def planned(cluster: Cluster) -> Planned:
    """Return the checked plan; PlanError names all mistakes, also of the record of GUIDs."""
    wrong: list[str] = []
    known: guid_record.Record = {}
    try:
        known = guid_record.read(guid_record.path_of(cluster.path, cluster.stated.part))
    except guid_record.RecordError as error:
        wrong = str(error).split("\n")
    try:
        plan = guid_record.with_record(plan_of(cluster), known)
    except TemplateError as error:
        problems = check(error.plan, names=RULES if error.whole else WITHOUT_CABLES) if error.plan else []
        raise PlanError("\n".join([str(error), *mistake_lines(cluster, filter(_is_error, problems)), *wrong])) from None
    notes: dict[str, list[str]] = {}
    if not plan.managers and plan.technology == INFINIBAND:
        plan.managers, notes = _managers(cluster, plan)
    return Planned(cluster, plan, warnings_of(cluster, check(plan), wrong), notes)


def warnings_of(cluster: Cluster, problems: Iterable[PlanProblem], wrong: Sequence[str] = ()) -> list[Finding]:
    """Return the warnings among problems; PlanError names all errors, and what else is `wrong`."""
    problems = list(problems)
    if lines := [*mistake_lines(cluster, filter(_is_error, problems)), *wrong]:
        raise PlanError("\n".join(lines))
    found = [Finding("plan", one.where, "", f"{one.text} [{one.rule}]", severity=WARNING) for one in problems]
    return cluster.stated.findings(found)


def _is_error(problem: PlanProblem) -> bool:
    return problem.severity == "error"


def _managers(cluster: Cluster, plan: Plan) -> tuple[list[SubnetManager], dict[str, list[str]]]:
    """Return the SMs of every plane, the first host of `subnet_managers` as master, and messages about planes without one."""
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
            notes[plane] = [cluster.stated.text("the cluster file names no services.subnet_managers")]
        elif without := [host for host in wanted if host not in there]:
            text = f"{', '.join(without)} of services.subnet_managers has no HCA in this plane of the plan"
            text = cluster.stated.text(text)
            notes[plane] = [f"{text}; state its `nics` under `hosts`, or, for a node of a rack, in its profile"]
    return found, notes
