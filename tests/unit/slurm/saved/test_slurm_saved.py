# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of an upgrade after a killed call: none is used that lacks jobs of the old release, and half of a state is never started."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved import state_archive, upgrade_folder
from ansible_collections.bedplate.cluster.plugins.modules import slurm_saved
from tests.kit.backups import NO_USER
from tests.kit.module import Module, result_of


class Host:
    """A controller with a state, the folder of its upgrade, and a clock."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.state, self.base, self.now = root / "state", root / "upgrades", 1000
        self.state.mkdir()
        self.folder = upgrade_folder.UpgradeFolder(self.base, "24.11", "26.05")
        monkeypatch.setattr(time, "time", lambda: self.now)

    def step(self, name: str, keep: bool = False) -> dict[str, Any]:
        self.now += 60
        params = {"step": name, "folder": str(self.base), "old": "24.11", "new": "26.05", "path": str(self.state)}
        return result_of(self._monkeypatch, slurm_saved, Module({**params, "user": NO_USER, "keep": keep}))

    def start(self) -> None:
        """Record that a daemon of the new release starts, as the playbook does."""
        self.now += 60
        self.folder.mark("started", again=True)

    def write(self, jobs: str) -> None:
        (self.state / "job_state").write_text(jobs)
        (self.state / "node_state").write_text(jobs)

    @property
    def jobs(self) -> set[str]:
        return {(self.state / name).read_text() for name in ("job_state", "node_state")}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_call_that_continues_archives_the_jobs_of_now(host: Host):
    host.write("at first")
    assert host.step("archive")["changed"]
    # The call was killed, and a person has started slurmctld of the old release again.
    host.write("hours later")
    assert host.step("archive")["changed"]
    host.start()
    host.write("of the new release")
    assert host.step("restore_state")["changed"]
    assert host.jobs == {"hours later"}


def test_what_the_new_release_has_changed_is_never_archived_as_the_old_one(host: Host):
    host.write("at first")
    host.step("archive")
    host.start()
    host.write("of the new release")
    assert not host.step("archive")["changed"]
    assert host.step("restore_state")["changed"]
    assert host.jobs == {"at first"}


def test_with_packages_of_the_new_release_the_copy_of_an_earlier_call_stays(host: Host):
    host.write("at first")
    assert host.step("archive", keep=True)["changed"]
    # A person has started slurmctld of the new release.
    host.write("of the new release")
    assert not host.step("archive", keep=True)["changed"]
    host.start()
    host.step("restore_state")
    assert host.jobs == {"at first"}


def test_a_way_back_makes_its_copy_of_no_use_to_the_next_call(host: Host):
    host.write("at first")
    host.step("archive")
    host.start()
    host.step("restore_state")
    # Such as a standby that did not come up: the folder was not set aside, and the old release has served since.
    host.write("a day later")
    assert host.step("archive")["changed"]
    host.start()
    host.write("of the new release")
    host.step("restore_state")
    assert host.jobs == {"a day later"}


def test_a_way_back_that_was_killed_is_completed_before_anything_starts(host: Host, monkeypatch: pytest.MonkeyPatch):
    host.write("at first")
    host.step("archive")
    host.start()
    host.write("of the new release")

    def killed(*_any: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(state_archive, "trust", killed)
        with pytest.raises(KeyboardInterrupt):
            host.step("restore_state")
    assert list(host.state.iterdir()) == []
    result = host.step("archive")
    assert result.get("changed"), result
    assert host.jobs == {"at first"}
