# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Install nodes that are verified and drained; documented in plugins/modules/provision_install.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import (
    ARMED,
    KNOWN,
    PLANNED,
    STARTED,
    VERIFIED,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import outcome, slurm_gate
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import MachineRun
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction

_OTHER = "its progress has changed since the plan was made. Run again."
_CHANGED = "the cluster file or the record of machines has changed since the plan was made. Run again."
_DONE = {True: (ARMED, STARTED), False: (KNOWN,)}


class ActionModule(ProvisionAction):
    """Drive the orders of nodes until each is known, refused or stopped."""

    _VALID_ARGS = frozenset(("work", "slurm", "until", "digests", "unfit"))
    _begin = "The run ended before all nodes were done, and orders may be open; run it again, which continues or closes them:"

    def _work(self) -> dict[str, Any]:
        unfit = {node: str(why) for node, why in (self._task.args.get("unfit") or {}).items()}
        named, only_arms = [*(self._task.args.get("work") or ()), *unfit], self._task.args.get("until") == ARMED
        work = {node: one for node, one in self._plan.work.items() if node in named}
        lost = {node: self._plan.refused.get(node, _OTHER) for node in named if node not in work}
        unclaimed = [node for node in self._plan.unclaimed if node in work]
        refused = {**self._refusals(unclaimed), **self._changed(unclaimed), **unfit}
        refused = {node: why for node, why in refused.items() if node in work}
        if self._task.check_mode:
            return {"changed": len(work) > len(refused), "results": {}, "refused": {**lost, **refused}, "resume": []}
        if only_arms:
            work = {node: work[node] for node in self._plan.unclaimed if node in work}
        else:
            # Slurm was read after the orders were armed, and right before the resets; to arm a node now would take long.
            refused = {**{node: _OTHER for node, one in work.items() if one.state in (PLANNED, VERIFIED)}, **refused}
        run = MachineRun(
            self._wanted,
            self._desk,
            self._fleet(),
            self._ssh(),
            self._site.bounds,
            self._say,
            power_at_once=self._site.given.choices["provision_at_once"],
        )
        run.run(work, refused, only_arms=only_arms)
        results = outcome.results(run.progress, run.stopped)
        done = [node for node in results if node not in run.stopped and run.progress[node].state in _DONE[only_arms]]
        # Nothing was done to a machine whose order did not begin.
        untouched = [node for node in refused if not run.progress[node].order]
        resume = [*(node for node in done if not only_arms), *untouched]
        taken = self._desk.hold(resume, self._desk.look(resume))
        failed = {node: one["reason"] or one["state"] for node, one in results.items() if node not in done}
        return {
            "changed": len(untouched) < len(results),
            "results": results,
            "refused": {**lost, **taken, **failed},
            "resume": [node for node in resume if node not in taken],
        }

    def _changed(self, nodes: list[str]) -> dict[str, str]:
        """Return node -> that its order differs from that of the plan, which a person has seen."""
        planned = self._task.args.get("digests") or {}
        return {node: _CHANGED for node in nodes if planned.get(node, one := self._wanted[node].digest) != one}

    def _refusals(self, nodes: list[str]) -> dict[str, str]:
        """Return node -> why Slurm forbids to install it."""
        if not self._site.given.cluster.services.controllers:
            return {}
        sworn = str(self._site.given.choices["provision_without_slurm"])
        return slurm_gate.refusals(nodes, self._task.args.get("slurm") or {}, sworn, bool(self._task.check_mode))
