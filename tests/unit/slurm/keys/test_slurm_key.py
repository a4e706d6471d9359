# SPDX-License-Identifier: GPL-3.0-or-later
"""The module slurm_key: what it reports of a key, and what it leaves when it replaces one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import (
    KeyFiles,
    KeyTurnError,
    fingerprint,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.switch_key import Clock, switch_at
from ansible_collections.bedplate.cluster.plugins.modules import slurm_key
from tests.kit.module import Module, result_of

OLD, NEW = b"o" * 64, b"n" * 64
DEFAULTS: dict[str, Any] = {
    "state": None,
    "salt": "salt",
    "staged": fingerprint(NEW, "salt"),
    "time": None,
    "unit": None,
    "pause_at": None,
    "switch_at": None,
    "credentials": {},
}


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    found = KeyFiles(tmp_path / "munge.key", tmp_path / "state")
    found.path.write_bytes(OLD)
    found.staged.write_bytes(NEW)
    own = manifest.ManagedPath("file", ["slurm_compute"], made=True, sha256=manifest.digest(OLD), sensitive=True)
    staged = manifest.ManagedPath("file", ["turn_munge_key"], made=True, sha256=manifest.digest(NEW), sensitive=True)
    manifest.save(found.state_directory, {str(found.path): own, str(found.staged): staged})
    return found


def call(monkeypatch: pytest.MonkeyPatch, files: KeyFiles, check: bool = False, **params: Any) -> dict[str, Any]:
    paths = {"path": str(files.path), "state_directory": str(files.state_directory)}
    return result_of(monkeypatch, slurm_key, Module({**DEFAULTS, **paths, **params}, check))


def test_a_report_has_fingerprints_and_no_key(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    found = call(monkeypatch, files)
    assert (found["present"], found["staged"]) == (fingerprint(OLD, "salt"), fingerprint(NEW, "salt"))
    assert found["changed"] is False
    text = json.dumps(found)
    assert not any(key.decode() in text or manifest.digest(key) in text for key in (OLD, NEW))


def test_a_clock_behind_the_control_node_is_reported(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    assert call(monkeypatch, files)["behind"] == 0
    assert 50 < call(monkeypatch, files, time=time.time() + 60)["behind"] <= 60


def test_two_reports_cannot_be_compared_with_each_other(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    one, two = (call(monkeypatch, files, salt=None)["present"] for _ in range(2))
    assert one != two


def test_a_machine_without_a_key_reports_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    files = KeyFiles(tmp_path / "none/munge.key", tmp_path)
    found = call(monkeypatch, files)
    assert (found["present"], found["staged"]) == ("", "")


def test_a_switch_moves_the_key_and_its_record(monkeypatch: pytest.MonkeyPatch, files: KeyFiles):
    assert call(monkeypatch, files, check=True, state="switched")["changed"] is True
    assert files.path.read_bytes() == OLD
    found = call(monkeypatch, files, state="switched")
    assert (found["changed"], found["present"], found["staged"]) == (True, fingerprint(NEW, "salt"), "")
    records = manifest.load(files.state_directory)
    assert set(records) == {str(files.path)}
    assert records[str(files.path)].sha256 == manifest.digest(NEW)
    assert records[str(files.path)].manifests == ["slurm_compute"]
    assert call(monkeypatch, files, state="switched")["changed"] is False


@pytest.mark.parametrize("staged", [b"another" * 9, None])
def test_another_or_no_staged_key_is_refused(monkeypatch: pytest.MonkeyPatch, files: KeyFiles, staged: bytes | None):
    files.staged.unlink()
    if staged is not None:
        files.staged.write_bytes(staged)
    found = call(monkeypatch, files, state="switched")
    assert found["failed"]
    assert str(files.staged) in found["msg"]
    assert files.path.read_bytes() == OLD


class Machine:
    """A clock and a systemctl that record what happens, and with which key munged starts."""

    def __init__(self, files: KeyFiles, restart: int = 0) -> None:
        self.files, self.restart = files, restart
        self.time = 1000.0
        self.events: list[tuple[str, float]] = []
        self.started_with = b""

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def run(self, argv: Sequence[str]) -> Outcome:
        if argv[1] == "restart":
            self.started_with = self.files.path.read_bytes()
        self.events.append((" ".join(argv[1:-1]), self.time))
        return Outcome(self.restart if argv[1] == "restart" else 0, "", "no such key")

    def switch(self, pause_at: float = 1005.0, switch_at_: float = 1008.0) -> float:
        clock = Clock(lambda: self.time, self.sleep)
        expected = fingerprint(NEW, "salt")
        pending = partial(self.files.is_pending, expected, "salt")
        return switch_at(self.files, "munge.service", pause_at, switch_at_, pending, self.run, clock)


def test_munge_is_silent_from_the_pause_until_it_starts_on_the_new_key(files: KeyFiles):
    machine = Machine(files)
    assert machine.switch() == 3.0
    stop, kill = ("kill --signal=STOP", 1005.0), ("kill --signal=KILL", 1008.0)
    assert machine.events == [stop, kill, ("reset-failed", 1008.0), ("restart", 1008.0)]
    assert machine.started_with == NEW


def test_a_machine_that_is_late_switches_at_once(files: KeyFiles):
    machine = Machine(files)
    assert machine.switch(990.0, 993.0) == 0.0
    assert machine.started_with == NEW


def test_a_machine_that_another_process_has_switched_meanwhile_does_not_stop(files: KeyFiles):
    machine = Machine(files)
    files.put()
    assert machine.switch() == 0.0
    assert machine.events == []


def test_a_failure_between_lets_munge_continue_with_the_old_key(files: KeyFiles, monkeypatch: pytest.MonkeyPatch):
    machine = Machine(files)
    monkeypatch.setattr(manifest, "save", _full)
    with pytest.raises(KeyTurnError, match="the staged key was not put into its place"):
        machine.switch()
    assert [event for event, _ in machine.events] == ["kill --signal=STOP", "kill --signal=CONT"]
    assert files.path.read_bytes() == OLD


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_munge_that_does_not_start_is_an_error(files: KeyFiles):
    with pytest.raises(KeyTurnError, match="does not start on the new key"):
        Machine(files, restart=1).switch()


def test_a_clock_that_is_wrong_is_an_error_before_munge_stops(files: KeyFiles):
    machine = Machine(files)
    with pytest.raises(KeyTurnError, match="Compare the clocks"):
        machine.switch(5000.0, 5003.0)
    assert machine.events == []


def test_the_fingerprint_of_a_key_is_not_the_digest_that_others_may_know():
    assert fingerprint(OLD, "") != manifest.digest(OLD)[:32]
