# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The subnet managers of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import counted, ordered
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_judge import Wanted, judge
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import compared, managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import cluster_of

Choices = Mapping[str, Any]


@contextmanager
def _said(name: str) -> Iterator[None]:
    """Turn what is wrong with a plan or a choice into the filter's error."""
    try:
        yield
    except ValueError as error:
        raise AnsibleFilterError(f"{name}: {error}") from None


def opensm_files(path: object, host: str, choices: Choices | None = None) -> list[dict[str, Any]]:
    """Return OpenSM's files of a host, as entries of bedplate.cluster.files."""
    cluster = cluster_of(path, "opensm_files")
    with _said("opensm_files"):
        return managers.files(cluster, host, choices or {})


def opensm_units(
    path: object,
    host: str,
    choices: Choices | None = None,
    drop_ins: Mapping[str, str] | None = None,
    enabled: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return the units of a host, as bedplate.cluster.units takes them."""
    cluster = cluster_of(path, "opensm_units")
    with _said("opensm_units"):
        return managers.units(cluster, host, choices or {}, drop_ins or {}, enabled)


def opensm_proof(path: object, choices: Choices | None = None) -> dict[str, Any]:
    """Return what is to be proved before OpenSM's files may land."""
    cluster = cluster_of(path, "opensm_proof")
    with _said("opensm_proof"):
        return managers.proof(cluster, choices or {})


def opensm_asked(path: object, host: str, choices: Choices | None = None) -> list[dict[str, Any]]:
    """Return what to ask a host for."""
    cluster = cluster_of(path, "opensm_asked")
    with _said("opensm_asked"):
        return managers.asked(cluster, host, choices or {})


def opensm_verdict(path: object, told: Mapping[str, Any], choices: Choices | None = None) -> dict[str, Any]:
    """Return the comparison of what hosts told with the plan."""
    cluster = cluster_of(path, "opensm_verdict")
    with _said("opensm_verdict"):
        plan = managers.plan_of(cluster)
        wanted = managers.wanted(cluster, choices or {}, plan)
        findings = managers.absent(cluster, plan)
    why = {host: text for host, result in told.items() if (text := _failure(result))}
    lines = []
    for plane in wanted:
        found = judge(plane, {host: _of(plane.plane, result) for host, result in told.items()}, why)
        findings += found
        if not found:
            lines.append(_line(plane, told))
    if left := [host for host in cluster.services.subnet_managers if host not in told]:
        lines.append(f"not asked in this run: {', '.join(left)}")
    listed = ordered(findings)
    if listed:
        lines = [f"{counted(len(listed), 'finding')} on the subnet managers", *(lines[-1:] if left else [])]
    summary = "; ".join(lines)
    failed = any(one.severity == ERROR for one in listed)
    return {
        "failed": failed,
        "summary": summary,
        "table": compared.table(listed, summary),
        "findings": to_json(listed),
    }


def _line(plane: Wanted, told: Mapping[str, Any]) -> str:
    """Return what to say of a plane that is as planned, as far as it was asked."""
    master, *standbys = plane.managers
    if not {one.host for one in plane.managers} & set(told):
        return f"{plane.name}: nobody was asked"
    engine = f" with {plane.engine}" if master.host in told else ""
    return f"{plane.name}: {master.hca} is master{engine}, {len(standbys)} standby"


def _failure(result: object) -> str:
    """Return what the module said of its failure on a host; "" where it did not fail, or the host was not reached."""
    failed = isinstance(result, Mapping) and result.get("failed") and not result.get("unreachable")
    return str(result.get("msg") or "") if failed and isinstance(result, Mapping) else ""


def _of(plane: str, result: object) -> Mapping[str, Any] | None:
    """Return the facts of a plane of what opensm_facts returned on a host; None where it returned nothing."""
    planes = result.get("planes") if isinstance(result, Mapping) else None
    return next((facts for facts in planes or () if facts["plane"] == plane), None)


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {
            "opensm_files": opensm_files,
            "opensm_units": opensm_units,
            "opensm_proof": opensm_proof,
            "opensm_asked": opensm_asked,
            "opensm_verdict": opensm_verdict,
        }
