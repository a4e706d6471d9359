# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Install nodes that are verified and drained; documented in plugins/modules/provision_install.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import KNOWN
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import outcome, slurm_gate
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import MachineRun
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction


class ActionModule(ProvisionAction):
    """Drive the orders of nodes until each is known, refused or stopped."""

    _VALID_ARGS = frozenset(("work", "slurm"))
    _begin = "The run ended before all nodes were done; run it again, and it continues:"

    def _work(self) -> dict[str, Any]:
        named = set(self._task.args.get("work") or ())
        work = {node: one for node, one in self._plan.work.items() if node in named}
        gated = [node for node in self._plan.unclaimed if node in named]
        refused: dict[str, str] = {}
        if self._site.given.cluster.services.controllers:
            sworn = str(self._site.given.choices["provision_without_slurm"])
            check = bool(self._task.check_mode)
            refused = slurm_gate.refusals(gated, self._task.args.get("slurm") or {}, sworn, check)
        if self._task.check_mode:
            return {"changed": len(work) > len(refused), "results": {}, "refused": refused, "resume": []}
        run = MachineRun(
            self._wanted,
            self._desk,
            self._fleet(),
            self._ssh(),
            self._site.bounds,
            self._say,
            power_at_once=self._site.given.choices["provision_at_once"],
        )
        run.run(work, refused)
        results = outcome.results(run.progress, run.stopped)
        known = [node for node, one in results.items() if one["state"] == KNOWN]
        # Nothing was done to a machine whose order did not begin.
        untouched = [node for node in refused if not run.progress[node].order]
        return {
            "changed": len(untouched) < len(results),
            "results": results,
            "refused": {node: one["reason"] or one["state"] for node, one in results.items() if node not in known},
            "resume": [*known, *untouched],
        }
