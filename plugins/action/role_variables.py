# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find variables that look like a role's and are none; documented in plugins/modules/role_variables.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.role_interfaces import (
    interfaces,
    message,
    unknown_variables,
)

# The inventory's own groups; they are variables of every host and may begin with the name of a role.
_GROUPS = {"slurm_controllers", "slurm_database", "slurm_login", "slurm_rest"}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone and connects to nobody."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the variables of a host of every group with the roles' argument specs."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        known = interfaces()
        places: dict[str, str] = {}
        for host in _one_of_each_group(variables.get("groups", {})):
            for name in unknown_variables(variables["hostvars"].raw_get(host), known):
                places.setdefault(name, host)
        for name in unknown_variables(variables, known):
            places.setdefault(name, "this run")
        mistakes = [
            f"{where}: {message(name, role, known)}"
            for name, where in places.items()
            for role in [unknown_variables([name], known)[name]]
            if name not in _GROUPS
        ]
        result.update(changed=False, failed=bool(mistakes), mistakes=mistakes)
        result["msg"] = "\n".join(mistakes) or f"no variable is misspelt; {len(known)} roles were compared"
        return result


def _one_of_each_group(groups: Mapping[str, list[str]]) -> list[str]:
    """Return a host of each group: members of a group have the same variables, but for their own exceptions."""
    return list(dict.fromkeys(hosts[0] for hosts in groups.values() if hosts))
