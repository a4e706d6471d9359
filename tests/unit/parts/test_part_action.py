# SPDX-License-Identifier: GPL-3.0-or-later
"""What the steps and parts of one task hand to each other, and what the task returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.action.part import ActionModule
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Step

DEPLOY = "bedplate.cluster.deploy"
COPY = "ansible.builtin.copy"


@dataclass
class Task:
    """A task with its arguments, as far as the action reads it."""

    args: dict[str, Any] = field(default_factory=dict)
    diff: bool = True
    check_mode: bool = False

    def copy(self) -> Task:
        return Task(dict(self.args), self.diff, self.check_mode)


class Part(ActionModule):
    """The action, with plugins and modules that note what they get and return the next of `results`."""

    def __init__(self, *results: dict[str, Any]) -> None:
        self._task, self._phases = Task(), frozenset(("packages", "files", "services"))
        self._task_vars, self._role = {"inventory_hostname": "n1"}, "lamp"
        self._connection = self._play_context = self._loader = self._templar = None
        self._shared_loader_obj = SimpleNamespace(action_loader=self)
        self.results = list(results)
        self.ran: list[tuple[str, dict[str, Any], bool]] = []

    def has_plugin(self, name: str) -> bool:
        return name in (DEPLOY, COPY)

    def get(self, name: str, task: Task, **_: Any) -> Any:
        def run(task_vars: dict[str, Any]) -> dict[str, Any]:
            return self.note(name, task.args, task.diff)

        return SimpleNamespace(run=run)

    def note(self, name: str, arguments: dict[str, Any], diff: bool) -> dict[str, Any]:
        self.ran.append((name, arguments, diff))
        return self.results.pop(0)

    def _execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        return self.note(module_name, module_args, True)


def test_a_part_restarts_units_also_after_files_of_the_part_before_it() -> None:
    action = Part({"changed": True, "changed_files": ["/a"]}, {"changed": False, "changed_files": ["/b"]})
    found = action._in_order([("one", Step(DEPLOY, {"units": []})), ("two", Step(DEPLOY, {"touched": ["/own"]}))])
    assert [arguments.get("touched") for _name, arguments, _diff in action.ran] == [None, ["/own", "/a"]]
    assert (found["changed"], found["changed_files"]) == (True, ["/a", "/b"])


def test_a_part_that_a_step_removes_takes_no_changed_files() -> None:
    action = Part({"changed": True, "changed_files": ["/a"]}, {"changed": True})
    action._in_order([("one", Step(DEPLOY, {"units": []})), ("two", Step(DEPLOY, {"state": "absent"}))])
    assert "touched" not in action.ran[1][1]


@pytest.mark.parametrize("how", ["failed", "unreachable"])
def test_nothing_runs_after_a_failure(how: str) -> None:
    action = Part({"changed": True}, {how: True, "msg": "no space left"}, {"changed": False})
    found = action._in_order([("one", Step("a.b.c", {})), ("two", Step(DEPLOY, {})), ("three", Step(DEPLOY, {}))])
    assert [name for name, _arguments, _diff in action.ran] == ["a.b.c", DEPLOY]
    assert (found[how], found["msg"], found["changed"]) == (True, "no space left", True)


@pytest.mark.parametrize(("changed", "runs"), [(["/a"], True), (["/b"], False), ([], False)])
def test_a_step_after_a_change_runs_only_then(changed: list[str], runs: bool) -> None:
    action = Part({"changed_files": changed}, {})
    action._in_order([("part", Step(DEPLOY, {})), ("load", Step("a.b.c", {}, after_change="/a"))])
    assert (len(action.ran) == 2) is runs


@pytest.mark.parametrize("hidden", [True, False])
def test_a_step_with_a_hidden_diff_makes_none(hidden: bool) -> None:
    action = Part({})
    action._in_order([("copy", Step(COPY, {"dest": "/a"}, hide_diff=hidden))])
    assert action.ran == [(COPY, {"dest": "/a"}, not hidden)]


def test_a_run_without_services_warns_of_units_that_wait() -> None:
    arguments = {"only": ["files"], "units": [{"name": "a.service", "restart_after": ["/a"]}]}
    found = Part({"changed": True, "changed_files": ["/a"]})._in_order([("one", Step(DEPLOY, arguments))])
    assert found["warnings"][0].startswith("a.service: files changed")


def test_the_task_keeps_its_own_arguments() -> None:
    """A loop, or a retry, runs it again."""
    action = Part({})
    action._task.args["name"] = "one"
    action._in_order([("one", Step(DEPLOY, {"units": []}, hide_diff=True))])
    assert (action._task.args, action._task.diff) == ({"name": "one"}, True)
