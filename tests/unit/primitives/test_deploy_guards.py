"""What deploy does before or instead of a change, so that another run, a killed run or a lock of dnf does no harm."""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.lock import one_at_a_time
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import rpm
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.deployed_packages import (
    DeployedPackages,
)
from ansible_collections.bedplate.cluster.plugins.modules import deploy
from tests.unit.primitives.packages.test_deployed_packages import RPM, Machine
from tests.unit.primitives.test_stale_journal import Module, ModuleFailedError, killed, run
from tests.unit.primitives.test_transaction import Node, changed, first


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def packages_of(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    """Have deploy ask this machine about packages."""
    monkeypatch.setattr(deploy, "DeployedPackages", partial(DeployedPackages, run=machine.run))


def test_a_run_waits_for_another_that_deploys_the_same_manifest(node: Node):
    first(node)
    before = node.tree()
    second = threading.Thread(target=run, args=(node, node.wanted(**{"d.conf": "second\n"})), kwargs={"prune": False})
    with one_at_a_time(node.state, "demo"):
        second.start()
        second.join(0.5)
        assert second.is_alive()
        assert node.tree() == before
    second.join(60)
    assert (node.root / "d.conf").read_text() == "second\n"


def test_check_mode_makes_no_lock(node: Node, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Module, "check_mode", True)
    assert run(node, node.wanted(one="1\n"))["changed"]
    assert not node.state.exists()


def test_check_mode_that_fails_leaves_what_a_killed_run_wrote_and_its_journal(
    node: Node, monkeypatch: pytest.MonkeyPatch
):
    first(node)
    killed(node)
    before, journal = node.tree(), node.journal.read_text()

    def fails(*_arguments: object, **_more: object) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(Module, "check_mode", True)
    monkeypatch.setattr(deploy, "_lock", fails)
    with pytest.raises(OSError, match="no answer"):
        run(node, changed(node), take_back=True)
    assert node.tree() == before
    assert node.journal.read_text() == journal


@pytest.mark.parametrize("check", [False, True])
def test_dnf_may_change_what_followed_the_packages_that_are_to_change(
    node: Node, monkeypatch: pytest.MonkeyPatch, check: bool
):
    """A lock on a follower of the old version would keep dnf from the new version."""
    locks = node.root / "versionlock.list"
    monkeypatch.setattr(rpm, "LOCKS", str(locks))
    packages_of(monkeypatch, Machine(rpm=RPM))
    arguments: dict[str, Any] = {"manager": "dnf", "packages": ["slurm"], "follow": ["slurm"]}
    locks.write_text("by-hand-1.*\n")
    assert run(node, [], **arguments)["changed"]
    locked = locks.read_text()
    assert "slurm-0:24.11.5-1.el9.*" in locked
    monkeypatch.setattr(Module, "check_mode", check)
    assert run(node, [], **{**arguments, "packages": ["slurm=25.5-1.el9"]})["missing"] == ["slurm=25.5-1.el9"]
    assert locks.read_text() == (locked if check else "by-hand-1.*\n")


def test_holds_are_released_where_they_are_all_that_the_manifest_deployed(node: Node, monkeypatch: pytest.MonkeyPatch):
    machine = Machine(apt_mark="munge\n")
    packages_of(monkeypatch, machine)
    node.state.mkdir()
    (node.state / "holds.json").write_text(json.dumps({"demo": ["munge"], "other": ["slurmd"]}))
    assert [one.partition(":")[0] for one in run(node, [], state="absent")["changes"]] == ["munge"]
    assert "apt-mark unhold munge" in machine.commands
    assert json.loads((node.state / "holds.json").read_text()) == {"other": ["slurmd"]}
    assert not run(node, [], state="absent")["changed"]


def test_files_alone_keep_the_holds_of_the_manifest(node: Node, monkeypatch: pytest.MonkeyPatch):
    machine = Machine(apt_mark="munge\n")
    packages_of(monkeypatch, machine)
    node.state.mkdir()
    (node.state / "holds.json").write_text(json.dumps({"demo": ["munge"]}))
    run(node, node.wanted(one="1\n", two="2\n"), only=["files"])
    done = run(node, node.wanted(one="3\n"), only=["files"], packages=["munge=1"])
    assert ((node.root / "one").read_text(), (node.root / "two").exists()) == ("3\n", False)
    assert done["removed"] == [str(node.root / "two")]
    assert machine.commands == []
    assert json.loads((node.state / "holds.json").read_text()) == {"demo": ["munge"]}
    # With packages a hold that left the list is released.
    run(node, node.wanted(one="3\n"))
    assert "apt-mark unhold munge" in machine.commands


@pytest.mark.parametrize("only", ["packages", "services"])
def test_what_a_run_leaves_out_stays_on_the_machine(node: Node, only: str):
    run(node, node.wanted(one="1\n"))
    assert not run(node, [], only=[only])["changed"]
    assert (node.root / "one").read_text() == "1\n"
    assert run(node, [])["removed"] == [str(node.root / "one")]


def test_units_are_left_alone_without_services(node: Node):
    units = [{"name": "no-such-unit.service", "state": "started"}]
    assert run(node, node.wanted(one="1\n"), units=units, only=["packages", "files"])["changes"] == []


@pytest.mark.parametrize("check", [False, True])
def test_a_machine_without_apt_is_refused_where_apts_packages_are_compared(
    node: Node, monkeypatch: pytest.MonkeyPatch, check: bool
):
    """Without dpkg's records no package seems to be installed, so nothing would conflict."""
    commands: list[str] = []

    def without_dpkg(argv: list[str]) -> Outcome:
        commands.append(" ".join(argv))
        return Outcome(127, "", "not found")

    monkeypatch.setattr(Module, "check_mode", check)
    monkeypatch.setattr(deploy, "DeployedPackages", partial(DeployedPackages, run=without_dpkg))
    conflicts = {"packages": ["x*"], "expected": "packages of debian", "advice": "Do it by hand."}
    with pytest.raises(ModuleFailedError, match=r"packages of debian\): this machine has no dpkg\. Do it by hand\."):
        run(node, node.wanted(one="1\n"), conflicts=conflicts)
    assert commands == ["dpkg-query --version"]
    assert not (node.root / "one").exists()


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("kind", ["file", "broken link"])
def test_a_file_stops_a_task_before_it_changes_anything(
    node: Node, monkeypatch: pytest.MonkeyPatch, check: bool, kind: str
):
    monkeypatch.setattr(Module, "check_mode", check)
    path = node.root / "gpu-lock"
    obstacle = {"path": str(path), "advice": "Restore it."}
    assert not run(node, [], obstacle=obstacle)["changed"]
    if kind == "file":
        path.write_text("")
    else:
        path.symlink_to("nothing")
    with pytest.raises(ModuleFailedError, match=r"gpu-lock exists\. Restore it\. Nothing was changed"):
        run(node, node.wanted(one="1\n"), obstacle=obstacle)
    assert not (node.root / "one").exists()


def test_a_path_that_cannot_be_looked_up_stops_a_task(node: Node, monkeypatch: pytest.MonkeyPatch):
    def refused(_path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(deploy.os, "lstat", refused)
    with pytest.raises(PermissionError):
        run(node, node.wanted(one="1\n"), obstacle={"path": "/x", "advice": ""})
