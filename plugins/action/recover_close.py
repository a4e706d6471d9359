# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare Slurm with what a recovery finished; documented in plugins/modules/recover_close.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import RECOVER
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import recover_outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_outcome import FAILED, UNREACHABLE, NodeOutcome


class ActionModule(controller_call.ControllerAction):
    """Read Slurm, write why a node stays drained into its reason, and release the record of the run."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once, on the controller of the plan."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        raw = self._task_vars["hostvars"].raw_get
        plan = recover_outcome.plan_of(raw, self._task_vars["ansible_play_hosts_all"])
        if not plan:
            return {"changed": False, "failed": True, "msg": "This run has no plan: no node was recovered."}
        changed = self._resume(plan, recover_outcome.busy(plan, raw))
        now = self._module("slurm_node", nodes=plan["nodes"])
        if controller_call.is_lost(now):
            return {**now, "failed": True, "msg": f"Slurm was not read after the recovery: {now.get('msg', '')}"}
        found = recover_outcome.outcomes(plan, raw, now)
        changed = self._note(plan, found) or changed
        own = [
            name for name, one in now["nodes"].items() if (one.get("kind"), one.get("run")) == (RECOVER, plan["run"])
        ]
        result = {**recover_outcome.judged(plan, found, raw), "changed": changed}
        if warnings := self._released(RECOVER, plan, finished=not own):
            result["warnings"] = warnings
        if not result["failed"]:
            self._display.display(result["msg"])
        return result

    def _resume(self, plan: Mapping[str, Any], names: list[str]) -> bool:
        """Resume nodes on which a job began before they were drained: they are in service as before."""
        if not names:
            return False
        found = self._module(
            "slurm_node", nodes=fold(names), kind=RECOVER, state="resumed", run=plan["run"], deadline=60
        )
        return bool(found.get("changed"))

    def _note(self, plan: Mapping[str, Any], outcomes: Mapping[str, NodeOutcome]) -> bool:
        """Write into the reasons of nodes that stay drained why they do; return whether that changed any."""
        texts: dict[str, list[str]] = {}
        for name, one in outcomes.items():
            if one.drained and one.outcome in (FAILED, UNREACHABLE):
                texts.setdefault(f"{one.parts}: {one.outcome}: {one.why}"[:200], []).append(name)
        results = [
            self._module("slurm_node", nodes=fold(names), kind=RECOVER, state="noted", run=plan["run"], why=text)
            for text, names in texts.items()
        ]
        return any(one.get("changed") for one in results)
