# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare firmware or BIOS of machines with the site's profiles; documented in plugins/modules/bmc_compare.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import compare_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import accounts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_contact import contact
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_findings import documents
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import REDFISH, targets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.compare_run import (
    FIRMWARE,
    FOLDERS,
    comparison,
    name_of,
    profiles_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import (
    RunError,
    RunInput,
    require_report,
    require_targets,
    run_input,
    write_report,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import ProfileError


class ActionModule(ActionBase):  # type: ignore[misc]
    """Read all BMCs in threads, once on the control node; nothing is written to a machine."""

    _VALID_ARGS = frozenset(("subject",))
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables, subject = task_vars or {}, str(self._task.args.get("subject"))
        if subject not in FOLDERS:
            raise AnsibleActionFail(f"subject: {subject!r}; allowed: {', '.join(FOLDERS)}")
        extra = self._task.get_variable_manager().extra_vars
        try:
            given = run_input(subject, variables, extra, self._templar.template)
            return {**result, **self._compared(given, subject, variables)}
        except ProfileError as error:
            raise AnsibleActionFail("\n".join(error.mistakes)) from None
        except (RunError, SecretError) as error:
            raise AnsibleActionFail(str(error)) from None

    def _compared(self, given: RunInput, subject: str, variables: dict[str, Any]) -> dict[str, Any]:
        cluster = given.cluster
        declared = targets_of(cluster, given.record, given.limit)
        require_targets(given, declared)
        targets = {node: one for node, one in declared.items() if name_of(one, subject) and one.protocol == REDFISH}
        without = [node for node, one in declared.items() if one.profile and not name_of(one, subject)]
        if not targets:
            what = f"no profile names a file of the folder {FOLDERS[subject]} beside the cluster file"
            raise RunError(
                f"nothing to compare: {what}. Set `{subject}` in a profile; docs/how-to/bmcs.md has an example"
            )
        profiles = profiles_of(targets, subject, cluster.path)
        accounts = accounts_of(secrets_of(variables, self._templar, self._loader), targets)
        folder = None if self._task.check_mode else require_report(given.choices["bmc_report"], cluster.name)
        contacts = contact(targets.values(), accounts, given.reach, comparison(targets, profiles, subject))
        findings = compare_report.findings_of(targets, contacts)
        plan = compare_report.waves_of(cluster, contacts, given.choices) if subject == FIRMWARE else None
        text = [compare_report.summary(subject, contacts, findings, targets, without)]
        text += compare_report.wave_lines(plan) if plan else []
        report = ""
        if folder:
            kinds, data = (
                compare_report.kinds_of(subject),
                compare_report.data_of(cluster.name, contacts, targets, plan),
            )
            report = write_report(folder, subject, documents(f"{subject} {cluster.name}", kinds, findings, data))
            text.append(f"report: {report}.json, {report}.xml")
        failed = finding.failed(findings)
        return {
            "changed": False,
            "failed": failed,
            "msg": "\n".join(text),
            "report": report,
            "_ansible_verbose_always": not failed,
        }
