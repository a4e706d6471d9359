# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make a mirror of what a cluster's GPU nodes install; documented in plugins/modules/package_mirror.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import (
    build_mirror,
    cluster_mirror,
    mirror_report,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError

_OPTIONS: dict[str, dict[str, Any]] = {
    "cluster_file": {"type": "path", "required": True},
    "directory": {"type": "str", "default": ""},
    "cache": {"type": "str", "default": ""},
    "list_only": {"type": "bool", "default": False},
    "prune": {"type": "bool", "default": False},
    "packages": {"type": "list", "elements": "str", "default": []},
    "files": {"type": "list", "elements": "dict", "default": []},
}
_T = TypeVar("_T")


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone, with the cluster file and the secrets, and connects to no machine."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """List and mirror; one error has all mistakes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(_OPTIONS)
        try:
            order = self._order(arguments)
            is_signed = not (order.check or order.list_only)
            secrets = secrets_of(task_vars or {}, self._templar, self._loader)
            report, listed = build_mirror.make(
                order, lambda: cluster_mirror.signer_of(secrets, order.cluster, make=is_signed)
            )
        except (MirrorError, SecretError, ClusterFileError) as error:
            raise AnsibleActionFail(f"the mirror was not made.\n{error}") from None
        except OSError as error:
            raise AnsibleActionFail(f"the mirror was not made: {error.filename}: {error.strerror}") from None
        if self._task.diff:
            result["diff"] = [mirror_report.diff(report)]
        return {**result, **mirror_report.result_of(order, report, listed)}

    def _order(self, arguments: dict[str, Any]) -> build_mirror.Order:
        cluster = load(arguments["cluster_file"])
        mistakes = cluster_mirror.unknown_variables(self._task.get_variable_manager().extra_vars)

        def checked(made: Callable[[], _T], otherwise: _T) -> _T:
            try:
                return made()
            except MirrorError as error:
                mistakes.extend(error.mistakes)
                return otherwise

        order = build_mirror.Order(
            cluster=cluster.name,
            directory=checked(lambda: cluster_mirror.directory_of(arguments["directory"], cluster), Path()),
            cache=cluster_mirror.cache_of(arguments["cache"], cluster),
            systems=checked(lambda: cluster_mirror.systems_of(cluster, arguments["packages"]), ()),
            files=checked(lambda: cluster_mirror.files_of(arguments["files"]), ()),
            list_only=arguments["list_only"],
            prune=arguments["prune"],
            check=bool(self._task.check_mode),
        )
        if mistakes:
            raise MirrorError(mistakes)
        return order
