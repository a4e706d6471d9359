# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Restore secrets that the control node lacks; documented in plugins/modules/slurm_restore_secrets.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import existing_secrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.opened_backup import OpenError, open_backup
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.restore_plan import PLAN
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.run_choices import private_key, restore_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError


class ActionModule(ActionBase):  # type: ignore[misc]
    """Write secrets from the backup into the secrets directory; it connects to no machine."""

    _requires_connection = False
    _VALID_ARGS: frozenset[str] = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        names = list(variables[PLAN]["secrets"])
        if not names or self._task.check_mode:
            return {"changed": bool(names), "secrets": names}
        try:
            chosen = restore_choices(variables, self._templar.template)
            backup = open_backup(Path(chosen["from"]).resolve(), private_key(chosen), chosen["seconds"])
            done = existing_secrets.restore(secrets_of(variables, self._templar, self._loader), backup.secrets)
        except (KeyError, ValueError, OSError, SecretError, OpenError) as error:
            raise AnsibleActionFail(f"slurm_restore_secrets: {error}") from None
        return {"changed": bool(done), "secrets": done}
