# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Back up Slurm on one host; documented in plugins/modules/slurm_backup.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.run_choices import backup_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import backup_part


class ActionModule(ActionBase):  # type: ignore[misc]
    """Decide what the host has, and run the module."""

    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        try:
            cluster = load(str(variables["bedplate_cluster_file"]))
            chosen = backup_choices(variables, self._templar.template)
            path, keep = backup_part.where(chosen["options"])
            arguments = {
                **backup_part.data_of(cluster, str(variables["inventory_hostname"])),
                "path": path,
                "keep": keep,
                "seconds": chosen["seconds"],
                "recipient": Path(chosen["recipient"]).read_text(encoding="utf-8"),
                **self._task.args,
            }
        except (KeyError, ValueError, OSError, ClusterFileError) as error:
            raise AnsibleActionFail(f"slurm_backup: {error}") from None
        found: dict[str, Any] = self._execute_module(
            module_name="bedplate.cluster.slurm_backup", module_args=arguments, task_vars=variables
        )
        if found.get("file"):
            parts = backup_part.parts_folder(chosen["to"], cluster)
            found["part"] = str(parts / Path(found["file"]).name)
        return found
