# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Begin a recovery, and plan it; documented in plugins/modules/recover_plan.py."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import RECOVER, ROLL
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import recover_plan, recover_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.recover_plan import BEGUN, KEY, Invocation
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call, run_holder

_MARGIN = 7200  # seconds for what a run takes beside its reboots


class ActionModule(controller_call.ControllerAction):
    """Read Slurm on a controller, refuse what cannot be recovered now, and hold the record of the run."""

    _VALID_ARGS = frozenset(("step",))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play, on one controller."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._hosts = list(self._task_vars["ansible_play_hosts_all"])
        if self._task.args.get("step") == "begin":
            return self._begin()
        raw = self._task_vars["hostvars"].raw_get
        begun = raw(self._hosts[0])[BEGUN]
        plan = recover_plan.document(self._hosts, begun, raw, self._task.check_mode)
        text = recover_plan.preview(plan, raw)
        self._display.display(text)
        return {**plan, "changed": False, "msg": text}

    def _begin(self) -> dict[str, Any]:
        """Return what the run found in Slurm before its first change, with the record of the run held."""
        choices = self._choices()
        holder = run_holder.holder()
        records = {kind: self._module("run_record", kind=kind) for kind in (RECOVER, ROLL)}
        for record in records.values():
            if controller_call.is_lost(record):
                return record
        own = records[RECOVER]
        gone = {kind: run_holder.is_gone(str(record["holder"])) for kind, record in records.items()}
        gone[RECOVER] = gone[RECOVER] or bool(own["run"] and choices["ended"] == own["run"])
        found = [text for kind, one in records.items() if (text := recover_plan.record_refusal(one, kind, gone[kind]))]
        slurm = self._module("slurm_node", nodes=fold(self._hosts))
        if controller_call.is_lost(slurm):
            return slurm
        raw = self._task_vars["hostvars"].raw_get
        keys = {host: raw(host)[KEY] for host in self._hosts if isinstance(raw(host).get(KEY), Mapping)}
        found += recover_plan.refusals(self._hosts, keys, slurm, self._invocation())
        if found:
            return {"changed": False, "failed": True, "msg": "\n".join(["Nothing was changed:", *found])}
        run = str(own["run"] or secrets.token_hex(4))
        seconds = _MARGIN + 2 * choices["reboot_deadline"]
        if not self._task.check_mode:
            dead = str(own["holder"]) if gone[RECOVER] else ""
            arguments = {"state": "taken", "run": run, "holder": holder, "dead": dead, "seconds": seconds}
            taken = self._module("run_record", kind=RECOVER, **arguments)
            if controller_call.is_lost(taken):
                return taken
            run = str(taken["run"])
        return {
            "changed": False,
            "run": run,
            "holder": holder,
            "controller": next(
                iter(self._task_vars.get("ansible_delegated_vars") or ()), self._task_vars["inventory_hostname"]
            ),
            "choices": choices,
            "record_seconds": seconds,
            "slurm": slurm["nodes"],
        }

    def _choices(self) -> dict[str, Any]:
        named = {name: self._task_vars[name] for name in recover_variables.VARIABLES if name in self._task_vars}
        try:
            return recover_variables.choices({name: self._templar.template(value) for name, value in named.items()})
        except (KeyError, ValueError) as error:
            raise AnsibleActionFail(
                f"a variable of the recovery has a wrong value: {error}. Run validate.yml"
            ) from None

    @staticmethod
    def _invocation() -> Invocation:
        """Return how the playbook was called, without variables that may hold a secret."""
        given = context.CLIARGS
        words = ["ansible-playbook", *(word for one in given.get("inventory") or () for word in ("-i", str(one)))]
        words += [*map(str, given.get("args") or ("playbooks/recover.yml",)), "--limit", str(given.get("subset") or "")]
        words += ["--user", str(given["remote_user"])] if given.get("remote_user") else []
        words += ["--become"] if given.get("become") else []
        extra = [str(one) for one in given.get("extra_vars") or ()]
        return Invocation(words, [one for one in extra if one.startswith(("@", recover_variables.PREFIX))])
