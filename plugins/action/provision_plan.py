# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check what may be installed, hold it for this run, and verify the machines by reads; documented in plugins/modules/provision_plan.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import KNOWN, PLANNED
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import bmc_steps, outcome, slurm_gate
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import job_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.planning import hold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.provision_action import ProvisionAction


class ActionModule(ProvisionAction):
    """Read progress and images on the provision host, hold the nodes of the run there, and read the machines at their BMCs."""

    _VALID_ARGS = frozenset(("slurm",))

    def _early(self) -> dict[str, str]:
        """Return node -> why Slurm refuses it, for nodes without an order: an order of an earlier run is closed after the drain."""
        chosen = self._site.given.choices
        if not self._site.given.cluster.services.controllers or "slurm" not in self._task.args:
            return {}
        nodes = [node for node in self._plan.new if not self._plan.work[node].order]
        answer, sworn = self._task.args["slurm"] or {}, str(chosen["provision_without_slurm"])
        return slurm_gate.early_refusals(nodes, answer, sworn, bool(chosen["provision_drain_seconds"]))

    def _refuse(self, reasons: Mapping[str, str]) -> None:
        """Take nodes out of the plan. An order that an earlier run left is closed later; a node without one may go back to Slurm."""
        for node, why in reasons.items():
            if self._plan.work.pop(node).order:
                self._unfit[node] = why
            elif self._is_untouched(node):
                self._untouched.append(node)
            self._plan.refused[node] = why

    def _is_untouched(self, node: str) -> bool:
        """Return whether no run has done more to a node than to drain it."""
        before = self._look.nodes[node].progress
        return before is None or before.state in (PLANNED, KNOWN)

    def _work(self) -> dict[str, Any]:
        self._unfit, self._untouched = dict[str, str](), list[str]()
        check, fleet = bool(self._task.check_mode), self._fleet()
        if not check:
            self._plan = hold(self._plan, self._wanted, self._site.confirmed.wiped, self._desk, self._look)
        plan = self._plan
        # No request to the BMC of a node that Slurm refuses.
        self._refuse(self._early())
        jobs = {node: job_of(self._wanted[node]) for node in plan.new}
        may_be_on = {node for node in jobs if self._wanted[node].wipes or node in plan.began}
        verified = fleet.each(
            jobs, lambda client, job: bmc_steps.verify(client, job, job.target.node in may_be_on), read_only=True
        )
        found = {node: one.error or " ".join(one.value or ()) for node, one in verified.items()}
        self._refuse({node: why for node, why in found.items() if why})
        return {
            "changed": check and bool(plan.work),
            "work": list(plan.work),
            "drain": fold(plan.unclaimed),
            "why": f"installs image {', '.join(dict.fromkeys(self._wanted[node].image_name for node in plan.work))}",
            "known": list(plan.known),
            "digests": {node: self._wanted[node].digest for node in plan.work},
            "unfit": self._unfit,
            "resume": [] if check else self._untouched,
            "refused": plan.refused,
            "msg": "\n".join(outcome.intended(plan, self._wanted, check)),
            "_ansible_verbose_always": True,
        }
