# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare Slurm with what a roll finished; documented in plugins/modules/roll_close.py."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call, roll_outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_outcome import NodeOutcome


class ActionModule(controller_call.ControllerAction):
    """Read Slurm, write why a node stays drained into its reason, and give the record of the run back."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once, on the controller of the plan."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        # Ansible merges all variables of a host at each read.
        raw = cache(self._task_vars["hostvars"].raw_get)
        plan = roll_outcome.plan_of(raw, self._task_vars["ansible_play_hosts_all"])
        if not plan:
            return {"changed": False, "failed": True, "msg": "This run has no plan: nothing was rolled."}
        now = self._module("slurm_node", nodes=plan["nodes"])
        if controller_call.is_lost(now):
            return {**now, "failed": True, "msg": f"Slurm was not read after the roll: {now.get('msg', '')}"}
        stop = roll_outcome.stopped(plan, raw, time.time(), now["nodes"])
        outcomes = roll_outcome.outcomes(plan, raw, now, stop)
        if not any(one.why.endswith(stop) for one in outcomes.values()):
            stop = ""  # every batch had begun
        changed = self._note(plan, outcomes)
        # Also of nodes outside of this call, as with --limit: without its name no later call would take them up.
        own = [name for name, one in now["nodes"].items() if (one.get("kind"), one.get("run")) == (ROLL, plan["run"])]
        unfinished = bool(own) or any(one.outcome == roll_outcome.WAITING for one in outcomes.values())
        warnings = [] if self._task.check_mode else self._end(plan, finished=not unfinished)
        result = {**self._judged(plan, outcomes), "changed": changed, "stopped": stop}
        if warnings:
            result["warnings"] = warnings
        if not result["failed"]:
            self._display.display(result["msg"])
        return result

    def _end(self, plan: Mapping[str, Any], finished: bool) -> list[str]:
        """Release the record of the run, and remove the reservation of a finished one; return warnings.

        A run keeps its name while its reservation exists, because only a call of that run removes it.
        """
        why = self._unreserve(plan) if finished else ""
        lost = self._released(ROLL, plan, finished and not why)
        return [f"run {plan['run']}: {why}", *lost] if why else lost

    def _unreserve(self, plan: Mapping[str, Any]) -> str:
        """Remove the reservation of the run, also if this call did not use it; return why it stays, or ""."""
        found = self._module("slurm_reservation", kind=ROLL, run=plan["run"])
        if not controller_call.is_lost(found) and found["exists"]:
            # This call may be for some nodes, as with --limit.
            others = set(expand(plan["nodes"])) - set(self._task_vars["ansible_play_hosts_all"])
            if waiting := sorted(others & set(expand(found["nodes"]))):
                return f"the reservation {found['name']} stays, because it is for other nodes too: {few(waiting)}"
            found = self._module("slurm_reservation", kind=ROLL, run=plan["run"], state="absent")
        return f"its reservation was not removed: {found.get('msg', '')}" if controller_call.is_lost(found) else ""

    def _note(self, plan: Mapping[str, Any], outcomes: Mapping[str, NodeOutcome]) -> bool:
        """Write into the reasons of nodes that stay drained why they do; return whether that changed any."""
        texts: dict[str, list[str]] = {}
        for name, one in outcomes.items():
            if one.drained and one.outcome in (roll_outcome.FAILED, roll_outcome.UNREACHABLE):
                texts.setdefault(f"{one.parts or 'verify'}: {one.outcome}: {one.why}"[:200], []).append(name)
        results = [
            self._module("slurm_node", nodes=fold(names), state="noted", run=plan["run"], why=text)
            for text, names in texts.items()
        ]
        return any(one.get("changed") for one in results)

    @staticmethod
    def _judged(plan: Mapping[str, Any], outcomes: Mapping[str, NodeOutcome]) -> dict[str, Any]:
        found: dict[str, list[str]] = {}
        for name, one in outcomes.items():
            found.setdefault(one.outcome, []).append(name)
        lines = [f"{len(found.get(what, ()))} {what}" for what in roll_outcome.OUTCOMES if what in found]
        hours = sum(one.hours for one in outcomes.values())
        lines = [
            (", ".join(lines) or "nothing was pending") + (f"; {hours:.2f} node-hours out of service" if hours else "")
        ]
        rest = {name: one for name, one in outcomes.items() if one.outcome != roll_outcome.DONE}
        alike: dict[tuple[str, str], list[str]] = {}
        for name, one in rest.items():
            alike.setdefault((one.outcome, one.why), []).append(name)
        lines += [f"{fold(names)}: {what}: {why}" for (what, why), names in alike.items()]
        bad = {roll_outcome.FAILED, roll_outcome.UNREACHABLE}
        if plan["choices"]["waiting_fails"]:
            bad.add(roll_outcome.WAITING)
        return {
            "failed": bool(bad & set(found)),
            "run": plan["run"],
            # Without what is done: Ansible prints the result of a task that fails.
            "nodes": {name: one.facts() for name, one in rest.items()},
            "outcomes": {what: fold(names) for what, names in found.items()},
            "hours": round(hours, 2),
            "msg": "\n".join(lines),
        }
