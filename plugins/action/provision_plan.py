# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check what may be installed, hold it for this run, and verify the machines by reads; documented in plugins/modules/provision_plan.py."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import bmc_steps, outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import job_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.planning import hold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction


class ActionModule(ProvisionAction):
    """Read progress and images on the provision host, hold the nodes of the run there, and read the machines at their BMCs."""

    _VALID_ARGS: frozenset[str] = frozenset()

    def _work(self) -> dict[str, Any]:
        check, fleet = bool(self._task.check_mode), self._fleet()
        if not check:
            self._plan = hold(self._plan, self._wanted, self._site.confirmed.wiped, self._desk, self._look)
        plan = self._plan
        jobs = {node: job_of(self._wanted[node]) for node in plan.new}
        may_be_on = {node for node in jobs if self._wanted[node].wipes or node in plan.began}
        verified = fleet.each(
            jobs, lambda client, job: bmc_steps.verify(client, job, job.target.node in may_be_on), read_only=True
        )
        for node, one in verified.items():
            if why := one.error or " ".join(one.value or ()):
                del plan.work[node]
                plan.refused[node] = why
        return {
            "changed": check and bool(plan.work),
            "work": list(plan.work),
            "drain": fold(plan.unclaimed),
            "why": f"installs image {', '.join(dict.fromkeys(self._wanted[node].image_name for node in plan.work))}",
            "known": list(plan.known),
            "refused": plan.refused,
            "msg": "\n".join(outcome.intended(plan, self._wanted, check)),
            "_ansible_verbose_always": True,
        }
