# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of modules on the controller: whether one was lost, and the result of a controller that SSH did not reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def is_lost(result: Mapping[str, Any]) -> bool:
    """Return whether a call failed or the controller did not answer."""
    return bool(result.get("failed") or result.get("unreachable"))


def no_answer(variables: Mapping[str, Any], error: object) -> dict[str, Any]:
    """Return the result of a call without an answer; `variables` are the variables of the task.

    It is `failed`: the plays of a roll ignore `unreachable`, and Ansible would still end the run for all hosts.
    """
    controller = next(iter(variables.get("ansible_delegated_vars") or ()), variables["inventory_hostname"])
    remedy = f"Check the connection to {controller}, and run roll.yml again: it continues the run"
    return {"failed": True, "msg": f"{controller}: no answer by SSH: {error}. {remedy}"}
