# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what subnet managers report with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

from ..cluster import Cluster
from ..fabric.core.places import counted, ordered
from ..fabric.opensm import managers
from ..fabric.opensm.manager_drift import PlannedManagers, manager_findings


def verdict(cluster: Cluster, results: Mapping[str, Mapping[str, Any]]) -> tuple[list[Finding], str]:
    """Return the findings of all subnet managers, and the lines to print without findings.

    `results` are those of bedplate.cluster.node_state by host, unreachable ones too.
    """
    told = {host: result.get("opensm") or {"unreachable": True} for host, result in results.items()}
    choices: dict[str, Any] = next((one["choices"] for one in told.values() if "choices" in one), {})
    try:
        findings, summary = compared(cluster, told, choices)
    except (KeyError, ValueError) as error:
        raise AnsibleFilterError(f"opensm_verdict: {error.args[0]}") from None
    return [replace(one, kind=f"opensm-{one.kind}") for one in findings], summary


def compared(cluster: Cluster, told: Mapping[str, Any], choices: Mapping[str, Any]) -> tuple[list[Finding], str]:
    """Return all differences, the gravest first, and a summary; `told` is host -> result of bedplate.cluster.opensm_facts.

    ValueError: the plan or the choices cannot be.
    """
    planned: list[PlannedManagers] = []
    findings: list[Finding] = []
    for view in managers.managed_fabrics(cluster):
        plan = managers.infiniband_plan(view)
        planned += managers.planned_managers(view, choices, plan)
        findings += managers.missing_managers(view, plan)
    why = {host: text for host, result in told.items() if (text := _failure(result))}
    lines = []
    for plane in planned:
        found = manager_findings(plane, {host: _of(plane.plane, result) for host, result in told.items()}, why)
        findings += found
        if not found:
            lines.append(_line(plane, told))
    if left := [host for host in cluster.services.subnet_managers if host not in told]:
        lines.append(f"not part of this run: {', '.join(left)}")
    listed = ordered(findings)
    if listed:
        lines = [f"{counted(len(listed), 'finding')} on the subnet managers", *(lines[-1:] if left else [])]
    return listed, "; ".join(lines)


def _line(plane: PlannedManagers, told: Mapping[str, Any]) -> str:
    """Return the line about a plane that is as planned, as far as it was read."""
    master, *standbys = plane.managers
    if not {one.host for one in plane.managers} & set(told):
        return f"{plane.name}: no subnet manager was part of this run"
    engine = f" with {plane.engine}" if master.host in told else ""
    return f"{plane.name}: {master.hca} is master{engine}, {len(standbys)} standby"


def _failure(result: object) -> str:
    """Return the module's error on a host; "" if it did not fail, or the host was not reached."""
    failed = isinstance(result, Mapping) and result.get("failed") and not result.get("unreachable")
    return str(result.get("msg") or "") if failed and isinstance(result, Mapping) else ""


def _of(plane: str, result: object) -> Mapping[str, Any] | None:
    """Return the facts of a plane of what opensm_facts returned on a host; None where it returned nothing."""
    planes = result.get("planes") if isinstance(result, Mapping) else None
    return next((facts for facts in planes or () if facts["plane"] == plane), None)
