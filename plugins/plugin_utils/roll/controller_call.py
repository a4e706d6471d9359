# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of modules on the controller: whether one was lost, and the result of a controller that SSH did not reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase


class ControllerAction(ActionBase):  # type: ignore[misc]
    """An action that calls modules on the controller to which its task is delegated; `_task_vars` are the variables of the task."""

    _task_vars: dict[str, Any]

    def _module(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the result of a module of this collection; a controller that SSH does not reach is a result, too."""
        try:
            found: dict[str, Any] = self._execute_module(
                module_name=f"bedplate.cluster.{name}", module_args=arguments, task_vars=self._task_vars
            )
        except AnsibleConnectionFailure as error:
            return no_answer(self._task_vars, error)
        return found

    def _released(self, kind: str, plan: Mapping[str, Any], finished: bool) -> list[str]:
        """Release the record of a run, `plan` has its holder; return a warning if that failed, else nothing."""
        released = self._module("run_record", kind=kind, state="released", holder=plan["holder"], finished=finished)
        if not is_lost(released):
            return []
        return [f"run {plan['run']}: the record was not released: {released.get('msg', '')}"]


def is_lost(result: Mapping[str, Any]) -> bool:
    """Return whether a call failed or the controller did not answer."""
    return bool(result.get("failed") or result.get("unreachable"))


def no_answer(variables: Mapping[str, Any], error: object) -> dict[str, Any]:
    """Return the result of a call without an answer; `variables` are the variables of the task.

    It is `failed`: the plays of a roll ignore `unreachable`, and Ansible would still end the run for all hosts.
    """
    controller = next(iter(variables.get("ansible_delegated_vars") or ()), variables["inventory_hostname"])
    remedy = f"Check the connection to {controller}, and run the playbook again: it continues the run"
    return {"failed": True, "msg": f"{controller}: no answer by SSH: {error}. {remedy}"}
