# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Steps of a restore of Slurm on one host; documented in plugins/modules/slurm_restore.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import DATABASE, FILES, STATE
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.opened_backup import OpenError, session_key
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_plan import PLAN
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.run_choices import private_key, restore_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import backup_part

_MEMBERS = {
    "database": (DATABASE, "database_host"),
    "configuration": (FILES, "state_host"),
    "state": (STATE, "state_host"),
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Add the plan of the host and the session key of the member, and run the module."""

    _VALID_ARGS = frozenset(["step"])
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        step = str(self._task.args.get("step"))
        try:
            arguments = {"step": step, **self._arguments(step, variables)}
        except (KeyError, ValueError, OSError, ClusterFileError, OpenError) as error:
            raise AnsibleActionFail(f"slurm_restore: {error}") from None
        found: dict[str, Any] = self._execute_module(
            module_name="bedplate.cluster.slurm_restore", module_args=arguments, task_vars=variables
        )
        return found

    def _arguments(self, step: str, variables: dict[str, Any]) -> dict[str, Any]:
        if step == "node":
            return {}
        if step == "look":
            cluster = load(str(variables["bedplate_cluster_file"]))
            found = backup_part.data_of(cluster, str(variables["inventory_hostname"]))
            # A standby has the same state, on storage that they share.
            if str(variables["inventory_hostname"]) in cluster.services.controllers:
                found["state"] = backup_part.state_path(cluster)
            return {name: found[name] for name in ("cluster", "state", "database")}
        plan = variables[PLAN]
        if step == "jobs":
            return {"nodes": plan["nodes"]}
        arguments = {"backup": plan["backup"], "seconds": plan["seconds"]}
        if step not in _MEMBERS:
            return arguments
        member, where = _MEMBERS[step]
        chosen = restore_choices(variables, self._templar.template)
        session = session_key(Path(plan["file"]), private_key(chosen), plan[where], member, plan["seconds"])
        return {
            **arguments,
            "file": f"{plan['folder']}/{plan['backup']}",
            "host": plan[where],
            "member": plan["members"][member],
            "session": session,
            "database": plan["database_name"],
            "state": plan["state"],
            "next_job": plan["next_job"],
        }
