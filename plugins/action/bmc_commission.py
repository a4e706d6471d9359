# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commission the BMCs of named nodes; documented in plugins/modules/bmc_commission.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_findings import documents
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import (
    RunError,
    RunInput,
    require_report,
    run_input,
    write_report,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import commission_report, commission_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.commission_input import order_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.own_secrets import OwnSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError

_NAME = "bmc_commission"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Command all named BMCs in threads, once on the control node; it connects to no machine by SSH."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        extra = self._task.get_variable_manager().extra_vars
        try:
            given = run_input(_NAME, variables, extra, self._templar.template)
            return {**result, **self._commissioned(given, variables)}
        except (RunError, SecretError) as error:
            raise AnsibleActionFail(str(error)) from None

    def _commissioned(self, given: RunInput, variables: dict[str, Any]) -> dict[str, Any]:
        cluster, is_check = given.cluster, bool(self._task.check_mode)
        # Before a CA is made.
        folder = None if is_check else require_report(given.choices["bmc_report"], cluster.name)
        secrets = secrets_of(variables, self._templar, self._loader)
        targets, order = order_of(given, secrets, check=is_check)
        record = commission_run.record_of(cluster.path, given.names, write=not is_check)
        results = commission_run.run(targets, OwnSecrets(secrets), order, record)
        findings = commission_report.findings_of(targets, results)
        text = commission_report.summary(results, findings, targets)
        report = ""
        if folder:
            data = commission_report.data_of(cluster.name, results, targets)
            written = documents(f"bmc {cluster.name}", commission_report.KINDS, findings, data)
            report = write_report(folder, _NAME, written)
            text += f"\nreport: {report}.json, {report}.xml"
        changed, failed = any(one.is_changed for one in results.values()), finding.failed(findings)
        before, after = (commission_report.states(results, after=one) for one in (False, True))
        return {
            "changed": changed,
            "failed": failed,
            "failed_nodes": fold([node for node, one in results.items() if one.has_failed]),
            "msg": text,
            "counts": commission_report.counts(results),
            "report": report,
            **({"diff": [{"before": before, "after": after}]} if self._task.diff and changed else {}),
            "_ansible_verbose_always": not failed,
        }
