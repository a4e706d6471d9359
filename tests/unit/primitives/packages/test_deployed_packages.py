"""Which packages a task installs, and which it keeps as they are, with a dpkg, an apt and an rpm of our own making."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import dpkg, rpm
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.deployed_packages import (
    DeployedPackages,
)

DPKG = "dpkg\tamd64\tinstalled\t1.21\n"
SLURMD = "slurmd\tamd64\tinstalled\t24.11.5-4\n"
RPM = "slurm\t0:24.11.5-1.el9\n"


class Machine:
    """Answers for the first word of a command, or the first two; remembers the commands."""

    def __init__(self, **answers: str) -> None:
        self.answers = answers
        self.commands: list[str] = []

    def run(self, argv: list[str]) -> Outcome:
        self.commands.append(" ".join(word for word in argv if not word.startswith("--")))
        return Outcome(0, self.answers.get(argv[0].replace("-", "_"), ""), "")


def packages(machine: Machine, tmp_path: Path, **more: Any) -> DeployedPackages:
    arguments = {"manager": "apt", "manifest": "demo", "packages": [], "hold": [], "follow": [], "check": False, **more}
    return DeployedPackages(**arguments, state_directory=tmp_path, run=machine.run)


def test_nothing_is_to_be_installed_where_all_packages_are_there(tmp_path: Path) -> None:
    machine = Machine(dpkg_query=DPKG + SLURMD)
    assert packages(machine, tmp_path).to_install() == {}
    assert machine.commands == []
    assert packages(machine, tmp_path, packages=["slurmd=24.11.*"]).to_install() == {}


def test_what_is_missing_and_what_has_another_version_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dpkg, "outdated", lambda: False)
    machine = Machine(dpkg_query=DPKG + SLURMD, apt_cache=" slurmd | 25.5-1 | http://x trixie/main amd64 Packages\n")
    task = packages(machine, tmp_path, packages=["slurmd=25.5-1", "munge"], follow=["slurm*=25.5-1"])
    assert task.to_install() == {
        "missing": ["slurmd=25.5-1", "munge"],
        "passing": [],
        "astray": ["slurmd=25.5-1"],
        "replaced": [],
        "outdated": False,
        "unknown": [],
    }
    machine.answers["apt_cache"] = ""
    # apt reads its lists again when they lack a version.
    found = task.to_install()
    assert (found["unknown"], found["outdated"]) == (["slurmd=25.5-1"], True)


@pytest.mark.parametrize("check", [False, True])
def test_dnf_reads_its_repositories_again_for_a_stated_version(tmp_path: Path, check: bool) -> None:
    machine = Machine(rpm=RPM)
    task = packages(machine, tmp_path, manager="dnf", packages=["slurm=25.5-1.el9"], check=check)
    assert task.to_install()["missing"] == ["slurm=25.5-1.el9"]
    assert ("dnf clean expire-cache" in machine.commands) is not check
    assert packages(machine, tmp_path, manager="dnf", packages=["slurm=24.11.5"], check=check).to_install() == {}


def test_other_versions_are_named(tmp_path: Path) -> None:
    task = packages(Machine(dpkg_query=SLURMD), tmp_path)
    assert task.other_versions(["slurm*"], "25.5*") == {"slurmd": "24.11.5-4"}
    assert task.other_versions(["slurm*"], "24.11*") == {}


def test_what_follows_is_held_by_apt_alone(tmp_path: Path) -> None:
    machine = Machine(dpkg_query=SLURMD)
    task = packages(machine, tmp_path, hold=["munge"], follow=["slurm*"])
    assert task.apply_holds().hold == ["munge", "slurmd"]
    assert "apt-mark hold munge slurmd" in machine.commands
    machine.commands.clear()
    for other in ({"manager": "dnf"}, {"manifest": None}):
        assert packages(machine, tmp_path, hold=["munge"], **other).apply_holds().changes == []
    assert machine.commands == []


def test_what_follows_is_locked_by_dnf_alone(tmp_path: Path) -> None:
    machine = Machine(rpm=RPM)
    assert packages(machine, tmp_path).locks(["slurm"]) is None
    task = packages(machine, tmp_path, manager="dnf")
    (block,) = task.locks(["slurm"]) or []
    assert (block.path, block.state) == (rpm.LOCKS, "block")
    assert block.content.decode().splitlines()[1:] == ["slurm-0:24.11.5-1.el9.*"]
    assert task.locks([]) == []


def test_a_package_that_another_task_has_locked_is_not_locked_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rpm, "LOCKS", str(tmp_path / "versionlock.list"))
    task = packages(Machine(rpm=RPM), tmp_path, manager="dnf", manifest="first")
    line = "slurm-0:24.11.5-1.el9.*"
    block = "# bedplate {0}: begin\n{1}\n# bedplate {0}: end\n"
    for text, expected in (
        (block.format("second.follow", line), []),
        # Its own block, or another version of the other task: from before an upgrade.
        (block.format("first.follow", line), [line]),
        (block.format("second.follow", "slurm-0:24.11.4-1.el9.*"), [line]),
    ):
        Path(rpm.LOCKS).write_text(text)
        lines = [one for entry in task.locks(["slurm"]) or [] for one in entry.content.decode().splitlines()]
        assert [one for one in lines if not one.startswith("#")] == expected


def test_a_check_predicts_locks_of_packages_that_a_run_installs(tmp_path: Path) -> None:
    task = packages(Machine(rpm=RPM), tmp_path, manager="dnf", check=True)
    coming = ["slurm-slurmd=24.11.*", "munge"]
    (block,) = task.locks(["slurm-slurm*", "other=1"], coming) or []
    assert [line.split(",")[0] for line in block.content.decode().splitlines()[1:]] == ["# slurm-slurmd"]
    assert task.locks(["nothing"], coming) == []
    assert packages(Machine(rpm=RPM), tmp_path, manager="dnf").locks(["slurm-slurm*"], coming) == []


def test_the_plugin_of_dnf_is_there_before_lines_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpm, "LOCKS", str(tmp_path / "versionlock.list"))
    lines = [DesiredFile(rpm.LOCKS, state="block", content=b"x\n")]
    task = packages(Machine(), tmp_path, manager="dnf")
    assert task.before_sources(lines) == [rpm.LOCKS_PLUGIN]
    assert task.before_sources([DesiredFile("/etc/yum.repos.d/x.repo")]) == []
    assert packages(Machine(), tmp_path, manager="dnf", check=True).before_sources(lines) == []
    assert packages(Machine(), tmp_path).before_sources(lines) == []
    Path(rpm.LOCKS).touch()
    assert task.before_sources(lines) == []


def test_the_release_of_installed_rpms_is_compared(tmp_path: Path) -> None:
    machine = Machine(rpm=RPM + "slurm-slurmd\t0:23.11.1-1.el9\n")
    task = packages(machine, tmp_path, manager="dnf")
    assert task.other_versions(["slurm", "slurm-slurmd"], "24.11.*") == {"slurm-slurmd": "23.11.1-1.el9"}


@pytest.mark.parametrize(("manager", "there"), [("apt", ["slurmd"]), ("dnf", ["slurm"])])
def test_installed_packages_by_patterns(tmp_path: Path, manager: str, there: list[str]) -> None:
    machine = Machine(dpkg_query=DPKG + SLURMD, rpm=RPM)
    assert packages(machine, tmp_path, manager=manager).installed(["slurm*"]) == there
