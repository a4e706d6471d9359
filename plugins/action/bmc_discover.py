# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare the machines at the declared BMC addresses with the record; documented in plugins/modules/bmc_discover.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import discovery, discovery_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import accounts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_contact import contact
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_findings import KINDS, documents
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import REDFISH, targets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.found_machine import read_for_record
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
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import record_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import RecordError

_NAME = "bmc_discover"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Read all BMCs in threads, once on the control node; it connects to no machine by SSH."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        extra = self._task.get_variable_manager().extra_vars
        try:
            given = run_input(_NAME, variables, extra, self._templar.template)
            return {**result, **self._discovered(given, variables)}
        except (RunError, SecretError, RecordError) as error:
            raise AnsibleActionFail(str(error)) from None
        except OSError as error:
            raise AnsibleActionFail(f"{error.filename}: {error.strerror}. Nothing was recorded") from None

    def _discovered(self, given: RunInput, variables: dict[str, Any]) -> dict[str, Any]:
        cluster, is_check = given.cluster, bool(self._task.check_mode)
        records = given.choices["bmc_record"]
        targets = targets_of(cluster, given.record, given.limit)
        require_targets(given, targets)
        readable = {node: one for node, one in targets.items() if one.protocol == REDFISH}
        accounts = accounts_of(secrets_of(variables, self._templar, self._loader), readable)
        folder = None if is_check else require_report(given.choices["bmc_report"], cluster.name)
        contacts = contact(
            readable.values(), accounts, given.reach, lambda one: read_for_record(one, readable), trusts_new=records
        )
        owners = discovery.owners(given.record, given.names)
        found = discovery.judge(targets, contacts, owners, records=records)
        values = discovery.found_values(found, targets)
        update = record_changes.update(cluster.path, given.names, values, write=records and not is_check)
        found = discovery.with_differences(found, update, targets)
        text = discovery_report.summary(found, update, targets, records=records, is_check=is_check)
        report = ""
        if folder:
            data = discovery_report.data_of(cluster.name, found, targets)
            report = write_report(folder, _NAME, documents(f"bmc {cluster.name}", KINDS, found.findings, data))
            text += f"\nreport: {report}.json, {report}.xml"
        path = str(update.path)
        diff = {"before_header": path, "after_header": path, "before": update.before, "after": update.after}
        changed = records and update.changed
        failed = finding.failed(found.findings)
        return {
            "changed": changed,
            "failed": failed,
            "msg": text,
            "counts": found.counts(),
            "report": report,
            **({"diff": [diff]} if self._task.diff and changed else {}),
            # Without this, nobody sees the summary of a run without errors.
            "_ansible_verbose_always": not failed,
        }
