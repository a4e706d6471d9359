# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make or promote a snapshot of all repositories; documented in plugins/modules/snapshot.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import misspelt_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import cluster_mirror
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots import (
    build_snapshot,
    promote_snapshot,
    snapshot_order,
    snapshot_result,
)

_MADE = "made"
_OPTIONS: dict[str, dict[str, Any]] = {
    "cluster_file": {"type": "path", "required": True},
    "name": {"type": "str", "required": True},
    "state": {"type": "str", "required": True, "choices": [_MADE, *promote_snapshot.STATES]},
    "directory": {"type": "str", "default": ""},
    "cache": {"type": "str", "default": ""},
    "report": {"type": "str", "default": ""},
}
_FAILED = {
    _MADE: "was not made",
    promote_snapshot.PROMOTED: "was not promoted",
    promote_snapshot.TESTING: "was not put under test",
    promote_snapshot.UNTESTED: "stays under test",
}
_VARIABLES = ("snapshot_report", "snapshot_state")
COMPARED = "__snapshot_compared"
"""The variable with the result of bedplate.cluster.node_state on a node that tests."""


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone, with the cluster file and the secrets, and connects to no machine."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Make or promote; one error has all mistakes."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _unused, arguments = self.validate_argument_spec(_OPTIONS)
        variables = task_vars or {}
        try:
            cluster = load(arguments["cluster_file"])
            self._refuse_misspelt()
            work = self._made if arguments["state"] == _MADE else self._promoted
            found = work(cluster, arguments, variables)
        except (MirrorError, SecretError, ClusterFileError) as error:
            raise AnsibleActionFail(f"the snapshot {_FAILED[arguments['state']]}.\n{error}") from None
        except OSError as error:
            raise AnsibleActionFail(
                f"the snapshot {_FAILED[arguments['state']]}: {error.filename}: {error.strerror}"
            ) from None
        diff = found.pop("diff")
        return {**result, **found, **({"diff": [diff]} if self._task.diff else {})}

    def _refuse_misspelt(self) -> None:
        """Raise MirrorError for a misspelt variable of the command line: `testing` would be a promotion for all."""
        given = self._task.get_variable_manager().extra_vars
        mistakes = misspelt_variables(given, "snapshot_", _VARIABLES, "playbooks/snapshot.yml")
        if mistakes := [*mistakes, *cluster_mirror.unknown_variables(given)]:
            raise MirrorError(mistakes)

    def _made(self, cluster: Cluster, arguments: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        directory = cluster_mirror.directory_of(arguments["directory"], cluster)
        cache = cluster_mirror.cache_of(arguments["cache"], cluster)
        order = snapshot_order.order_of(cluster, arguments["name"], directory, cache, bool(self._task.check_mode))
        secrets = secrets_of(variables, self._templar, self._loader)
        report = build_snapshot.make(
            order, lambda: cluster_mirror.signer_of(secrets, cluster.name, make=not order.check)
        )
        return snapshot_result.of_made(report, order.check)

    def _promoted(self, cluster: Cluster, arguments: Mapping[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        directory = cluster_mirror.directory_of(arguments["directory"], cluster) / snapshot_order.FOLDER
        # A copy on this machine is compared with all its files.
        base = directory.as_uri() if directory.is_dir() or cluster.snapshots is None else cluster.snapshots.url
        tested = _tested(cluster, arguments["name"], variables)
        promotion = promote_snapshot.plan(cluster, arguments["state"], arguments["name"], base, tested)
        if promotion.changed and not self._task.check_mode:
            promote_snapshot.write(cluster, promotion)
        if arguments["report"] and not self._task.check_mode:
            snapshot_result.write_report(arguments["report"], cluster, promotion)
        return snapshot_result.of_promotion(
            promotion, arguments["state"], arguments["name"], bool(self._task.check_mode)
        )


def _tested(cluster: Cluster, name: str, variables: Mapping[str, Any]) -> dict[str, str]:
    """Return node that tests -> the snapshot that this run has compared there, without a difference and with nothing that waits."""
    hostvars = variables.get("hostvars") or {}
    raw = getattr(hostvars, "raw_get", getattr(hostvars, "__getitem__", None))
    if raw is None or cluster.snapshots is None:
        return {}
    found = {}
    for node in cluster.snapshots.test:
        compared = raw(node).get(COMPARED) if node in hostvars else None
        if isinstance(compared, Mapping) and snapshot_result.is_tested(compared):
            found[node] = name
    return found
