# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare the GUIDs of a node with the record beside the cluster file; documented in plugins/modules/recover_guids.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import guid_changes

_ACCEPT = "recover_guids"


class ActionModule(ActionBase):  # type: ignore[misc]
    """Read the adapters on the node, compare them on the control node, and with `recover_guids=accept` write the record."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one node."""
        super().run(tmp, task_vars)
        variables = task_vars or {}
        result: dict[str, Any] = {"changed": False, "changes": [], "accepted": False}
        if "bedplate_cluster_file" not in variables:
            return result
        cluster = cluster_of(variables["bedplate_cluster_file"], "recover_guids")
        host = str(variables["inventory_hostname"])
        fabrics = guid_changes.recorded_fabrics(cluster, host)
        if not fabrics:
            return result
        read = self._execute_module(module_name="bedplate.cluster.hca_facts", module_args={}, task_vars=variables)
        if read.get("failed") or read.get("unreachable"):
            return dict(read)
        try:
            found = guid_changes.all_changes(fabrics, host, read["hcas"])
            if not found:
                return result
            result["changes"] = [one.text for listed in found.values() for one in listed]
            both = [
                text
                for listed in found.values()
                for path in fabrics
                for text in guid_changes.taken(guid_record.read(path), listed)
            ]
            if both:
                return {
                    **result,
                    "failed": True,
                    "msg": "\n".join([*both, "The adapter is that of another node, or the record is wrong"]),
                }
            if self._templar.template(variables.get(_ACCEPT, "")) != "accept":
                texts = [guid_changes.proposal(path, listed) for path, listed in found.items()]
                return {**result, "failed": True, "msg": "\n".join(texts)}
            for path, listed in found.items() if not self._task.check_mode else ():
                guid_changes.accept(path, listed)
        except (guid_record.RecordError, OSError) as error:
            raise AnsibleActionFail(f"{error}") from None
        return {
            **result,
            "changed": True,
            "accepted": True,
            "msg": "\n".join([*result["changes"], guid_changes.FOLLOW]),
        }
