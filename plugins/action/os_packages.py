# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Add the snapshot of the machine to the module of this name; documented in plugins/modules/os_packages.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts import snapshot_sources


class ActionModule(ActionBase):  # type: ignore[misc]
    """Run the module with the sources of the machine's snapshot, where the cluster file has one."""

    _VALID_ARGS = frozenset(("refresh", "only", "note"))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        if file := variables.get("bedplate_cluster_file"):
            cluster, host = load(str(file)), str(variables["inventory_hostname"])
            try:
                why = snapshot_sources.refusal(cluster, host)
                files = snapshot_sources.view_files(cluster, host)
            except ValueError as error:
                raise AnsibleActionFail(f"packages: {error}") from None
            if why:
                raise AnsibleActionFail(f"packages: {why}")
            if files is not None:
                arguments["snapshot"] = files
        result: dict[str, Any] = self._execute_module(
            module_name="bedplate.cluster.os_packages", module_args=arguments, task_vars=variables
        )
        return result
