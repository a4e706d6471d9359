# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Turn named nodes on and off through their BMCs; documented in plugins/modules/bmc_power.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import power_guard, power_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import accounts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import (
    NameMistakesError,
    named_nodes,
    repeated_mistakes,
    targets_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.power_run import PowerOrder
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.run_input import RunError, RunInput, run_input
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import OFF
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call

_NOTHING = "Nothing was changed:"


class ActionModule(controller_call.ControllerAction):
    """Read Slurm on a controller, refuse nodes in use, and command the BMCs in threads on the control node."""

    _VALID_ARGS: frozenset[str] = frozenset()
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task once for all hosts of the play."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        extra = self._task.get_variable_manager().extra_vars
        try:
            given = run_input("power", self._task_vars, extra, self._templar.template)
            nodes = self._nodes(given)
            wanted = given.choices["power"]
            if refused := self._refusals(wanted, nodes, given):
                return {**result, "changed": False, "failed": True, "msg": "\n".join([_NOTHING, *refused])}
            return {**result, **self._powered(nodes, given)}
        except (RunError, SecretError, NameMistakesError) as error:
            raise AnsibleActionFail(f"{_NOTHING} {error}") from None

    def _nodes(self, given: RunInput) -> list[str]:
        """Return the named nodes. Raises NameMistakesError for mistakes in them, and in the nodes that a person names as unused."""
        named, sworn = (str(given.choices[name]) for name in ("power_nodes", "power_without_slurm"))
        mistakes = repeated_mistakes(sworn, "power_without_slurm", named, "power_nodes")
        try:
            nodes = named_nodes(named, given.cluster, "power_nodes", given.limit)
        except NameMistakesError as error:
            mistakes = [str(error), *mistakes]
        if mistakes:
            raise NameMistakesError("\n".join(mistakes))
        return nodes

    def _refusals(self, wanted: str, nodes: list[str], given: RunInput) -> list[str]:
        """Return why the power of nodes must not end. A Slurm that does not answer refuses all of them."""
        if wanted not in power_guard.ENDS_POWER or not given.cluster.services.controllers:
            return []
        found = self._module("slurm_node", nodes=fold(nodes))
        if controller_call.is_lost(found):
            sworn = str(given.choices["power_without_slurm"])
            return power_guard.without_slurm(nodes, sworn, str(found.get("msg", "no answer")))
        return power_guard.refusals(nodes, found["nodes"])

    def _powered(self, nodes: list[str], given: RunInput) -> dict[str, Any]:
        is_check = bool(self._task.check_mode)
        order = PowerOrder(given.choices["power"], float(given.choices["power_graceful"]), is_check)
        targets = targets_of(given.cluster, given.record, nodes)
        accounts = accounts_of(secrets_of(self._task_vars, self._templar, self._loader), targets)
        reach = given.reach if order.wanted == OFF else given.reach.at_most(given.choices["power_at_once"])
        results = power_run.run(targets, accounts, reach, order)
        changed = any(one.change and one.change.changed for one in results.values())
        before, after = (power_run.states(results, order, after=one) for one in (False, True))
        failed = [node for node, one in results.items() if one.error]
        return {
            "changed": changed,
            "failed": bool(failed),
            "failed_nodes": fold(failed),
            "msg": power_run.summary(results, order),
            **({"diff": [{"before": before, "after": after}]} if self._task.diff and changed else {}),
            "_ansible_verbose_always": not failed,
        }
