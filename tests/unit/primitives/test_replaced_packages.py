"""Packages that others replace: a hold keeps apt from removing them, so a run releases them first, and holds them after a failure."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.bedplate.cluster.plugins.action.deploy import ActionModule
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import dpkg
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.deployed_packages import (
    DeployedPackages,
)

HELD = ["libcuda-580", "libgpucomp-580", "headers-6.8"]
ARGUMENTS = {"manifest": "demo", "packages": ["libcuda=590"], "hold": ["libcuda"], "replaces": ["lib*-[0-9]*"]}


def installed(*names: str) -> str:
    return "".join(f"{name}\tamd64\tinstalled\t1\n" for name in names)


def found(tmp_path: Path, there: str, **more: Any) -> dict[str, Any]:
    """Return the work for apt on a machine where `there` is installed and HELD is held from an earlier run."""
    dpkg.Holds(tmp_path, lambda _argv: Outcome(0, "", "")).apply("demo", HELD, check=False)

    def run(argv: list[str]) -> Outcome:
        patterns = argv[argv.index("--") + 1 :] if "--" in argv else []
        lines = [*there.splitlines(keepends=True), installed("dpkg")]
        return Outcome(
            0, "".join(one for one in lines if any(fnmatchcase(one.split("\t")[0], two) for two in patterns)), ""
        )

    lists = {"packages": ["libcuda=1"], "hold": [], "follow": [], "replaces": ARGUMENTS["replaces"], **more}
    arguments: dict[str, Any] = {"manager": "apt", "manifest": "demo", "check": False, **lists}
    return DeployedPackages(**arguments, state_directory=tmp_path, run=run).to_install()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpkg, "outdated", lambda: False)


def test_installed_packages_that_this_manifest_holds_are_replaced(tmp_path: Path) -> None:
    there = installed("libcuda", "libcuda-580", "libgpucomp-580", "libother-580", "headers-6.8")
    # libother-580 is of somebody else, and the headers are no package that the new ones replace.
    assert found(tmp_path, there)["replaced"] == ["libcuda-580", "libgpucomp-580"]


def test_what_is_still_wanted_is_not_replaced(tmp_path: Path) -> None:
    there = installed("libcuda", "libcuda-580", "libgpucomp-580")
    named = {"packages": ["libcuda-580=1"], "follow": ["libgpucomp-*=1"]}
    assert found(tmp_path, there, **named) == {}


def test_nothing_is_replaced_where_it_is_gone_or_dnf_does_it(tmp_path: Path) -> None:
    assert found(tmp_path, installed("libcuda")) == {}
    assert "replaced" not in found(tmp_path, "", manager="dnf", packages=[])


class Action(ActionModule):
    """The action plugin, beside a machine that plays back an answer for each module, and remembers what it was sent."""

    answers: dict[str, dict[str, Any]]
    sent: list[tuple[str, Any, bool]]

    def _execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        what = module_args.get("argv") or module_args.get("name")
        kind = module_name.rpartition(".")[2]
        if kind == "deploy":
            first = not [one for one in self.sent if one[0] != "deploy"]
            self.sent.append((kind, None, bool(self._task.check_mode)))
            left = {"missing": ["libcuda=590"], "passing": [], "astray": [], "replaced": HELD[:2]}
            return {"changed": False, **({**left, "outdated": False, "unknown": []} if first else {})}
        self.sent.append((" ".join([kind, module_args.get("state", "")]).strip(), what, bool(self._task.check_mode)))
        key = what[1] if kind == "command" else module_args.get("state", "present")
        return dict(self.answers.get(str(key), {"changed": True, "rc": 0}))


def action_of(arguments: dict[str, Any], check: bool, answers: dict[str, Any]) -> Action:
    """Return the action of a task whose modules answer as stated."""
    task = Task.load({"name": "Deploy", "bedplate.cluster.deploy": arguments, "check_mode": check})
    loader = DataLoader()
    action = Action(
        task=task,
        connection=SimpleNamespace(_shell=SimpleNamespace(tmpdir="/nowhere")),
        play_context=PlayContext(),
        loader=loader,
        templar=Templar(loader=loader, variables={}),
        shared_loader_obj=None,
    )
    action.answers, action.sent = answers, []
    return action


def deploy(*, check: bool = False, **answers: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, Any, bool]]]:
    action = action_of(ARGUMENTS, check, answers)
    return dict(action.run(task_vars={})), action.sent


def test_a_run_releases_installs_and_removes_in_this_order() -> None:
    result, sent = deploy()
    assert not result.get("failed")
    assert [(kind, what) for kind, what, _check in sent] == [
        ("deploy", None),
        ("command", ["apt-mark", "unhold", *HELD[:2]]),
        ("apt", ["libcuda=590"]),
        ("apt absent", HELD[:2]),
        ("deploy", None),
    ]
    assert (result["changed"], result["installed"]) == (True, ["libcuda=590"])


def test_after_a_failed_installation_they_are_held_again_and_nothing_is_removed() -> None:
    result, sent = deploy(present={"failed": True, "msg": "no room"})
    assert result["failed"] is True
    assert result["msg"].startswith("no room")
    assert [what for kind, what, _check in sent if kind != "deploy"][2:] == [
        ["apt-cache", "madison", "libcuda"],
        ["apt-mark", "hold", *HELD[:2]],
    ]


def test_nothing_is_installed_where_they_could_not_be_released() -> None:
    result, sent = deploy(unhold={"failed": True, "stderr": "E: locked"})
    assert (result["failed"], result["msg"]) == (True, f"apt-mark unhold {' '.join(HELD[:2])} failed: E: locked")
    assert "apt" not in [kind for kind, _what, _check in sent]


def test_check_mode_simulates_the_transaction_and_releases_nothing() -> None:
    result, sent = deploy(check=True)
    (command,) = [(what, check) for kind, what, check in sent if kind == "command"]
    # A command that only simulates runs in check mode as well.
    assert command == (
        [
            "apt-get", "--simulate", "--quiet", "--yes", "--no-install-recommends", "--allow-downgrades",
            "--allow-change-held-packages", "install", "libcuda=590", "libcuda-580-", "libgpucomp-580-",
        ],
        False,
    )  # fmt: skip
    assert "apt" not in [kind for kind, _what, _check in sent]
    assert sent[-1] == ("deploy", None, True)
    assert result["changed"] is True
    result, _sent = deploy(check=True, **{"--simulate": {"failed": True, "stderr": "E: Unable to correct problems"}})
    assert (result["failed"], "Unable to correct problems" in result["msg"]) == (True, True)


def test_packages_are_replaced_only_with_a_manifest_that_recorded_them() -> None:
    action = action_of({"packages": ["a"], "replaces": ["b"]}, check=False, answers={})
    with pytest.raises(AnsibleActionFail, match="replaces: needs a manifest"):
        action.run(task_vars={})
    assert not action.sent


def test_no_question_to_dpkg_where_nothing_held_is_left_over(tmp_path: Path) -> None:
    dpkg.Holds(tmp_path, lambda _argv: Outcome(0, "", "")).apply("demo", ["libcuda"], check=False)
    calls: list[list[str]] = []

    def run(argv: list[str]) -> Outcome:
        calls.append(argv)
        return Outcome(0, installed("libcuda"), "")

    lists: dict[str, Any] = {"packages": ["libcuda=1"], "hold": [], "follow": [], "replaces": ["lib*-[0-9]*"]}
    arguments: dict[str, Any] = {"manager": "apt", "manifest": "demo", "check": False, **lists}
    assert DeployedPackages(**arguments, state_directory=tmp_path, run=run).to_install()["replaced"] == []
    assert not [argv for argv in calls if "lib*-[0-9]*" in argv]
