# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report an upgrade of Slurm, and end its record; documented in plugins/modules/slurm_upgrade_close.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade import upgrade_outcome, upgrade_variables


class ActionModule(controller_call.ControllerAction):
    """Judge what the tasks of the upgrade registered on its hosts, and release the record of the run."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once, on the controller of the plan."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        raw = self._task_vars["hostvars"].raw_get
        plan = upgrade_outcome.plan_of(raw, self._task_vars["ansible_play_hosts_all"])
        if not plan:
            return {"changed": False, "failed": True, "msg": "This run has no plan: nothing was upgraded."}
        found = upgrade_outcome.Run(plan, raw).verdict()
        result: dict[str, Any] = {**found, "changed": False}
        if warnings := self._released(upgrade_variables.KIND, plan, finished=True):
            result["warnings"] = warnings
        if not result["failed"]:
            self._display.display(result["msg"])
        return result
