# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make the expectations of a machine and have it compared; documented in plugins/modules/node_state.py."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.kept_lines import notices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import role_result
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.host_cluster import host_cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.plain_inventory import NODES, SERVICES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases.default_snapshots import release_numbers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import controller_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import expected
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify.file_contents import Contents
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify.host_variables import RoleVariables

_MODULE = "bedplate.cluster.node_state"
RECORDS_RELEASE = "__verify_records_release"
"""The variable with which site.yml imports verify.yml; read here, since a template of it would be compiled for every host."""


class ActionModule(ActionBase):  # type: ignore[misc]
    """Compare the machine once, with the expectations of all roles."""

    _VALID_ARGS = frozenset(("roles", "parts", "fail", "record_release", "sysroot"))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._variables = RoleVariables(self, self._task_vars)
        result: dict[str, Any] = {"changed": False}
        roles = self._roles()
        if self._task.args.get("parts") is not None:
            parts: dict[str, Any] = dict(self._task.args["parts"])
            findings: list[Finding] = []
        else:
            parts, findings = self._expected(roles)
        if "opensm" in roles and "parts" not in self._task.args and self._is_in("subnet_managers"):
            result["opensm"] = self._opensm()
        whole = "roles" not in self._task.args and "parts" not in self._task.args
        may_record = self._task.args.get("record_release", self._task_vars.get(RECORDS_RELEASE, False))
        records = whole and boolean(may_record) and is_whole_run(self._task_vars)
        if not parts and not whole:
            return self._judged(result, findings)
        compared, told = self._compared(parts, records)
        result.update(changed=bool(told.get("changed")), compared=told["compared"], release=told.get("release", ""))
        if whole and not records:
            compared += _other_release(result["release"])
        return self._judged(result, [*findings, *compared])

    def _roles(self) -> list[str]:
        """Return the roles to compare: of the task, else of the tags of this run, else all."""
        given = self._task.args.get("roles")
        if given is not None:
            if unknown := [role for role in given if role not in (*expected.ROLES, expected.BEFORE_REBOOT)]:
                allowed = ", ".join(expected.ROLES)
                raise AnsibleActionFail(f"roles: {', '.join(map(str, unknown))}; allowed: {allowed}")
            return list(given)
        tags = list(self._task_vars.get("ansible_run_tags") or ["all"])
        if set(tags) <= set(expected.TAGS):
            return [role for tag in tags for role in expected.TAGS[tag]]
        apart = expected.APART if self._task_vars.get(RECORDS_RELEASE) else ()
        return [role for role in expected.ROLES if role not in apart]

    def _cluster(self) -> Cluster:
        """Return the cluster of the file, or of the inventory where it has no file."""
        role = "slurm" if any(self._is_in(group) for group in (*SERVICES.values(), NODES)) else ""
        try:
            return host_cluster(role, self._task_vars, self._templar.template)
        except ValueError as error:
            raise AnsibleActionFail(f"node_state: {error}") from None

    def _is_in(self, group: str) -> bool:
        return group in self._task_vars.get("group_names", ())

    def _expected(self, roles: Collection[str]) -> tuple[dict[str, Any], list[Finding]]:
        cluster, name = self._cluster(), self._task_vars["inventory_hostname"]
        kept = self._kept(cluster) if "slurm" in roles and self._is_in("slurm_controllers") else {}
        host = expected.ExpectedHost(cluster, name, self._variables, kept)
        found = expected.expected(host, roles)
        contents, findings = self._contents(), [*found.findings, *notices(kept.get("changing", ()))]

        def row(role: str, entry: Mapping[str, Any]) -> dict[str, Any]:
            try:
                return contents.row(role, entry)
            except (AnsibleError, ValueError) as error:
                text = str(getattr(error, "message", None) or error)
                findings.append(Finding("unread", f"file {entry['path']}", "to be compared", text, f"role {role}"))
                return {"path": str(entry["path"]), "state": "unknown"}

        rows = expected.rows(found.deployments, row) if set(roles) != {expected.BEFORE_REBOOT} else {}
        parts = {**found.parts, **rows}
        if self._task.check_mode and "slurm" in parts:
            parts["slurm"] = {**parts["slurm"], "wait": 0}  # nothing was restarted
        return parts, findings

    def _contents(self) -> Contents:
        try:
            return Contents(self, self._variables, secrets_of(self._task_vars, self._templar, self._loader))
        except (AnsibleError, SecretError):
            return Contents(self, self._variables, None)  # then secrets are compared by owner and mode alone

    def _kept(self, cluster: Cluster) -> dict[str, Any]:
        """Return the lines that Slurm keeps for jobs beside the cluster file; empty if Slurm does not answer, which is found later."""
        told = self._execute_module(
            module_name="bedplate.cluster.slurm_in_use",
            module_args=controller_files.in_use_arguments(cluster, read_back=True),
            task_vars=self._task_vars,
        )
        return {} if told.get("failed") else told

    def _opensm(self) -> dict[str, Any]:
        """Return what OpenSM reports; all subnet managers are judged together, by bedplate.cluster.verify_report."""
        value = self._variables.value
        choices = value("opensm", "__opensm_choices")
        asked = {
            "planes": role_result(
                self._task_vars["bedplate_cluster_file"],
                "node_state",
                lambda cluster: managers.facts_request(cluster, self._task_vars["inventory_hostname"], choices or {}),
            ),
            "wait": value("opensm", "opensm_verify_timeout"),
            "errors_minutes": value("opensm", "opensm_verify_errors_minutes"),
        }
        told: dict[str, Any] = self._execute_module(
            module_name="bedplate.cluster.opensm_facts", module_args=asked, task_vars=self._task_vars
        )
        return {**told, "choices": choices}

    def _compared(self, parts: Mapping[str, Any], records: bool) -> tuple[list[Finding], dict[str, Any]]:
        """Return what the module on the machine finds, and its result; a module that fails is a finding."""
        arguments = {
            "parts": dict(parts),
            "record_release": records,
            "sysroot": self._task.args.get("sysroot", "/"),
        }
        told = self._execute_module(module_name=_MODULE, module_args=arguments, task_vars=self._task_vars)
        if told.get("failed") or "findings" not in told:
            text = " ".join(str(told.get("msg") or "no message").split())
            stderr = " ".join(str(told.get("module_stderr") or "").split()[-40:])
            found = f"{text} {stderr}".strip()
            remedy = "see that the machine runs Python 3.9 or newer and that the user may become root"
            return [Finding("unread", "machine", "to be compared", found, remedy)], {"compared": []}
        return finding.from_json(told["findings"]), told

    def _judged(self, result: dict[str, Any], findings: list[Finding]) -> dict[str, Any]:
        text = finding.table(finding.ordered(findings))
        result.update(findings=finding.to_json(findings), msg=text or "all as the cluster file has it")
        if not boolean(self._task.args.get("fail", True)):
            result["msg"] = f"{len(findings)} findings" if findings else "no findings"
            return result
        if self._task.check_mode and findings:
            # Nothing was applied, so what the run would change is no failure yet.
            return {**result, "warnings": [text]}
        others = [one for one in findings if one.severity != finding.ERROR]
        if finding.failed(findings):
            return {**result, "failed": True}
        return {**result, "warnings": [finding.table(others)]} if others else result


def is_whole_run(variables: Mapping[str, Any]) -> bool:
    """Return whether a run leaves no task out."""
    parts = [*variables.get("ansible_run_tags", ["all"]), *variables.get("ansible_skip_tags", [])]
    return parts == ["all"] and not context.CLIARGS.get("start_at_task")


def _other_release(recorded: str) -> list[Finding]:
    """Return that a machine has files of another release of bedplate; nothing where bedplate has written none."""
    if recorded in ("", RELEASE):
        return []
    newer = release_numbers(recorded) > release_numbers(RELEASE)
    remedy = f"use bedplate {recorded} for it" if newer else "run playbooks/site.yml, all of it; docs/update.md"
    return [Finding("release", "release of bedplate", RELEASE, recorded, remedy, severity=finding.WARNING)]
