# SPDX-License-Identifier: GPL-3.0-or-later
"""What bedplate.cluster.part asks the role, and what it runs of the answer: in which order, for which tags, and never after a refusal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.bedplate.cluster.plugins.action import part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Decision, Step
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import HostDecision

DEPLOY = "bedplate.cluster.deploy"
PHASES = ("packages", "files", "services")
CHECK, SETTINGS = Step("a.check", {}), Step("a.settings", {}, phases=("files",))


class Role:
    """In place of the role: notes what it was asked, and decides as told."""

    def __init__(self, decision: Decision | Exception) -> None:
        self._answer = decision
        self.asked: dict[str, Any] = {}

    def __call__(self, **host: Any) -> Role:
        self.asked.update(host)
        return self

    def decision(self, role: str, reported: Any) -> HostDecision:
        self.asked.update(role=role, reported=reported)
        if isinstance(self._answer, Exception):
            raise self._answer
        return HostDecision(role, {}, self._answer, lambda _name, _path, _values: "")


class Action(part.ActionModule):
    """The action; it notes the steps instead of running them."""

    def _run_step(self, step: Step, changed: Any) -> dict[str, Any]:
        self.ran = [*getattr(self, "ran", []), (step.module, dict(step.arguments))]
        return {"changed": False, "warnings": [f"of {step.module}"]}


def action(
    monkeypatch: pytest.MonkeyPatch, answer: Decision | Exception, arguments: dict[str, Any], **task: Any
) -> tuple[Action, Role]:
    role = Role(answer)
    monkeypatch.setattr(part, "RunHost", role)
    loader, context = DataLoader(), PlayContext()
    context.remote_user = "operator"
    made = Action(
        task=Task.load({"bedplate.cluster.part": {"role": "dcgm", **arguments}, **task}),
        connection=SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere")),
        play_context=context,
        loader=loader,
        templar=Templar(loader=loader, variables={}),
    )
    return made, role


def ran(made: Action, *tags: str) -> list[str]:
    made.run(task_vars={"ansible_run_tags": list(tags) or ["all"]})
    return [module for module, _arguments in getattr(made, "ran", [])]


def decision(refusal: str = "") -> Decision:
    return Decision({"dcgm_absent": {"manager": "apt"}}, steps={"early": [CHECK], "late": [SETTINGS]}, refusal=refusal)


ALL = {"before": ["early"], "name": "dcgm", "after": ["late"]}


def test_steps_come_before_and_after_the_part(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _role = action(monkeypatch, decision(), ALL)
    assert ran(made) == ["a.check", DEPLOY, "a.settings"]


def test_nothing_runs_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _role = action(monkeypatch, decision("GPUs are in use"), ALL)
    with pytest.raises(AnsibleActionFail, match="GPUs are in use"):
        ran(made)
    assert not hasattr(made, "ran")


@pytest.mark.parametrize("error", [ValueError("rdma_sm is wrong"), KeyError("rdma_sm is wrong")])
def test_an_error_of_the_role_names_it(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    made, _role = action(monkeypatch, error, {"name": "dcgm"})
    with pytest.raises(AnsibleActionFail, match=r"^role dcgm: rdma_sm is wrong$"):
        ran(made)


@pytest.mark.parametrize("check", [True, False])
def test_the_role_is_asked_with_what_the_run_says(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    made, role = action(monkeypatch, Decision(), {"name": "dcgm", "reported": {"a": 1}}, check_mode=check)
    ran(made)
    assert {key: role.asked[key] for key in ("role", "reported", "check", "login_user")} == {
        "role": "dcgm", "reported": {"a": 1}, "check": check, "login_user": "operator",
    }  # fmt: skip


def test_a_tag_leaves_out_steps_of_other_phases_and_never_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = [f"dcgm_{phase}" for phase in PHASES]
    for tag, expected in (("dcgm_packages", ["a.check"]), ("dcgm_files", ["a.check", DEPLOY, "a.settings"])):
        made, _role = action(monkeypatch, decision(), ALL, tags=tags)
        assert ran(made, tag) == expected


@pytest.mark.parametrize(("role", "name", "only"), [("cuda", "cuda", ["files"]), ("container_runtime", "pyxis", None)])
def test_a_tag_deploys_its_phase_and_an_undivided_part_whole(
    monkeypatch: pytest.MonkeyPatch, role: str, name: str, only: list[str] | None
) -> None:
    values = {
        "cuda": {
            "manager": "apt",
            "obstacle": None,
            "foreign_sources": {},
            "packages": [],
            "follow": [],
            "hold": [],
            "first_toolkit": [],
            "driver": "",
            "modules_load": [],
        },
        "pyxis": {"plugin": "/usr/lib/spank_pyxis.so", "slurmd": [], "touched": []},
    }[name]
    lists = ("apt_repositories", "apt_pins", "rpm_keys", "yum_repositories", "versionlocks")
    answer = Decision({name: {**{key: [] for key in lists}, **values}})
    made, _role = action(monkeypatch, answer, {"role": role, "name": name}, tags=[f"{role}_files"])
    assert ran(made, f"{role}_files") == [DEPLOY]
    assert made.ran[0][1].get("only") == only


def test_arguments_of_the_task_reach_the_part_and_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _role = action(monkeypatch, decision(), {"name": "dcgm", "keep_below": ["/etc/slurm/scripts"]})
    ran(made)
    assert made.ran[0][1]["keep_below"] == ["/etc/slurm/scripts"]
    made, _role = action(monkeypatch, decision(), {"name": "dcgm", "keep_bellow": ["/etc"]})
    with pytest.raises(AnsibleActionFail, match="keep_bellow"):
        ran(made)
    assert not hasattr(made, "ran")


def test_warnings_of_all_steps_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _role = action(monkeypatch, decision(), ALL)
    found = made.run(task_vars={"ansible_run_tags": ["all"]})
    assert found["warnings"] == ["of a.check", f"of {DEPLOY}", "of a.settings"]
