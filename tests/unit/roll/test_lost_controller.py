# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller that does not answer fails the plan and the close of a roll with what to do, and no node is reported as done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.bedplate.cluster.plugins.action import roll_close, roll_plan

PLAN: dict[str, Any] = {
    "run": "r1",
    "hosts": ["n1"],
    "open": ["!all"],
    "left": {},
    "problems": {},
    "canaries": [],
    "parts": {},
    "failures": 0,
    "until": 9e9,
    "nodes": "n[1-2]",
    "holder": "here:1:1",
    "reservation": "",
    "choices": {"waiting_fails": False},
}


def stand_ins() -> list[Any]:
    task = SimpleNamespace(action="x", args={}, check_mode=False, async_val=0)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
    return [task, connection, SimpleNamespace(check_mode=False, remote_user=None), None, None, None]


class Lost:
    """A connection that fails."""

    def _execute_module(self, **_arguments: Any) -> dict[str, Any]:
        raise AnsibleConnectionFailure("no route to host")


class Plan(Lost, roll_plan.ActionModule):
    """The plan without a controller."""


class Close(Lost, roll_close.ActionModule):
    """The close without a controller."""


VARIABLES = {
    "inventory_hostname": "n1",
    "ansible_delegated_vars": {"ctl1": {}},
    "ansible_play_hosts_all": ["n1"],
    "hostvars": SimpleNamespace(raw_get=lambda _host: {"__roll": PLAN}),
}


@pytest.mark.parametrize("action", [Plan, Close])
def test_a_call_without_an_answer_has_failed(action: type[Plan] | type[Close]):
    made = action(*stand_ins())
    made._task_vars = VARIABLES
    found = made._module("run_record")
    # Ansible ignores `unreachable` in these plays.
    assert (found["failed"], "unreachable" in found) == (True, False)
    assert found["msg"].startswith("ctl1: no answer by SSH: no route to host. ")


def test_a_close_that_does_not_read_slurm_fails_without_nodes():
    found = Close(*stand_ins()).run(task_vars=VARIABLES)
    assert (found["failed"], "nodes" in found) == (True, False)
    assert found["msg"].startswith("Slurm was not read after the roll: ctl1: no answer by SSH")
