# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read a machine with what is expected of it; documented in plugins/modules/node_report.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.expected import expected_of, package_patterns


class ActionModule(ActionBase):  # type: ignore[misc]
    """Run the module; with `software`, with the packages of the table and the hardware of the host's profile."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        variables, arguments = task_vars or {}, dict(self._task.args)
        expected: dict[str, Any] = {}
        if boolean(arguments.get("software", False)):
            try:
                expected = expected_of(variables, self._templar.template)
            except ValueError as error:
                raise AnsibleActionFail(f"node_report: {error}") from None
            arguments.setdefault("packages", package_patterns())
            arguments.setdefault("topology", expected.get("topology"))
        result: dict[str, Any] = self._execute_module(module_args=arguments, task_vars=variables)
        return {**result, "expected": expected} if "software" in result else result
