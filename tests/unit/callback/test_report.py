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
        "the run ended without a report of its nodes",
    )


def test_what_differed_before_a_recovery_is_no_finding_after_it(report: Report):
    finding = {"severity": "error", "where": "file /etc/hosts", "expected": "present", "found": "missing"}
    compared = {"findings": [finding], "changed": False}
    report.v2_runner_on_ok(result("n1", "bedplate.cluster.recover_plan", {"run": "r1"}))
    for host in ("n1", "n2"):
        report.v2_runner_on_ok(result(host, "bedplate.cluster.node_state", compared))
    report.v2_runner_on_ok(result("n1", "bedplate.cluster.recover_plan", {"to_drain": "n[1-2]"}))
    report.v2_runner_on_failed(result("n2", "bedplate.cluster.node_state", {**compared, "failed": True}))
    closed = {"nodes": {"n2": {"outcome": "failed", "why": "file /etc/hosts"}}, "run": "r1"}
    report.v2_runner_on_failed(result("n1", "bedplate.cluster.recover_close", closed))
    found = report.written(n2=1)
    assert (found["run"], found["stopped"], outcomes(found)) == ("r1", "", {"n1": "ok", "n2": "failed"})


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
    # The page that was not written is not named.
    assert [line.partition(":")[0] for line in shown] == ["no report", "roll.yml"]


def test_a_node_without_an_answer_keeps_its_reason_when_a_failure_is_rescued(report: Report):
    report.v2_runner_on_unreachable(result("n1", "setup", {"msg": "timed out"}, ignore_unreachable=False))
    report.v2_runner_on_failed(result("n1", "deploy", {"msg": "disk full"}))
    assert report.written(n1=1)["nodes"]["n1"]["failed"] == {"task": "setup", "reason": "timed out"}


def closed(report: Report, nodes: dict[str, Any], **more: str) -> None:
    report.v2_runner_on_ok(result("n1", CLOSE, {"nodes": nodes, **more}))


def test_a_roll_that_a_canary_stopped_is_stopped_whatever_waits(report: Report):
    report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
    closed(
        report, {"n2": {"outcome": "waiting", "why": "for a later batch"}}, run="r1", stopped="canary n1 is not free"
    )
    found = report.written()
    assert (found["outcome"], found["stopped"], found["run"]) == ("stopped", "canary n1 is not free", "r1")


def test_a_call_on_slurms_nodes_is_no_close(report: Report):
    report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
    report.v2_runner_on_ok(result("n1", "bedplate.cluster.slurm_node", {"nodes": {"n2": {"outcome": "failed"}}}))
    found = report.written()
    assert (found["outcome"], list(found["nodes"])) == ("stopped", ["n1"])


def test_a_failure_that_the_playbook_ignores_is_none(report: Report):
    report.v2_runner_on_failed(result("n1", "setup", {"msg": "no"}), ignore_errors=True)
    found = report.written()
    assert (found["outcome"], outcomes(found), found["nodes"]["n1"]["failed"]) == ("done", {"n1": "ok"}, None)


def test_each_rescued_failure_is_taken_off_and_no_other(report: Report):
    for name in ("n1", "n2"):
        report.v2_runner_on_failed(result(name, "first", {"msg": "one"}))
        report.v2_runner_on_failed(result(name, "second", {"msg": "two"}))
    found = report.written(n1=2, n2=1)
    assert outcomes(found) == {"n1": "ok", "n2": "failed"}
    assert found["nodes"]["n2"]["failed"] == {"task": "first", "reason": "one"}


VERIFY, STATE = "bedplate.cluster.verify_report", "bedplate.cluster.node_state"
ROW = {"severity": "error", "where": "sysctl vm.swappiness", "expected": "10", "found": "60"}


def test_a_verification_that_fails_without_a_difference_fails_its_host(report: Report):
    report.v2_runner_on_failed(result("n1", VERIFY, {"msg": "slurmctld does not answer"}))
    found = report.written()
    assert found["nodes"]["n1"]["failed"] == {"task": VERIFY, "reason": "slurmctld does not answer"}


@pytest.mark.parametrize(("severity", "failed"), [("error", True), ("warning", False)])
def test_differences_of_a_node_are_its_own(report: Report, severity: str, failed: bool):
    report.v2_runner_on_ok(result("n1", STATE, {"findings": [{**ROW, "severity": severity}]}))
    found = report.written()
    assert [one["where"] for one in found["nodes"]["n1"]["findings"]] == [ROW["where"]]
    assert outcomes(found) == {"n1": "failed" if failed else "ok"}


def test_a_node_whose_comparison_fails_has_failed_whatever_it_found(report: Report):
    row = {**ROW, "severity": "warning"}
    report.v2_runner_on_failed(result("n1", STATE, {"findings": [row], "msg": "no rpm"}))
    assert outcomes(report.written()) == {"n1": "failed"}


def test_a_run_knows_its_playbook_and_whether_it_predicts(report: Report, monkeypatch: pytest.MonkeyPatch):
    for check in (True, False):
        monkeypatch.setattr("ansible.context.CLIARGS", {"check": check})
        report.v2_playbook_on_start(SimpleNamespace(_file_name="/site/playbooks/roll.yml"))
        report.v2_runner_on_ok(result("n1", PLAN, {"serial": [1]}))
        found = report.written()
        assert (found["playbook"], found["check"]) == ("roll.yml", check)
        assert found["outcome"] == ("done" if check else "stopped")
        assert found["started"]
        assert found["ended"]
        assert found["seconds"] >= 0


def test_a_later_play_keeps_why_the_roll_stopped(report: Report):
    play = SimpleNamespace(get_name=lambda: "Drain nodes", get_variable_manager=lambda: None)
    report.v2_playbook_on_play_start(play)
    closed(report, {}, stopped="its time is over")
    report.v2_playbook_on_play_start(play)
    assert report.written()["stopped"] == "its time is over"


def test_under_ansible_runner_the_report_is_among_its_artifacts(report: Report, tmp_path: Path, monkeypatch: Any):
    monkeypatch.setattr(report, "get_option", lambda _name, *_more: "")
    monkeypatch.setenv("AWX_ISOLATED_DATA_DIR", str(tmp_path / "artifacts"))
    report.v2_playbook_on_stats(SimpleNamespace(rescued={}))
    assert (tmp_path / "artifacts/report.html").exists()
    monkeypatch.delenv("AWX_ISOLATED_DATA_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    report.v2_playbook_on_stats(SimpleNamespace(rescued={}))
    assert (tmp_path / ".local/state/bedplate-reports/none/report.json").exists()


def test_skipped_tasks_and_seconds_are_counted(report: Report, monkeypatch: pytest.MonkeyPatch):
    now = iter([10.0, 12.0, 12.0, 20.0, 23.0, 23.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    for kind in (report.v2_runner_on_ok, report.v2_runner_on_skipped):
        one = result("n1", "setup", {})
        report.v2_runner_on_start(one.host, one.task)
        kind(one)
    monkeypatch.undo()
    found = report.written()["nodes"]["n1"]
    assert (found["ok"], found["skipped"], found["seconds"]) == (1, 1, 5.0)
