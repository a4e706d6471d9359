# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plan a roll over the nodes of a play, and begin it; documented in plugins/modules/roll_plan.py."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import (
    approved_plan,
    controller_call,
    roll_document,
    roll_outcome,
    roll_variables,
    run_holder,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.pending_parts import PendingNode, pending

UPGRADE = "upgrade"
"""Kind of the record of playbooks/upgrade_slurm.yml."""
_MARGIN = 7200  # seconds for what a step takes beyond its deadline


class ActionModule(controller_call.ControllerAction):
    """Query Slurm on a controller, plan, and hold the record of the run."""

    _VALID_ARGS = frozenset(("topology_conf",))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play, on one controller."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._chosen = self._choices()
        cluster = self._cluster()
        raw = self._task_vars["hostvars"].raw_get
        hosts = [node.name for node in cluster.nodes if node.name in self._task_vars["ansible_play_hosts_all"]]
        found = pending({host: raw(host) for host in hosts}, hosts)
        saved = self._approved(cluster, found)
        record = self._begun()
        if controller_call.is_lost(record):
            return record
        nodes = self._module("slurm_node", nodes=fold(node.name for node in cluster.nodes))
        if controller_call.is_lost(nodes):
            self._release(record["run"], finished=False)
            return nodes
        slurm = roll_document.SlurmNodes(nodes["nodes"])
        choices = roll_document.RollChoices(
            self._percent(),
            str(self._task.args.get("topology_conf") or ""),
            self._chosen["failures"],
            time.time() + self._chosen["deadline"],
            self._chosen["reserved"],
            settle=self._chosen["settle"],
        )
        plan = roll_document.document(cluster, found, slurm, record["run"], choices)
        if self._chosen["when"] == "reservation" and plan["hosts"] != roll_document.NOBODY:
            window = self._reserved(plan)
            if controller_call.is_lost(window):
                # The name of the run stays while nodes are drained by it.
                self._release(record["run"], finished=not slurm.own(record["run"]))
                return window
            if window["active"]:
                # It may be for other nodes than are pending now, and its nodes need a canary of their own.
                inside = replace(choices, within=frozenset(expand(window["nodes"])))
                plan = roll_document.document(cluster, found, slurm, record["run"], inside)
            plan = roll_document.in_window(plan, window, self._chosen["start"])
        text = "\n".join([roll_document.preview(plan, slurm), *saved])
        # The rest of the result is for the playbook.
        self._display.display(text)
        return {
            **plan,
            "changed": False,
            "choices": self._chosen,
            "controller": next(
                iter(self._task_vars.get("ansible_delegated_vars") or ()), self._task_vars["inventory_hostname"]
            ),
            "holder": self._holder,
            # By Slurm, and then by SSH.
            "record_seconds": self._chosen["deadline"] + 2 * self._chosen["reboot_deadline"] + _MARGIN,
            "not_compared": {name: one.facts() for name, one in roll_outcome.not_compared(plan).items()},
            "msg": text,
        }

    def _choices(self) -> dict[str, Any]:
        named = {name: self._task_vars[name] for name in roll_variables.VARIABLES if name in self._task_vars}
        try:
            return roll_variables.choices({name: self._templar.template(value) for name, value in named.items()})
        except (KeyError, ValueError) as error:
            raise AnsibleActionFail(f"a variable of the roll has a wrong value: {error}. Run validate.yml") from None

    def _percent(self) -> float:
        """Return the percentage that may be out. A maintenance window has all its nodes out, unless the operator says otherwise."""
        if self._chosen["when"] == "reservation" and "roll_percent" not in self._task_vars:
            return 100.0
        return float(self._chosen["percent"])

    def _approved(self, cluster: Cluster, found: Mapping[str, PendingNode]) -> list[str]:
        """Write the plan for an approval in check mode, else refuse changes beyond the approved one; return lines for the operator."""
        if not self._chosen["plan_file"]:
            return []
        path = Path(self._chosen["plan_file"]).expanduser()
        extra = self._task.get_variable_manager().extra_vars
        plan = approved_plan.plan_of(approved_plan.inputs_of(Path(cluster.path), extra), found)
        if self._task.check_mode:
            approved_plan.write(path, plan)
            return [f"plan: {path}", f"digest: {plan.digest}"]
        try:
            approved_plan.require(path, self._chosen["plan_digest"], plan)
        except approved_plan.ApprovalError as error:
            raise AnsibleActionFail(str(error)) from None
        return []

    def _begun(self) -> dict[str, Any]:
        """Take the record of the run, before Slurm is read; another run that holds it is an error, in check mode too."""
        record = self._module("run_record", kind=ROLL)
        if controller_call.is_lost(record):
            return record
        self._holder = run_holder.holder()
        has_ended = run_holder.is_gone(str(record["holder"])) or self._chosen["ended"] == record["run"]
        dead = str(record["holder"]) if has_ended else ""
        if record["held"] and not dead:
            raise AnsibleActionFail(run_holder.busy("another roll", record, f"-e roll_ended={record['run']}"))
        run = str(record["run"] or secrets.token_hex(4))
        taken: dict[str, Any] = {"run": run}
        if not self._task.check_mode:
            arguments = {"state": "taken", "run": run, "holder": self._holder, "dead": dead, "seconds": _MARGIN}
            taken = self._module("run_record", kind=ROLL, **arguments)
        return taken if controller_call.is_lost(taken) else self._alone(taken, is_new=not record["run"])

    def _alone(self, taken: dict[str, Any], is_new: bool) -> dict[str, Any]:
        """Return the record of this run if no upgrade of Slurm works.

        The upgrade's record is read after this one is taken: of two that begin at once, at least one sees the other.
        """
        upgrade = self._module("run_record", kind=UPGRADE)
        is_lost = controller_call.is_lost(upgrade)
        if not is_lost and (not upgrade["held"] or run_holder.is_gone(str(upgrade["holder"]))):
            return taken
        self._release(taken["run"], finished=is_new)
        if is_lost:
            return upgrade
        remedy = f"playbooks/upgrade_slurm.yml -e upgrade_ended={upgrade['run']} continues it"
        raise AnsibleActionFail(run_holder.busy("an upgrade of Slurm", upgrade, remedy))

    def _release(self, run: str, finished: bool) -> None:
        """Release the record; the name of a run that is not finished stays, because of its drained nodes and its reservation.

        A reservation stays: it may be for nodes that are not of this call, as with --limit.
        """
        if self._task.check_mode:
            return
        if finished:
            found = self._module("slurm_reservation", kind=ROLL, run=run)
            finished = not controller_call.is_lost(found) and not found["exists"]
        self._module("run_record", kind=ROLL, state="released", holder=self._holder, finished=finished)

    def _reserved(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Create the reservation of the run if it does not exist, and return it."""
        found = self._module("slurm_reservation", kind=ROLL, run=plan["run"])
        # A run that was killed while it created the reservation may have left one that overlaps.
        if found.get("overlaps") and not self._chosen["reserved"]:
            return {
                "failed": True,
                "msg": f"reservation {found['name']} overlaps {found['overlaps']}: scontrol delete ReservationName={found['name']}",
            }
        if controller_call.is_lost(found) or found["exists"]:
            return found
        if not self._chosen["start"]:
            return {
                "failed": True,
                "msg": "roll_when=reservation needs roll_start, such as 2026-11-27T22:00:00 or now+2hours: the run has no reservation, or "
                "its window is over",
            }
        nodes = fold(name for name in plan["hosts"])
        minutes = max(1, round(self._chosen["hours"] * 60))
        return self._module(
            "slurm_reservation",
            kind=ROLL,
            run=plan["run"],
            state="present",
            nodes=nodes,
            start=self._chosen["start"],
            minutes=minutes,
            reserved=self._chosen["reserved"],
        )

    def _cluster(self) -> Cluster:
        try:
            return load(str(self._task_vars["bedplate_cluster_file"]))
        except (KeyError, ClusterFileError) as error:
            raise AnsibleActionFail(f"roll_plan needs a cluster file: {error}") from None
