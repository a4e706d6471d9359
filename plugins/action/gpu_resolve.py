# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Write or update the lock of GPU software; documented in plugins/modules/gpu_resolve.py."""

from __future__ import annotations

from typing import Any

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index import resolve_lock
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.index_model import IndexReadError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock import lock_document
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock.lock_document import LockError

_OPTIONS: dict[str, dict[str, Any]] = {
    "cluster_file": {"type": "path", "required": True},
    "mode": {"type": "str", "default": resolve_lock.MISSING},
    "origins": {"type": "bool", "default": False},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone and connects to no machine of the cluster."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read the indexes where this is needed, and write the lock; one error has all mistakes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(_OPTIONS)
        if arguments["mode"] not in resolve_lock.MODES:
            allowed = ", ".join(resolve_lock.MODES)
            raise AnsibleActionFail(f"gpu_resolve: {arguments['mode']!r} is not allowed. Allowed: {allowed}.")
        lock_document.keep_predictions_in(constants.DEFAULT_LOCAL_TMP)
        try:
            cluster = load(arguments["cluster_file"])
            report = resolve_lock.resolve(cluster, arguments["mode"], arguments["origins"], bool(self._task.check_mode))
        except (IndexReadError, LockError, ClusterFileError) as error:
            raise AnsibleActionFail(f"the versions of the GPU software are not known.\n{error}") from None
        except resolve_lock.UnmetError as error:
            raise AnsibleActionFail(str(error)) from None
        except OSError as error:
            raise AnsibleActionFail(f"the lock was not written: {error.filename}: {error.strerror}") from None
        facts = {"changed": report.changed, "msg": report.msg, "lock": report.path, "sha256": report.sha256}
        warnings = {"warnings": report.warnings} if report.warnings else {}
        return {**result, **facts, **warnings, "changes": report.lines}
