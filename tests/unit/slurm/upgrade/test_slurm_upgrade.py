# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_upgrade: what each step leaves on a host, and what it refuses before it stops, installs or restores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import fetched
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved import kept_files
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.kept_files import KeptError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import UpgradeFolder
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.daemon_start import DaemonStart, Question
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.way_back import WayBack
from ansible_collections.bedplate.cluster.plugins.modules import slurm_upgrade
from tests.kit.module import Module, result_of

REQUESTED = {
    "packages": ["slurmctld=26.05.*"],
    "release": ["slurmctld"],
    "version": "26.05.*",
    "preferences": ["bedplate-slurm", "pins"],
    "daemons": [],
    "database": "",
    "state": "",
    "is_core": True,
}
DEFAULTS: dict[str, Any] = {
    "requested": REQUESTED,
    "old": "24.11",
    "new": "26.05",
    "resume": False,
    "mark": None,
    "units": [],
    "unit": None,
    "name": "",
    "slurm_conf": None,
    "log": None,
    "seconds": 5,
    "since": 0.0,
}
PINGS = "Slurmctld(primary) at ctl1 is UP\nSlurmctld(backup) at ctl2 is DOWN\n"


class Host:
    """A controller with its files below a folder; daemons and packages are only counted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.base = folder / "root", folder / "slurm-upgrade"
        self.folder = UpgradeFolder(self.base, "24.11", "26.05")
        self.conf = self.root / "etc/slurm/slurm.conf"
        self.conf.parent.mkdir(parents=True)
        self.conf.write_text("old")
        self.stopped: list[tuple[str, str]] = []
        self.downloads = 0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(slurm_upgrade, "WayBack", lambda found: WayBack(found, _nothing, self.root))
        monkeypatch.setattr(slurm_upgrade.daemon_start, "stop", self._stop)
        monkeypatch.setattr(fetched, "install_kept", lambda *_: None)

    def _stop(self, units: Sequence[str]) -> list[str]:
        self.stopped += [(unit, self.conf.read_text()) for unit in units]
        return list(units)

    def has(self, **versions: str) -> None:
        """Set the installed packages of Slurm."""
        self._monkeypatch.setattr(slurm_upgrade.dpkg, "installed_versions", lambda _patterns: versions)

    def looks(self, **found: Any) -> None:
        """Set what a look finds, and count downloads."""
        facts = {"problems": [], "old": {}, "old_missing": [], "changes": {"slurmctld": ["1", "2"]}, **found}
        facts = {"installed": {}, "download": 1, **facts}

        class Look:
            def __init__(self, *_: object) -> None:
                pass

            def facts(self) -> dict[str, Any]:
                return facts

        host = self

        class Fetch:
            def __init__(self, *_: object) -> None:
                pass

            def download(self) -> None:
                host.downloads += 1

        self._monkeypatch.setattr(slurm_upgrade, "HostLook", Look)
        self._monkeypatch.setattr(slurm_upgrade, "Fetch", Fetch)

    def step(self, step: str, check: bool = False, **params: Any) -> dict[str, Any]:
        module = Module({**DEFAULTS, "folder": str(self.base), "step": step, **params}, check)
        return result_of(self._monkeypatch, slurm_upgrade, module)


def _nothing(_argv: Sequence[str], *_seconds: float, **_more: Any) -> Outcome:
    return Outcome(0, "", "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_new_upgrade_makes_new_copies_and_one_that_continues_has_its_own(host: Host):
    """With copies of an earlier upgrade the way back would lose all jobs since then."""
    host.folder.mark("dumped", {"rows": 1})
    assert host.step("begin", resume=True)["changed"] is False
    assert host.folder.marks()["dumped"]["rows"] == 1
    assert host.step("begin")["changed"] is True
    assert (host.folder.path.is_dir(), host.folder.marks()) == (True, {})
    assert sorted(one.name for one in host.base.iterdir()) == ["24.11-26.05", "24.11-26.05.back"]
    assert host.step("begin")["changed"] is False


@pytest.mark.parametrize(
    ("versions", "why"),
    [
        ({"slurmctld": "26.05.5-1"}, None),
        ({"slurmctld": "26.05.5-1", "slurm-client": "24.11.5-4"}, "slurm-client 24.11.5-4"),
        ({}, "no Slurm is installed"),
    ],
)
def test_no_daemon_starts_on_half_of_a_release(host: Host, versions: dict[str, str], why: str | None):
    host.has(**versions)
    found = host.step("installed")
    assert found.get("failed", False) is (why is not None)
    assert why is None or why in found["msg"]


def test_nothing_is_downloaded_where_the_look_has_a_problem(host: Host):
    host.looks(problems=["apt-get install: no version", "MariaDB does not answer"])
    found = host.step("fetch")
    assert found["failed"]
    assert "no version; MariaDB does not answer" in found["msg"]
    assert (host.downloads, host.base.exists()) == (0, False)
    host.looks()
    assert host.step("fetch")["changed"] is True
    assert host.downloads == 1


def test_files_are_kept_before_the_installation_is_recorded(host: Host, monkeypatch: pytest.MonkeyPatch):
    """Without them the way back would start the old daemons with files of the new release."""

    def full(*_: object) -> int:
        raise KeptError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(kept_files, "keep", full)
        assert "no space left" in host.step("mark", mark="installing")["msg"]
    assert host.folder.marks() == {}
    assert host.step("mark", mark="installing")["changed"] is True
    host.conf.write_text("new")
    assert host.step("mark", mark="installing")["changed"] is False
    assert host.step("mark", mark="started")["changed"] is True
    kept_files.restore(host.folder.path / "files.tar", host.root)
    assert host.conf.read_text() == "old"


def test_before_packages_change_the_way_back_stops_no_daemon(host: Host):
    host.folder.mark("dumped")
    assert host.step("back") == {"changed": False}
    assert host.stopped == []


def test_after_slurmctld_has_served_the_way_back_stops_no_daemon(host: Host):
    host.step("mark", mark="installing")
    host.step("mark", mark="served")
    host.conf.write_text("new")
    assert "has served on this host" in host.step("back")["msg"]
    assert (host.stopped, host.conf.read_text()) == ([], "new")


def test_daemons_are_stopped_before_the_old_files_return(host: Host):
    host.folder.make()
    (host.folder.path / "packages.json").write_text('{"slurmctld": "24.11.5-4"}')
    host.step("mark", mark="installing")
    host.conf.write_text("new")
    assert host.step("back") == {"changed": True}
    assert host.stopped == [("slurmctld.service", "new"), ("slurmdbd.service", "new")]
    assert host.conf.read_text() == "old"


@pytest.mark.parametrize(("name", "is_up"), [("ctl1", True), ("ctl2", False)])
def test_a_controller_serves_when_it_answers_itself(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, is_up: bool
):
    """The answer of another controller says nothing about the new release on this one."""

    def run(argv: Sequence[str], *_seconds: float, **_more: Any) -> Outcome:
        return Outcome(0, PINGS if argv[0] == "scontrol" else "ActiveState=active\nNRestarts=0\n", "")

    def start(unit: str, question: Question) -> DaemonStart:
        ticks = count()
        return DaemonStart(unit, question, run, tmp_path / "run", lambda _seconds: None, lambda: float(next(ticks)))

    monkeypatch.setattr(slurm_upgrade, "DaemonStart", start)
    found = host.step("serve", unit="slurmctld.service", name=name)
    assert (found.get("up"), found.get("failed", False)) == ((True, False) if is_up else (None, True))
    assert is_up or "slurmctld.service did not answer within 5 s" in found["msg"]


@pytest.mark.parametrize("step", ["begin", "fetch", "mark", "stop", "back", "aside"])
def test_a_preview_changes_nothing(host: Host, step: str):
    host.looks()
    host.folder.mark("installing")
    before = {path: path.read_bytes() for path in host.base.rglob("*") if path.is_file()}
    found = host.step(step, check=True, mark="served", units=["slurmctld.service"])
    assert found == {"changed": False, "skipped": True}
    assert (host.stopped, host.downloads) == ([], 0)
    assert {path: path.read_bytes() for path in host.base.rglob("*") if path.is_file()} == before
