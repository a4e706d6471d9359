# SPDX-License-Identifier: GPL-3.0-or-later
"""The actions of a recovery: what they do not know counts as refused, as held, or as not recovered."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.bedplate.cluster.plugins.action import recover_close, recover_host_key, recover_plan
from tests.unit.recover.machine import made

KNOWN = {"state": "known", "why": "", "offered": [], "recorded": []}
IDLE = {"outcome": "resumed", "state": "IDLE", "jobs": [], "kind": "", "run": "", "by_slurm": False}
FREE = {"held": False, "run": "", "holder": "", "until": ""}
PLAN: dict[str, Any] = {
    **{"run": "r1", "holder": "here:1:1", "hosts": ["n1"], "parts": {"n1": "new host key"}, "nodes": "n1"},
    **{"kept": {}, "done": {}, "stopped": {}, "lost": {}, "to_drain": "n1"},
}


def stand_ins(args: dict[str, Any], check: bool = False) -> list[Any]:
    task = SimpleNamespace(action="x", args=args, check_mode=check, async_val=0, diff=False)
    connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None), transport="ssh", get_option=lambda _name: None)
    templar = SimpleNamespace(template=lambda value: value)
    return [task, connection, SimpleNamespace(check_mode=check, remote_user=None), None, templar, None]


class Answers:
    """Answers of modules on the controller, by name and `kind` of a record; None is no answer. `calls` are those that change something."""

    answers: dict[str, Any]
    calls: list[dict[str, Any]]

    def _execute_module(self, module_name: str, module_args: dict[str, Any], **_more: Any) -> dict[str, Any]:
        name = module_name.rpartition(".")[2]
        if module_args.get("state"):
            self.calls.append(module_args)
            return {"changed": True, "run": "r1"}
        found = self.answers.get(f"{name} {module_args.get('kind')}", self.answers.get(name))
        if found is None:
            raise AnsibleConnectionFailure("no route to host")
        return dict(found)


class Plan(Answers, recover_plan.ActionModule):
    """The beginning of a recovery."""


class Close(Answers, recover_close.ActionModule):
    """The end of a recovery."""


def variables(**facts: Any) -> dict[str, Any]:
    return {
        "inventory_hostname": "n1",
        "ansible_play_hosts_all": ["n1"],
        "hostvars": SimpleNamespace(raw_get=lambda _host: {"__recover_key": KNOWN, **facts}),
    }


def begun(answers: dict[str, Any], check: bool = False) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    action = Plan(*stand_ins({"step": "begin"}, check))
    action.answers, action.calls = answers, []
    return action.run(task_vars=variables()), action.calls


@pytest.mark.parametrize("lost", ["run_record recover", "run_record roll", "slurm_node"])
def test_a_recovery_does_not_begin_without_an_answer(lost: str):
    answers = {"run_record recover": FREE, "run_record roll": FREE, "slurm_node": {"nodes": {"n1": IDLE}}, lost: None}
    found, calls = begun(answers)
    assert (found["failed"], calls) == (True, [])
    assert "no answer by SSH" in found["msg"]


def test_a_recovery_begins_with_its_record_and_a_preview_without_one():
    answers = {"run_record": FREE, "slurm_node": {"nodes": {"n1": IDLE}}}
    found, calls = begun(answers)
    assert [(one["kind"], one["state"]) for one in calls] == [("recover", "taken")]
    assert (found["run"], found["slurm"]) == ("r1", {"n1": IDLE})
    assert begun(answers, check=True)[1] == []


def test_a_recovery_that_does_not_read_slurm_in_the_end_has_failed():
    action = Close(*stand_ins({}))
    action.answers, action.calls = {"slurm_node": None}, []
    found = action.run(task_vars=variables(__recover=PLAN))
    assert (found["failed"], "nodes" in found, action.calls) == (True, False, [])
    assert found["msg"].startswith("Slurm was not read after the recovery: n1: no answer by SSH")


def test_a_key_that_cannot_be_judged_is_refused():
    """Such as one whose stated source cannot be read."""
    action = recover_host_key.ActionModule(*stand_ins({}))
    given = {"inventory_hostname": "n1", "recover_host_key_file": "/nonexistent"}
    found = action.run(task_vars=given)
    assert (found["state"], found["key"], found["changed"]) == ("refused", None, False)
    assert "/nonexistent" in found["why"]


@pytest.mark.parametrize("state", ["known", "refused", "new"])
def test_only_a_new_key_is_written(tmp_path: Path, state: str):
    known_hosts = tmp_path / "known_hosts"
    known_hosts.write_text("")
    key = {
        "name": "n1",
        "aliases": [],
        "keys": [made(tmp_path, "new").text],
        "kept": [],
        "authority": "",
        "hashes": False,
    }
    verdict = {"state": state, "key": {**key, "files": [str(known_hosts)]}}
    found = recover_host_key.ActionModule(*stand_ins({"verdict": verdict})).run(task_vars={"inventory_hostname": "n1"})
    is_new = state == "new"
    assert (found["changed"], found["files"]) == (is_new, [str(known_hosts)] if is_new else [])
    assert known_hosts.read_text().startswith("n1 ssh-ed25519 ") == is_new
