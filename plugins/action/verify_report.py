# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collect what all machines of a play reported, and fail last; documented in plugins/modules/verify_report.py."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.action.node_state import RECORDS_RELEASE, is_whole_run
from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, Services
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.registered import results_of, write_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.host_cluster import run_cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update import update_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import collected, opensm_readback


class ActionModule(ActionBase):  # type: ignore[misc]
    """Judge the results of bedplate.cluster.node_state; connects to no machine."""

    _VALID_ARGS = frozenset(("registered", "file"))
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task, once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        results = results_of(self._task.args.get("registered"), variables, "node_state")
        cluster = self._cluster(variables)
        findings, said = self._findings(cluster, results)
        rows = finding.to_json(findings)
        if file := self._task.args.get("file"):
            write_report(Path(str(file)), json.dumps(rows, indent=1) + "\n", "verify_report_file")
        if cluster and variables.get(RECORDS_RELEASE) and is_whole_run(variables):
            recorded = {host: (one or {}).get("release", "") for host, one in results.items()}
            raw = variables["hostvars"].raw_get
            lines = update_report.update_lines(
                recorded, cluster, lambda: {host: raw(host) for host in results}, bool(self._task.check_mode)
            )
            result["warnings"] = ["\n".join(lines)] if lines else []
        judge = self._before_change if self._task.check_mode and variables.get(RECORDS_RELEASE) else self._judged
        return judge({**result, "changed": False, "findings": rows, "machines": len(results)}, findings, said)

    def _cluster(self, variables: dict[str, Any]) -> Cluster | None:
        """Return the cluster of the run; None for an inventory without a cluster file and without Slurm."""
        if file := variables.get("bedplate_cluster_file"):
            return cluster_of(file, "verify_report")
        try:
            return run_cluster(variables, self._templar.template)
        except ValueError as error:
            raise AnsibleActionFail(f"verify_report: {error}") from None

    def _findings(self, cluster: Cluster | None, results: dict[str, Any]) -> tuple[list[Finding], str]:
        """Return all findings, and the line about the subnet managers if they are as planned."""
        services = cluster.services if cluster else Services((), (), (), (), ())
        found = collected.collected(results, services.controllers) + collected.unasked(results, services.controllers)
        managers = {host: results[host] for host in services.subnet_managers if results.get(host)}
        if cluster is None or not any("opensm" in one for one in managers.values()):
            return finding.ordered(found), ""
        of_fabric, said = opensm_readback.verdict(cluster, managers)
        return finding.ordered([*found, *of_fabric]), "" if of_fabric else said

    def _judged(self, result: dict[str, Any], findings: list[Finding], said: str) -> dict[str, Any]:
        folded = collected.folded(findings)
        errors = [one for one in folded if one.severity == finding.ERROR]
        others = [one for one in folded if one.severity != finding.ERROR]
        if others:
            result["warnings"] = [*result.get("warnings", []), collected.lines(others)]
        if errors:
            return {**result, "failed": True, "msg": f"{_count(errors, result)}\n{collected.lines(errors)}"}
        text = f"{result['machines']} machines are as the cluster file has them"
        # Without this, nobody sees that all is well, nor which subnet manager is master.
        return {
            **result,
            "msg": f"{text}; {said}" if said else text,
            "_ansible_verbose_always": bool(said) or not others,
        }

    def _before_change(self, result: dict[str, Any], findings: list[Finding], said: str) -> dict[str, Any]:
        """Judge in a --check of site.yml: nothing was applied, so a difference does not fail the run, and a run is the remedy."""
        found = [replace(one, remedy="") for one in collected.folded(findings)]
        errors = [one for one in found if one.severity == finding.ERROR]
        if not errors:
            return self._judged(result, findings, said)
        text = f"{_count(errors, result)} before the change. --check changes nothing; the tasks above say what a run changes."
        return {**result, "msg": text, "warnings": [*result.get("warnings", []), f"{text}\n{collected.lines(found)}"]}


def _count(findings: list[Finding], result: dict[str, Any]) -> str:
    return f"{len(findings)} {'difference' if len(findings) == 1 else 'differences'} on {result['machines']} machines"
