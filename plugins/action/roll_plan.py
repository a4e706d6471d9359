# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan a roll over the nodes of a play, and begin it; documented in plugins/modules/roll_plan.py."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import roll_document, run_holder
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.pending_parts import pending


class ActionModule(ActionBase):  # type: ignore[misc]
    """Query Slurm on a controller, plan, and hold the record of the run."""

    _VALID_ARGS = frozenset(("percent", "run", "topology_conf", "seconds"))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play, on one controller."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        cluster = self._cluster()
        record = self._begun()
        if self._lost(record):
            return record
        nodes = self._module("slurm_node", nodes=fold(node.name for node in cluster.nodes))
        if self._lost(nodes):
            return nodes
        slurm = roll_document.SlurmNodes(nodes["nodes"])
        raw = self._task_vars["hostvars"].raw_get
        hosts = [node.name for node in cluster.nodes if node.name in self._task_vars["ansible_play_hosts_all"]]
        found = pending({host: raw(host) for host in hosts}, hosts)
        choices = roll_document.RollChoices(
            float(self._task.args.get("percent", 5)), str(self._task.args.get("topology_conf") or "")
        )
        plan = roll_document.document(cluster, found, slurm, record["run"], choices)
        if not plan["work"] and not self._task.check_mode:
            self._module("run_record", kind=ROLL, state="released", holder=self._holder, finished=True)
        return {
            **plan,
            "changed": False,
            "controller": next(
                iter(self._task_vars.get("ansible_delegated_vars") or ()), self._task_vars["inventory_hostname"]
            ),
            "holder": self._holder,
            "msg": roll_document.preview(plan, slurm),
            "_ansible_verbose_always": True,
        }

    def _begun(self) -> dict[str, Any]:
        """Take the record of the run, before anything is planned; another run that holds it is an error, in check mode too."""
        record = self._module("run_record", kind=ROLL)
        if self._lost(record):
            return record
        self._holder = run_holder.holder()
        dead = str(record["holder"]) if run_holder.is_gone(str(record["holder"])) else ""
        if record["held"] and not dead:
            raise AnsibleActionFail(
                f"another roll works on the nodes: run {record['run']} of {record['holder']}, until {record['until']} at the latest. "
                "Nothing was changed. Wait for it, or stop it and try again"
            )
        run = str(self._task.args.get("run") or record["run"] or secrets.token_hex(4))
        if self._task.check_mode:
            return {"run": run}
        seconds = int(self._task.args.get("seconds", 3600))
        arguments = {"state": "taken", "run": run, "holder": self._holder, "dead": dead, "seconds": seconds}
        return self._module("run_record", kind=ROLL, **arguments)

    def _cluster(self) -> Cluster:
        try:
            return load(str(self._task_vars["bedplate_cluster_file"]))
        except (KeyError, ClusterFileError) as error:
            raise AnsibleActionFail(f"roll_plan needs a cluster file: {error}") from None

    def _module(self, name: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._execute_module(
            module_name=f"bedplate.cluster.{name}", module_args=arguments, task_vars=self._task_vars
        )
        return found

    @staticmethod
    def _lost(result: Mapping[str, Any]) -> bool:
        return bool(result.get("failed") or result.get("unreachable"))
