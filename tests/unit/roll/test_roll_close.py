# SPDX-License-Identifier: GPL-3.0-or-later
"""The close of a roll releases the record, and a finished run leaves no reservation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.action import roll_close, roll_plan

PLAN: dict[str, Any] = {"run": "r1", "holder": "here:1:1", "nodes": "n[1-4]", "reservation": ""}
NOTHING: dict[str, Any] = {"hosts": ["!all"], "open": ["!all"], "left": {}, "problems": {}, "canaries": [], "parts": {}}
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
    plan = {**PLAN, **NOTHING, "failures": 0, "until": 9e9, "choices": {"waiting_fails": False}}
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


IDLE: dict[str, Any] = {"outcome": "resumed", "state": "IDLE", "why": "", "jobs": [], "kind": "", "run": ""}
HAS_IT = {**IDLE, "outcome": "drained", "state": "DRAIN+IDLE", "kind": "roll", "run": "r1"}


class Noted(Close):
    """The close on a fake controller, which also keeps what it writes into reasons: nodes and text."""

    def __init__(self, plan: dict[str, Any], nodes: dict[str, Any], waiting_fails: bool = False) -> None:
        super().__init__(slurm_node={"nodes": nodes, "now": ""}, slurm_reservation=NONE)
        choices = {"choices": {"waiting_fails": waiting_fails}}
        found = {"__roll": {**PLAN, **NOTHING, "failures": 9, "until": 9e9, **choices, **plan}}
        self._task_vars["hostvars"] = SimpleNamespace(raw_get=lambda _host: found)
        self._display = SimpleNamespace(display=lambda _text: None)
        self.notes: list[tuple[str, str]] = []

    def close(self) -> dict[str, Any]:
        return self.run(task_vars=self._task_vars)

    def _module(self, name: str, **arguments: Any) -> dict[str, Any]:
        if arguments.get("state") == "noted":
            self.notes.append((arguments["nodes"], arguments["why"]))
        return super()._module(name, **arguments)


def test_a_run_without_a_plan_fails_without_a_call():
    action = Close()
    nothing = {"ansible_play_hosts_all": ["n1"], "hostvars": SimpleNamespace(raw_get=lambda _host: {})}
    found = action.run(task_vars=nothing)
    assert (found["failed"], found["msg"]) == (True, "This run has no plan: nothing was rolled.")
    assert action.calls == []


def test_reasons_are_written_on_nodes_that_the_run_has_drained_alone():
    problems = {"n1": "no answer by SSH", "n2": "no answer by SSH", "n3": "disk full", "n4": "disk full"}
    action = Noted({"problems": problems}, {"n1": HAS_IT, "n2": IDLE, "n3": HAS_IT, "n4": IDLE})
    found = action.close()
    assert action.notes == [
        ("n1", "verify: unreachable: no answer by SSH"),
        ("n3", "verify: failed: disk full"),
    ]
    assert found["outcomes"] == {"unreachable": "n[1-2]", "failed": "n[3-4]"}


@pytest.mark.parametrize(
    ("plan", "waiting_fails", "fails"),
    [
        ({"problems": {"n1": "no answer by SSH"}}, False, True),
        ({"problems": {"n1": "disk full"}}, False, True),
        ({"left": {"n1": "for a later call"}}, False, False),
        ({"left": {"n1": "for a later call"}}, True, True),
        ({"left": {"n1": "out of service: DRAIN"}}, True, False),
        ({}, True, False),
    ],
    ids=["unreachable", "failed", "waiting", "waiting fails", "of others", "nothing"],
)
def test_a_node_that_failed_or_did_not_answer_fails_the_run_and_one_that_waits_on_request_alone(
    plan: dict[str, Any], waiting_fails: bool, fails: bool
):
    assert Noted(plan, {"n1": IDLE}, waiting_fails).close()["failed"] is fails


@pytest.mark.parametrize("state", [HAS_IT, IDLE], ids=["drained", "in service"])
def test_a_run_is_finished_without_nodes_that_it_has_drained_or_that_wait(state: dict[str, Any]):
    for plan in ({}, {"left": {"n1": "for a later call"}}):
        action = Noted(plan, {"n1": state})
        action.close()
        assert action.calls[-1] == (RELEASE, state is IDLE and plan == {})


@pytest.mark.parametrize(("begun", "stop"), [(True, ""), (False, "its time is over (roll_deadline)")])
def test_a_roll_whose_batches_had_all_begun_was_not_stopped(begun: bool, stop: str):
    failed = {"nodes": {"n1": {"outcome": "failed", "why": "x"}}}
    plan = {**PLAN, **NOTHING, "hosts": ["n1"], "failures": 9, "until": 0.0, "choices": {"waiting_fails": False}}
    action = Noted({}, {"n1": IDLE})
    found = {"__roll": plan, **({"__roll_drained": failed} if begun else {})}
    action._task_vars["hostvars"] = SimpleNamespace(raw_get=lambda _host: found)
    assert action.close()["stopped"] == stop


def test_a_resumed_node_that_health_takes_before_the_close_fails_the_run_and_keeps_its_reason():
    text = "gpu-count: 7 of 8"
    sick = {**IDLE, "outcome": "drained", "state": "DRAIN+IDLE", "kind": "health", "run": "limiter", "text": text}
    plan = {**PLAN, **NOTHING, "hosts": ["n1", "n2"], "failures": 0, "until": 9e9, "choices": {"waiting_fails": False}}
    plan["canaries"] = ["n1"]
    done = {
        "__roll_drained": {"nodes": {"n1": {"outcome": "drained"}}, "halted": "", "sick": {}},
        "__roll_step": "verified",
        "__roll_resumed": {"nodes": {"n1": {"outcome": "resumed"}}},
    }
    action = Noted({}, {"n1": sick, "n2": IDLE})
    hosts: dict[str, dict[str, Any]] = {"n1": {"__roll": plan, **done}, "n2": {}}
    action._task_vars["hostvars"] = SimpleNamespace(raw_get=hosts.__getitem__)
    found = action.close()
    assert (found["failed"], found["stopped"]) == (True, "canary n1 failed")
    assert found["outcomes"] == {"failed": "n1", "waiting": "n2"}
    assert text in found["nodes"]["n1"]["why"]
    assert action.notes == []


def test_a_close_in_check_mode_releases_nothing():
    action = Noted({}, {"n1": IDLE})
    action._task.check_mode = True
    assert not action.close()["failed"]
    assert action.calls == [("slurm_node", None)]
