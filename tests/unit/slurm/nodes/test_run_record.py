# SPDX-License-Identifier: GPL-3.0-or-later
"""One run at a time: who holds the record, who may take it over, and what the next call finds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.run_record import RecordError, RunFile
from ansible_collections.bedplate.cluster.plugins.modules import run_record
from tests.kit.module import Module, result_of

NOW = datetime(2026, 11, 25, 22, 0, tzinfo=UTC)
HOUR = 3600


@pytest.fixture
def file(tmp_path: Path) -> RunFile:
    return RunFile(tmp_path / "state", "roll")


def test_a_second_run_is_refused_and_changes_nothing(file: RunFile):
    file.take("r1", "ci:1", HOUR, NOW)
    before = file.path.read_text()
    with pytest.raises(RecordError, match=r"run r1 of ci:1 .* since 2026-11-25T22:00:00Z, until 2026-11-25T23:00:00Z"):
        file.take("r2", "desk:2", HOUR, NOW + timedelta(minutes=59))
    assert file.path.read_text() == before


def test_the_holder_renews_and_keeps_the_run_and_the_beginning(file: RunFile):
    file.take("r1", "ci:1", HOUR, NOW)
    renewed = file.take("other", "ci:1", HOUR, NOW + timedelta(minutes=50))
    assert (renewed.run, renewed.since, renewed.until) == ("r1", "2026-11-25T22:00:00Z", "2026-11-25T23:50:00Z")


def test_a_killed_run_is_taken_over_when_its_process_is_known_to_be_gone_or_its_time_is_over(file: RunFile):
    file.take("r1", "ci:1", HOUR, NOW)
    assert file.take("r2", "ci:9", HOUR, NOW, dead="ci:1").run == "r1"
    assert file.take("r2", "desk:2", HOUR, NOW + timedelta(hours=2)).run == "r1"


def test_an_unfinished_run_goes_on_in_the_next_call_and_a_finished_one_leaves_no_record(file: RunFile):
    file.take("r1", "ci:1", HOUR, NOW)
    assert file.release("ci:1", finished=False)
    assert file.take("r2", "desk:2", HOUR, NOW).run == "r1"
    assert file.release("desk:2", finished=True)
    assert file.read() is None
    assert file.take("r2", "desk:2", HOUR, NOW).run == "r2"


def test_nobody_gives_back_what_another_run_holds(file: RunFile):
    file.take("r1", "ci:1", HOUR, NOW)
    assert not file.release("desk:2", finished=True)
    assert file.read() is not None


@pytest.mark.parametrize(
    "text", ["", "{}", '{"run": "r1"}', "[]", '{"run": "r", "holder": "h", "since": "", "until": "x"}']
)
def test_a_damaged_record_lets_nobody_in(file: RunFile, text: str):
    file.path.parent.mkdir()
    file.path.write_text(text)
    with pytest.raises(RecordError):
        file.take("r2", "desk:2", HOUR, NOW)
    assert file.path.read_text() == text


def of_module(monkeypatch: pytest.MonkeyPatch, file: RunFile, check: bool = False, **params: object) -> dict[str, Any]:
    """Return the result of the module."""
    given = {"run": "r2", "holder": "desk:2", "dead": "", "seconds": HOUR, "finished": False}
    module = Module({"kind": "roll", "state_directory": str(file.path.parent), **given, **params}, check)
    return result_of(monkeypatch, run_record, module)


def in_check_mode(monkeypatch: pytest.MonkeyPatch, file: RunFile, **params: object) -> dict[str, Any]:
    """Return the result of the module in check mode."""
    return of_module(monkeypatch, file, check=True, **params)


@pytest.mark.parametrize(("finished", "left"), [(False, "r2"), (True, "")])
def test_only_a_finished_run_leaves_no_record(
    monkeypatch: pytest.MonkeyPatch, file: RunFile, finished: bool, left: str
):
    """The nodes of an unfinished one would belong to no run."""
    assert of_module(monkeypatch, file, state="taken")["held"]
    result = of_module(monkeypatch, file, state="released", finished=finished)
    assert (result["changed"], result["run"], result["holder"], result["held"]) == (True, left, "", False)
    assert file.path.exists() != finished


def test_a_record_that_cannot_be_locked_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    result = of_module(monkeypatch, RunFile(Path("/proc/nothing"), "roll"), state="taken")
    assert result["failed"]
    assert "/proc/nothing/.roll.lock" in result["msg"]


def test_check_mode_refuses_a_second_run_too(monkeypatch: pytest.MonkeyPatch, file: RunFile):
    file.take("r1", "ci:1", HOUR, datetime.now(UTC))
    before = file.path.read_text()
    assert "run r1 of ci:1" in in_check_mode(monkeypatch, file, state="taken")["msg"]
    assert in_check_mode(monkeypatch, file, state="taken", dead="ci:1")["changed"]
    assert not in_check_mode(monkeypatch, file, state="taken", holder="ci:1")["changed"]
    assert not in_check_mode(monkeypatch, file, state="released")["changed"]
    assert in_check_mode(monkeypatch, file, state="released", holder="ci:1", finished=True)["changed"]
    assert in_check_mode(monkeypatch, file, state="released", holder="ci:1")["changed"]
    assert file.path.read_text() == before


def test_check_mode_predicts_a_new_record_and_writes_nothing(monkeypatch: pytest.MonkeyPatch, file: RunFile):
    result = in_check_mode(monkeypatch, file, state="taken")
    assert (result["changed"], result["held"]) == (True, False)
    assert not file.path.parent.exists()
