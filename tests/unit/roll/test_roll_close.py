# SPDX-License-Identifier: GPL-3.0-or-later
"""The close of a roll releases the record, and a finished run leaves no reservation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.action import roll_close, roll_plan

PLAN: dict[str, Any] = {"run": "r1", "holder": "here:1:1", "nodes": "n[1-4]", "reservation": ""}
NONE = {"name": "bedplate_roll_r1", "exists": False, "nodes": ""}


class Controller:
    """It keeps the calls of an action, and answers by module and state."""

    def __init__(self, **answers: dict[str, Any]) -> None:
        task = SimpleNamespace(action="x", args={}, check_mode=False, async_val=0)
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        super().__init__(task, connection, SimpleNamespace(check_mode=False), None, None, None)
        self._answers, self.calls = answers, list[tuple[str, Any]]()
        self._task_vars = {"ansible_play_hosts_all": ["n1", "n2"]}

    def _module(self, name: str, **arguments: Any) -> dict[str, Any]:
        key = "_".join(filter(None, (name, arguments.get("state"))))
        self.calls.append((key, arguments.get("finished")))
        return self._answers.get(key, {})


class Close(Controller, roll_close.ActionModule):
    """The close without a controller."""


class Plan(Controller, roll_plan.ActionModule):
    """The plan without a controller."""


READ, REMOVE, RELEASE = "slurm_reservation", "slurm_reservation_absent", "run_record_released"
HAS = {**NONE, "exists": True, "nodes": "n[1-2],gone1"}


@pytest.mark.parametrize(
    ("answers", "calls", "warning"),
    [
        ({READ: NONE}, [(READ, None), (RELEASE, True)], None),
        ({READ: HAS}, [(READ, None), (REMOVE, None), (RELEASE, True)], None),
        (
            {READ: HAS, REMOVE: {"failed": True, "msg": "no answer"}},
            [(READ, None), (REMOVE, None), (RELEASE, False)],
            "run r1: its reservation was not removed: no answer",
        ),
        ({READ: {"failed": True, "msg": "x"}}, [(READ, None), (RELEASE, False)], "run r1: its reservation was not"),
        ({READ: {"unreachable": True}}, [(READ, None), (RELEASE, False)], "run r1: its reservation was not removed"),
        (
            {READ: {**HAS, "nodes": "n[1-3]"}},
            [(READ, None), (RELEASE, False)],
            "run r1: the reservation bedplate_roll_r1 stays, because it is for other nodes too: n3",
        ),
        ({READ: NONE, RELEASE: {"failed": True, "msg": "x"}}, [(READ, None), (RELEASE, True)], "run r1: the record"),
        ({READ: NONE, RELEASE: {"unreachable": True}}, [(READ, None), (RELEASE, True)], "run r1: the record"),
    ],
    ids=[
        "none",
        "removed",
        "not removed",
        "not read",
        "unreachable",
        "of other nodes",
        "record not released",
        "record unreachable",
    ],
)
def test_a_finished_run_has_no_reservation_and_else_it_keeps_its_name(
    answers: dict[str, dict[str, Any]], calls: list[tuple[str, Any]], warning: str | None
):
    action = Close(**answers)
    found = action._end(PLAN, finished=True)
    assert action.calls == calls
    assert len(found) == (warning is not None)
    assert all(text.startswith(str(warning)) for text in found)


def test_an_unfinished_run_keeps_its_reservation():
    action = Close()
    assert action._end(PLAN, finished=False) == []
    assert action.calls == [(RELEASE, False)]


def test_a_window_that_an_earlier_call_booked_is_removed_by_the_call_that_finishes():
    nothing = {"hosts": ["!all"], "open": ["!all"], "left": {}, "problems": {}, "canaries": [], "parts": {}}
    plan = {**PLAN, **nothing, "failures": 0, "until": 9e9, "choices": {"waiting_fails": False}}
    variables = {
        "ansible_play_hosts_all": ["n1", "n2"],
        "hostvars": SimpleNamespace(raw_get=lambda _host: {"__roll": plan}),
    }
    idle = {"n1": {"outcome": "resumed", "kind": "", "run": ""}}
    action = Close(slurm_node={"nodes": idle, "now": ""}, slurm_reservation=HAS)
    assert not action.run(task_vars=variables)["failed"]
    assert [name for name, _finished in action.calls] == ["slurm_node", READ, REMOVE, RELEASE]


@pytest.mark.parametrize(("found", "finished"), [(NONE, True), (HAS, False), ({"failed": True}, False)])
def test_a_plan_that_fails_leaves_the_reservation_of_an_earlier_call(found: dict[str, Any], finished: bool):
    action = Plan(slurm_reservation=found)
    action._holder = PLAN["holder"]
    action._release("r1", finished=True)
    assert action.calls == [(READ, None), (RELEASE, finished)]
