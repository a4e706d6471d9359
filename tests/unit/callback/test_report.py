# SPDX-License-Identifier: GPL-3.0-or-later
"""report.json of the callback bedplate.cluster.report agrees with the exit status of the run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.callback.report import CallbackModule
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.run_record import RunRecord

PLAN, CLOSE = "bedplate.cluster.roll_plan", "bedplate.cluster.roll_close"


class Report(CallbackModule):
    """The callback of a run of roll.yml that writes into a folder."""

    def __init__(self, folder: Path, check: bool = False) -> None:
        super().__init__()
        self._folder, self._run = folder, RunRecord("roll.yml", check)

    def get_option(self, name: str, *_arguments: Any) -> str:
        return {"directory": str(self._folder), "progress": "off"}[name]

    def written(self, **rescued: int) -> dict[str, Any]:
        self.v2_playbook_on_stats(SimpleNamespace(rescued=rescued))
        found: dict[str, Any] = json.loads((self._folder / "report.json").read_text())
        return found


@pytest.fixture
def report(tmp_path: Path) -> Report:
    return Report(tmp_path)


def result(host: str, action: str, data: dict[str, Any], **task: bool) -> Any:
    named = {"run_once": False, "ignore_errors": False, "ignore_unreachable": True, **task}
    found = SimpleNamespace(action=action, _uuid=action, get_name=lambda: action, **named)
    return SimpleNamespace(host=SimpleNamespace(get_name=lambda: host), task=found, result=data)


def outcomes(found: dict[str, Any]) -> dict[str, str]:
    return {name: one["outcome"] for name, one in found["nodes"].items()}


def test_a_roll_whose_close_reports_has_no_rescued_failures(report: Report):
    report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
    report.v2_runner_on_failed(result("n1", "deploy", {"msg": "disk full"}))
    report.v2_runner_on_failed(result("n2", "deploy", {"msg": "disk full"}))
    report.v2_runner_on_failed(result("n1", CLOSE, {"nodes": {"n2": {"outcome": "failed", "why": "disk full"}}}))
    found = report.written(n1=1, n2=1)
    assert (found["outcome"], found["stopped"], outcomes(found)) == ("failed", "", {"n1": "ok", "n2": "failed"})


def test_a_roll_without_its_close_keeps_rescued_failures(report: Report):
    report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
    report.v2_runner_on_failed(result("n2", "deploy", {"msg": "disk full"}))
    report.v2_runner_on_failed(result("n1", CLOSE, {"msg": "ctl1: no answer by SSH"}, run_once=True))
    found = report.written(n2=1)
    assert (found["outcome"], outcomes(found)) == ("failed", {"n1": "failed", "n2": "failed"})
    assert found["nodes"]["n2"]["failed"] == {"task": "deploy", "reason": "disk full"}


def test_a_roll_that_ended_before_its_close_is_stopped(report: Report):
    report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
    found = report.written()
    assert (found["outcome"], found["stopped"].partition(":")[0]) == (
        "stopped",
        "the roll ended without a report of its nodes",
    )


def test_a_preview_has_no_close(tmp_path: Path):
    report = Report(tmp_path, check=True)
    report.v2_runner_on_failed(result("n2", "deploy", {"msg": "no such package"}))
    report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
    assert report.written(n2=1)["outcome"] == "done"


def test_a_preview_reports_nodes_that_were_not_compared(tmp_path: Path):
    report = Report(tmp_path, check=True)
    report.v2_runner_on_ok(result("n2", "deploy", {}))
    report.v2_runner_on_ok(
        result(
            "n1", PLAN, {"serial": [1], "not_compared": {"n2": {"outcome": "unreachable", "why": "no answer by SSH"}}}
        )
    )
    found = report.written()
    assert (found["outcome"], found["stopped"]) == ("unreachable", "")
    assert found["nodes"]["n2"]["failed"]["reason"] == "no answer by SSH"


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        ({}, "done"),
        ({"ignore_unreachable": False}, "unreachable"),
        ({"run_once": True}, "unreachable"),
        ({"run_once": True, "ignore_errors": True}, "done"),
    ],
)
def test_a_host_without_an_answer_counts_where_ansible_ends_the_run(
    report: Report, task: dict[str, bool], outcome: str
):
    report.v2_runner_on_unreachable(result("n1", "setup", {"msg": "timed out"}, **task))
    assert report.written()["outcome"] == outcome


def test_a_run_that_is_killed_leaves_no_report_of_the_run_before(report: Report, tmp_path: Path):
    report.written()
    assert (tmp_path / "report.html").exists()
    play = SimpleNamespace(get_name=lambda: "Drain nodes", get_variable_manager=lambda: None)
    report.v2_playbook_on_play_start(play)
    found = json.loads((tmp_path / "report.json").read_text())
    assert (found["outcome"], found["stopped"]) == ("stopped", "the run did not reach its end")
    assert not (tmp_path / "report.html").exists()
    assert report.written()["outcome"] == "done"


@pytest.mark.parametrize(("check", "outcome"), [(False, "failed"), (True, "done")])
def test_differences_fail_their_machine_and_not_who_reports_them(tmp_path: Path, check: bool, outcome: str):
    row = {"severity": "error", "where": "sysctl vm.swappiness", "expected": "10", "found": "60", "machine": "n2"}
    report = Report(tmp_path, check)
    verify = "bedplate.cluster.verify_report"
    # A preview has differences by design: its own task fails where it must.
    kind = report.v2_runner_on_ok if check else report.v2_runner_on_failed
    kind(result("n1", verify, {"findings": [row]}))
    found = report.written()
    assert found["outcome"] == outcome
    assert outcomes(found) == ({"n1": "ok"} if check else {"n1": "ok", "n2": "failed"})


def test_a_report_that_cannot_be_written_does_not_fail_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    report = Report(tmp_path / "file")
    shown: list[str] = []
    monkeypatch.setattr(report, "_display", SimpleNamespace(display=shown.append, warning=shown.append))
    report.v2_playbook_on_stats(SimpleNamespace(rescued={}))
    assert shown[0].startswith("no report: ")


def test_a_node_without_an_answer_keeps_its_reason_when_a_failure_is_rescued(report: Report):
    report.v2_runner_on_unreachable(result("n1", "setup", {"msg": "timed out"}, ignore_unreachable=False))
    report.v2_runner_on_failed(result("n1", "deploy", {"msg": "disk full"}))
    assert report.written(n1=1)["nodes"]["n1"]["failed"] == {"task": "setup", "reason": "timed out"}
