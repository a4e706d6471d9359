# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refuse misspelt variables of the fabric's playbooks; documented in plugins/modules/fabric_variables.py."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.variable_names import unknown_variables


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone and connects to no machine."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the variables of the command line with the existing ones; an inventory may have others."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        mistakes = unknown_variables(self._task.get_variable_manager().extra_vars)
        result.update(changed=False, failed=bool(mistakes), mistakes=mistakes)
        result["msg"] = "\n".join(mistakes) or "no variable is misspelt"
        return result
