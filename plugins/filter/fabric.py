# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The fabric of the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    LldpSettings,
    SavedError,
    ToolOutput,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import (
    chosen_fabrics,
    running_routes,
    variable_values,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt import adoption
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import ordered, worst
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report import fabric_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.finding_table import table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import requested_proofs
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of

Discoveries = Iterable[Mapping[str, Any]]


@contextmanager
def _filter_error(name: str) -> Iterator[None]:
    """Turn the mistakes of a plan or a discovery into the filter's error."""
    try:
        yield
    except (ValueError, re.error) as error:
        raise AnsibleFilterError(f"{name}: {error}") from None


def _view_of(path: object, name: str, fabric: str) -> Cluster:
    """Return the view of a fabric for the filter `name`, by default of the first."""
    try:
        return cluster_of(path, name).view(fabric)
    except KeyError as error:
        raise AnsibleFilterError(f"{name}: {error.args[0]}") from None


def _tool_outputs(discoveries: object, settings: LldpSettings | None = None) -> list[ToolOutput]:
    """Return the texts of what fabric_facts returned."""
    listed = discoveries if isinstance(discoveries, list | tuple) else [discoveries]
    found = []
    for one in listed:
        if not isinstance(one, Mapping) or not isinstance(one.get("text"), str):
            raise SavedError(
                f"{str(one)[:60]!r} is nothing that was discovered; allowed: `discoveries` of what fabric_facts returned"
            )
        found.append(ToolOutput(str(one.get("name", "")), str(one["text"]), settings or LldpSettings()))
    return found


def fabric_names(path: object, name: str = "", scope: str = chosen_fabrics.ALL) -> list[str]:
    """Return the names of the fabrics to work on."""
    cluster = cluster_of(path, "fabric_names")
    if scope not in chosen_fabrics.SCOPES:
        raise AnsibleFilterError(f"fabric_names: scope is {scope!r}; allowed: {', '.join(chosen_fabrics.SCOPES)}")
    with _filter_error("fabric_names"):
        return chosen_fabrics.chosen(cluster, name, scope)


def fabric_reads(
    path: object, names: Sequence[str], sources: object = None, saved: object = None
) -> dict[str, list[dict[str, Any]]]:
    """Return host -> what to read there of each fabric."""
    cluster = cluster_of(path, "fabric_reads")
    with _filter_error("fabric_reads"):
        return chosen_fabrics.reads(cluster, names, sources, saved)


def fabric_discoveries(answers: Iterable[object], fabric: str) -> list[Any]:
    """Return the discoveries of a fabric from the answers of all hosts."""
    return chosen_fabrics.discoveries(answers, fabric)


def fabric_artefacts(
    path: object, directory: str, slurm_version: str | None = None, fabric: str = ""
) -> dict[str, Any]:
    """Return the entries for bedplate.cluster.files, and the warnings about the plan."""
    cluster = _view_of(path, "fabric_artefacts", fabric)
    with _filter_error("fabric_artefacts"):
        work = planned(cluster)
        files, findings = fabric_files.written(work, slurm_version)
        shown = table(findings, fabric_files.summary(work.plan, findings))
        return {"files": fabric_files.entries(files, directory), "table": shown, "directory": directory}


def fabric_directory(path: object, directory: str = "", fabric: str = "") -> str:
    """Return where the files of a fabric go, as an absolute path."""
    if not isinstance(path, str):
        raise AnsibleFilterError(f"fabric_directory takes the path of a cluster file, not {path!r}")
    part = _view_of(path, "fabric_directory", fabric).stated.part if fabric else ""
    try:
        found = variable_values.directory_of(path, directory)
    except ValueError as error:
        raise AnsibleFilterError(f"fabric_directory: {error}.") from None
    return f"{found}/{part}" if part else found


def fabric_sources(path: object, fabric: str = "") -> list[dict[str, Any]]:
    """Return from which hosts to discover."""
    cluster = _view_of(path, "fabric_sources", fabric)
    with _filter_error("fabric_sources"):
        return comparison.discovery_sources(cluster)


def fabric_comparison(
    path: object,
    discoveries: Discoveries,
    directory: str = "",
    fail_on: str = "error",
    port_step: int = 1,
    port_dialect: str = "",
    roce_mtu: int = 0,
    fabric: str = "",
) -> dict[str, Any]:
    """Return the comparison of the plan with what was discovered."""
    cluster = _view_of(path, "fabric_comparison", fabric)
    if fail_on not in comparison.FATAL:
        raise AnsibleFilterError(f"fabric_comparison: fail_on is {fail_on!r}; allowed: {', '.join(comparison.FATAL)}")
    with _filter_error("fabric_comparison"):
        settings = LldpSettings(port_dialect, int(roce_mtu))
        outputs, last = _tool_outputs(discoveries, settings), _last_findings(directory)
        report = comparison.comparison_report(cluster, outputs, fail_on, int(port_step), last)
    guids = {"path": str(guid_record.path_of(cluster.path, cluster.stated.part)), "content": report.guids}
    return {
        **asdict(report), "files": fabric_files.entries(report.files, directory), "guids": guids, "directory": directory,
    }  # fmt: skip


def _last_findings(directory: str) -> str:
    """Return the findings.json of the last comparison; "" if it cannot be read."""
    try:
        return (Path(directory) / "findings.json").read_text(encoding="utf-8") if directory else ""
    except (OSError, UnicodeDecodeError):
        return ""


def fabric_discovered(
    path: object,
    discoveries: Discoveries,
    directory: str = "",
    slurm_version: str | None = None,
    fabric: str = "",
    **patterns: str,
) -> dict[str, Any]:
    """Return Slurm's topology of what was discovered."""
    cluster = _view_of(path, "fabric_discovered", fabric)
    allowed = ("host", "storage", "group")
    if unknown := sorted(set(patterns) - set(allowed)):
        raise AnsibleFilterError(
            f"fabric_discovered: unknown option {', '.join(unknown)}; allowed: {', '.join(allowed)}"
        )
    with _filter_error("fabric_discovered"):
        given = {name: str(pattern) for name, pattern in patterns.items() if pattern}
        found = comparison.discovered_topology(cluster, _tool_outputs(discoveries), slurm_version, **given)
    return {**asdict(found), "files": fabric_files.entries(found.files, directory)}


def fabric_routes(path: object, discoveries: Discoveries, directory: str = "", fabric: str = "") -> dict[str, Any]:
    """Return the judgement of the routes in force."""
    cluster = _view_of(path, "fabric_routes", fabric)
    with _filter_error("fabric_routes"):
        proved = running_routes.proved_of(Path(directory) / running_routes.PROVED) if directory else {}
        found = running_routes.running_routes(planned(cluster).plan, _tool_outputs(discoveries), proved)
    shown = table(ordered(found.findings), "; ".join(found.lines))
    gravest = worst(found.findings)
    return {"table": shown, "worst": gravest, "failed": gravest == ERROR, "findings": to_json(found.findings)}


def fabric_adoption(
    path: object, discoveries: Discoveries, update: str = "", port_step: int = 1, fabric: str = ""
) -> dict[str, Any]:
    """Return what adopting the discovered fabric writes, and its findings."""
    cluster = _view_of(path, "fabric_adoption", fabric)
    if update not in ("", variable_values.UPDATE):
        raise AnsibleFilterError(f"fabric_adoption: update is {update!r}; allowed: {variable_values.UPDATE}")
    with _filter_error("fabric_adoption"):
        found = adoption.adoption(cluster, _tool_outputs(discoveries), bool(update), int(port_step))
    files = [{"path": name, "content": text} for name, text in sorted(found.files.items())]
    return {**asdict(found), "files": files}


def fabric_audit(
    path: object, discoveries: Discoveries, fail_on: str = "error", port_step: int = 1, fabric: str = ""
) -> dict[str, Any]:
    """Return the audit of the discovered fabric, which needs no plan."""
    cluster = _view_of(path, "fabric_audit", fabric)
    if fail_on not in comparison.FATAL:
        raise AnsibleFilterError(f"fabric_audit: fail_on is {fail_on!r}; allowed: {', '.join(comparison.FATAL)}")
    with _filter_error("fabric_audit"):
        found = adoption.audited(cluster, _tool_outputs(discoveries), int(port_step))
    return {**asdict(found), "failed": found.worst in comparison.FATAL[fail_on]}


def fabric_simulation_time(path: object, fabric: str = "") -> str:
    """Return how much is simulated, and about how long that takes."""
    cluster = _view_of(path, "fabric_simulation_time", fabric)
    with _filter_error("fabric_simulation_time"):
        return requested_proofs.duration(planned(cluster).plan)


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {
            "fabric_names": fabric_names,
            "fabric_reads": fabric_reads,
            "fabric_discoveries": fabric_discoveries,
            "fabric_artefacts": fabric_artefacts,
            "fabric_directory": fabric_directory,
            "fabric_sources": fabric_sources,
            "fabric_simulation_time": fabric_simulation_time,
            "fabric_comparison": fabric_comparison,
            "fabric_discovered": fabric_discovered,
            "fabric_routes": fabric_routes,
            "fabric_adoption": fabric_adoption,
            "fabric_audit": fabric_audit,
        }
