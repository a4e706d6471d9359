# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make the expectations of a machine and have it compared; documented in plugins/modules/node_state.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.filter.opensm import opensm_asked
from ansible_collections.bedplate.cluster.plugins.filter.slurm import slurm_wanted
from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.in_use import notices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.secrets import SecretError, SecretStore, directory_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import expected as of_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify.contents import Contents
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify.role_variables import RoleVariables

_MODULE = "bedplate.cluster.node_state"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Ask the machine once, with the expectations of all roles."""

    _VALID_ARGS = frozenset(("roles", "parts", "fail", "sysroot"))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._variables = RoleVariables(self._loader, self._templar, self._task_vars)
        result: dict[str, Any] = {"changed": False}
        roles = self._roles()
        if self._task.args.get("parts") is not None:
            parts: dict[str, Any] = dict(self._task.args["parts"])
            findings: list[Finding] = []
        else:
            parts, findings = self._expected(roles)
        if "opensm" in roles and "parts" not in self._task.args and self._is_in("subnet_managers"):
            result["opensm"] = self._opensm()
        compared, answered = self._compared(parts)
        return self._judged({**result, "compared": answered}, [*findings, *compared])

    def _roles(self) -> list[str]:
        """Return the roles to compare: those of the task, else those of the tags of this run, else all."""
        given = self._task.args.get("roles")
        if given is not None:
            if unknown := [role for role in given if role not in of_machine.ROLES]:
                allowed = ", ".join(of_machine.ROLES)
                raise AnsibleActionFail(f"roles: {', '.join(map(str, unknown))}; allowed: {allowed}")
            return list(given)
        tags = list(self._task_vars.get("ansible_run_tags") or ["all"])
        if set(tags) <= set(of_machine.TAGS):
            return [role for tag in tags for role in of_machine.TAGS[tag]]
        return list(of_machine.ROLES)

    def _is_in(self, group: str) -> bool:
        return group in self._task_vars.get("group_names", ())

    def _expected(self, roles: Iterable[str]) -> tuple[dict[str, Any], list[Finding]]:
        path, name = self._task_vars["bedplate_cluster_file"], self._task_vars["inventory_hostname"]
        kept = self._kept(path) if "slurm" in roles and self._is_in("slurm_controllers") else {}
        host = of_machine.Host(cluster_of(path, "node_state"), path, name, self._variables, kept)
        found = of_machine.expected(host, roles)
        contents, findings = self._contents(), [*found.findings, *notices(kept.get("changing", ()))]

        def row(role: str, entry: Mapping[str, Any]) -> dict[str, Any]:
            try:
                return contents.row(role, entry)
            except (AnsibleError, ValueError) as error:
                text = str(getattr(error, "message", None) or error)
                findings.append(Finding("unread", f"file {entry['path']}", "to be compared", text, f"role {role}"))
                return {"path": str(entry["path"]), "state": "unknown"}

        parts = {**found.parts, **of_machine.rows(found.deployments, row)}
        if self._task.check_mode and "slurm" in parts:
            parts["slurm"] = {**parts["slurm"], "wait": 0}  # nothing was restarted
        return parts, findings

    def _contents(self) -> Contents:
        names = ("bedplate_secrets_dir", "bedplate_cluster")
        try:
            directory = directory_of({name: self._templar.template(self._task_vars.get(name)) for name in names})
            return Contents(self, self._variables, SecretStore(directory))
        except (AnsibleError, SecretError):
            return Contents(self, self._variables, None)  # then secrets are compared by owner and mode alone

    def _kept(self, path: str) -> dict[str, Any]:
        """Return what Slurm keeps for jobs beside the cluster file; nothing where it cannot be asked, which is found later."""
        told = self._execute_module(
            module_name="bedplate.cluster.slurm_in_use",
            module_args=slurm_wanted(path, read_back=True),
            task_vars=self._task_vars,
        )
        return {} if told.get("failed") else told

    def _opensm(self) -> dict[str, Any]:
        """Return what OpenSM reports; all subnet managers are judged together, by bedplate.cluster.verify_report."""
        value = self._variables.value
        choices = value("opensm", "__opensm_choices")
        asked = {
            "planes": opensm_asked(
                self._task_vars["bedplate_cluster_file"], self._task_vars["inventory_hostname"], choices
            ),
            "wait": value("opensm", "opensm_verify_timeout"),
            "errors_minutes": value("opensm", "opensm_verify_errors_minutes"),
        }
        told: dict[str, Any] = self._execute_module(
            module_name="bedplate.cluster.opensm_facts", module_args=asked, task_vars=self._task_vars
        )
        return {**told, "choices": choices}

    def _compared(self, parts: Mapping[str, Any]) -> tuple[list[Finding], list[str]]:
        """Return what the module on the machine finds; a module that fails is a finding."""
        arguments = {"parts": dict(parts), "sysroot": self._task.args.get("sysroot", "/")}
        told = self._execute_module(module_name=_MODULE, module_args=arguments, task_vars=self._task_vars)
        if told.get("failed") or "findings" not in told:
            text = " ".join(str(told.get("msg") or "no message").split())
            stderr = " ".join(str(told.get("module_stderr") or "").split()[-40:])
            found = f"{text} {stderr}".strip()
            remedy = "see that the machine runs Python 3.9 or newer and that the user may become root"
            return [Finding("unread", "machine", "to be compared", found, remedy)], []
        return finding.from_json(told["findings"]), told["compared"]

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
