# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Steps of an upgrade of Slurm on one host; documented in plugins/modules/slurm_upgrade.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.rendering import Renderer
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import decide
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import HostDecision, RunHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_arguments import requested

_ROLE = "slurm"
_DECIDED = ("look", "fetch")


class ActionModule(ActionBase):  # type: ignore[misc]
    """Decide the packages and data of the host, and run the module."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        if arguments.get("step") in _DECIDED:
            arguments["requested"] = self._requested(variables)
        found: dict[str, Any] = self._execute_module(
            module_name="bedplate.cluster.slurm_upgrade", module_args=arguments, task_vars=variables
        )
        return found

    def _requested(self, variables: dict[str, Any]) -> dict[str, Any]:
        render = Renderer(self._task, self._templar, self._loader, variables).site_template
        # As for an installation: a look may run in check mode.
        host = RunHost(variables, self._templar.template, render, str(self._play_context.remote_user or "root"))
        try:
            request = host.request(_ROLE, {"upgrade": True})
            decided = HostDecision(_ROLE, request.choices, decide(_ROLE, request), render)
            return requested(decided, request.cluster, request.host)
        except (KeyError, ValueError) as error:
            raise AnsibleActionFail(str(error.args[0] if error.args else error)) from None
