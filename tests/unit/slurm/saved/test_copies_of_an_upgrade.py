# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_saved: a copy is made once, counts only when it is whole, and is restored only over data of the new release."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.database_dump import DumpError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import UpgradeFolder
from ansible_collections.bedplate.cluster.plugins.modules import slurm_saved
from tests.kit.module import Module, result_of


class Host:
    """A host with a database, as a text of the folder, and a state."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.base, self.database, self.state = folder / "copies", folder / "database", folder / "state"
        self.folder = UpgradeFolder(self.base, "24.11", "26.05")
        self.database.write_text("of 24.11")
        self.state.mkdir()
        (self.state / "job_state").write_text("of 24.11")
        self.broken = ""
        self._monkeypatch = monkeypatch
        host = self

        class Database:
            def __init__(self, *_: object) -> None:
                pass

            def dump(self, path: Path) -> dict[str, int]:
                if host.broken:
                    raise DumpError(host.broken)
                path.write_text(host.database.read_text())
                return {"job_table": 12, "step_table": 40}

            def restore(self, path: Path) -> None:
                host.database.write_text(path.read_text())

        monkeypatch.setattr(slurm_saved, "Database", Database)

    def step(self, step: str, check: bool = False) -> dict[str, Any]:
        paths = {"folder": str(self.base), "path": str(self.state)}
        others = {
            "old": "24.11",
            "new": "26.05",
            "database": "d",
            "user": getpass.getuser(),
            "seconds": 60,
            "keep": False,
        }
        return result_of(self._monkeypatch, slurm_saved, Module({"step": step, **paths, **others}, check))

    def convert(self) -> None:
        """Change the data as daemons of the new release do."""
        self.database.write_text("of 26.05")
        (self.state / "job_state").write_text("of 26.05")

    @property
    def data(self) -> set[str]:
        return {self.database.read_text(), (self.state / "job_state").read_text()}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_call_that_continues_does_not_save_converted_data(host: Host):
    found = host.step("dump")
    assert (found["changed"], found["saved"]["tables"], found["saved"]["rows"]) == (True, 2, 52)
    assert host.step("archive")["changed"] is True
    host.folder.mark("started")
    host.convert()
    again = host.step("dump")
    assert (again["changed"], again["saved"]) == (False, found["saved"])
    assert host.step("archive")["changed"] is False
    assert host.step("restore_database")["changed"] is host.step("restore_state")["changed"] is True
    assert host.data == {"of 24.11"}


def test_a_dump_that_failed_is_made_again(host: Host):
    host.broken = "it is cut short"
    assert "dump: it is cut short" in host.step("dump")["msg"]
    assert host.folder.marks() == {}
    host.broken = ""
    assert host.step("dump")["changed"] is True


def test_nothing_is_restored_before_a_daemon_of_the_new_release_has_started(host: Host):
    """The slurmctld of the old release may have run on meanwhile: its jobs since the copy would be lost."""
    host.step("dump")
    host.step("archive")
    host.convert()
    assert host.step("restore_database")["changed"] is host.step("restore_state")["changed"] is False
    assert host.data == {"of 26.05"}


def test_what_was_not_saved_is_not_restored(host: Host):
    host.folder.mark("started")
    for step in ("restore_database", "restore_state"):
        assert host.step(step) == {"changed": False, "saved": {}}
    assert host.data == {"of 24.11"}


def test_a_preview_saves_and_restores_nothing(host: Host):
    assert host.step("dump", check=True) == host.step("archive", check=True) == {"changed": True, "saved": {}}
    assert not host.base.exists()
    host.step("dump")
    host.step("archive")
    host.folder.mark("started")
    host.convert()
    assert host.step("restore_database", check=True)["changed"] is True
    assert host.step("restore_state", check=True)["changed"] is True
    assert host.data == {"of 26.05"}
