# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of a run: outcome of hosts and of the run, table, and page."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.report_document import Place, document, table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.report_page import page
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.run_record import RunRecord, reason_of
from lab.paths import ROOT

ROLLED = {
    "n1": {"outcome": "done", "why": "", "jobs": [], "parts": "GPU driver, reboot", "drained": False},
    "n2": {"outcome": "waiting", "why": "waits for job 7", "jobs": ["7"], "parts": "GPU driver", "drained": True},
    "n3": {
        "outcome": "left",
        "why": "out of service: DRAIN (fan)",
        "jobs": [],
        "parts": "GPU driver",
        "drained": False,
    },
}
PLACES = {"n1": Place("r2", "B", 2), "n2": Place("r1", "B", 1), "n3": Place("r3", "A", 1)}


@pytest.fixture
def run() -> RunRecord:
    found = RunRecord("roll.yml", started=1_000_000.0, ended=1_000_012.5)
    found.add("n1", "ok", "Deploy the driver", {"changed": True})
    found.add("n2", "ok", "Deploy names", {"changed": False})
    found.add("n3", "skipped", "Deploy names", {})
    found.add("ctl1", "ok", "Report", {})
    found.add_roll(ROLLED, "r1")
    return found


def test_a_roll_says_what_became_of_each_node(run: RunRecord):
    report = document(run, "lab", PLACES)
    assert {name: one["outcome"] for name, one in report["nodes"].items()} == {
        "n1": "changed",
        "n2": "waiting",
        "n3": "left",
        "ctl1": "ok",
    }
    assert (report["outcome"], report["run"], report["seconds"]) == ("waiting", "r1", 12.5)
    assert report["nodes"]["n2"]["waits_for_jobs"] == ["7"]
    assert report["nodes"]["n2"]["drained"]
    assert json.loads(json.dumps(report)) == report


@pytest.mark.parametrize("kind", ["failed", "unreachable"])
def test_the_first_failure_of_a_host_is_that_of_the_report(run: RunRecord, kind: str):
    run.add("n1", kind, "Deploy the driver", {"msg": "no such package"})
    run.add("n1", kind, "Later", {"msg": "follows from it"})
    report = document(run)
    assert (report["outcome"], report["nodes"]["n1"]["outcome"]) == (kind, kind)
    assert report["nodes"]["n1"]["failed"] == {"task": "Deploy the driver", "reason": "no such package"}


def test_a_node_that_was_not_reached_and_stays_drained_is_unreachable(run: RunRecord):
    why = "no answer by SSH"
    rolled = {"outcome": "unreachable", "why": why, "parts": "GPU driver", "drained": True, "hours": 1.5}
    run.add_roll({**ROLLED, "n1": rolled}, "r1")
    report = document(run)
    one = report["nodes"]["n1"]
    assert (report["outcome"], one["outcome"], one["unreachable"]) == ("unreachable", "unreachable", True)
    assert one["failed"] == {"task": "", "reason": why}
    assert (one["parts"], one["drained"], one["hours_out"]) == ("GPU driver", True, 1.5)
    assert not report["nodes"]["n2"]["unreachable"]


def test_the_reason_of_the_roll_goes_before_that_of_a_task_and_that_before_differences(run: RunRecord):
    run.add("n1", "failed", "Deploy the driver", {"msg": "no such package"})
    run.add_findings([{"severity": "error", "where": "x", "found": "y"}], "n1")
    assert document(run)["nodes"]["n1"]["failed"]["reason"] == "no such package"
    run.add_roll({"n1": {"outcome": "failed", "why": "Deploy the driver: disk full"}}, "r1")
    assert document(run)["nodes"]["n1"]["failed"]["reason"] == "Deploy the driver: disk full"


def test_a_failure_outranks_silence_and_a_stop_what_waits(run: RunRecord):
    run.stopped = "its time is over"
    assert document(run)["outcome"] == "stopped"
    run.add("n4", "unreachable", "x", {})
    assert document(run)["outcome"] == "unreachable"
    run.add("n5", "failed", "x", {})
    assert document(run)["outcome"] == "failed"


def test_a_rescued_failure_leaves_its_place_to_the_next_one(run: RunRecord):
    run.add("n1", "failed", "First", {"msg": "one"})
    run.rescue("n1")
    run.rescue("n1")
    assert document(run)["nodes"]["n1"]["failed"] is None
    run.add("n1", "failed", "Second", {"stderr": "two"})
    assert document(run)["nodes"]["n1"]["failed"] == {"task": "Second", "reason": "two"}


def test_times_and_racks_are_in_the_report(run: RunRecord):
    report = document(run, "lab", PLACES)
    assert (report["started"], report["ended"]) == ("1970-01-12T13:46:40Z", "1970-01-12T13:46:52Z")
    assert (report["nodes"]["n1"]["rack"], report["nodes"]["ctl1"]["rack"]) == ("r2", "")
    assert (report["check"], document(RunRecord("x.yml", check=True))["check"]) == (False, True)
    assert document(RunRecord("x.yml"))["started"] == ""


def test_a_rescued_failure_is_none(run: RunRecord):
    run.add("n1", "failed", "Deploy the driver", {"msg": "no such package"})
    run.rescue("n1")
    assert document(run)["nodes"]["n1"]["outcome"] == "changed"


def test_a_run_that_was_stopped_is_not_done():
    found = RunRecord("site.yml", stopped="interrupted")
    found.add("n1", "ok", "x", {})
    assert document(found)["outcome"] == "stopped"


def test_what_a_task_hides_is_not_in_the_report():
    assert "secret" not in reason_of({"_ansible_no_log": True, "msg": "secret"}).replace("secrets", "")
    assert "k3y" not in reason_of({"censored": "the output has been hidden", "msg": "k3y"})
    assert len(reason_of({"msg": "x" * 9000})) == 2000


def test_the_table_names_what_needs_a_look(run: RunRecord):
    lines = table(document(run, "lab"))
    assert lines[0] == "roll.yml: waiting: 1 ok, 1 changed, 1 waiting, 1 left (4 hosts in 12.5 s)"
    assert [line.split()[:2] for line in lines[1:]] == [["n2", "waiting"], ["n3", "left"]]
    assert lines[1].endswith("waits for job 7")
    run.add("n1", "failed", "Deploy", {"msg": "no\n  " + "x" * 500})
    failed = table(document(run, "lab"))[1]
    assert "Deploy: no xxx" in failed
    assert len(failed) < 200
    many = RunRecord("site.yml")
    for number in range(100):
        many.add(f"n{number}", "failed", "x", {"msg": "no"})
    assert len(table(document(many))) == 42


def test_the_page_has_racks_in_their_places_and_trusts_no_name(run: RunRecord):
    run.add("<script>alert(1)</script>", "failed", "</script>", {"msg": "<img src=x>"})
    text = page(document(run, "lab", PLACES), PLACES)
    assert "<script>alert" not in text
    assert "<img" not in text
    rows = re.findall(r"Row (\w)|<h3>([^<]+)</h3>", text)
    assert [row or rack for row, rack in rows] == ["A", "r3", "B", "r1", "r2", "other machines"]
    assert "http" not in text.replace("http-equiv", "")


def test_a_difference_that_verify_found_fails_its_machine_alone(run: RunRecord):
    row = {"severity": "error", "where": "sysctl vm.swappiness", "expected": "10", "found": "60", "machine": "n3"}
    run.add_findings([row, row, {**row, "severity": "warning", "machine": "ctl1"}], "n1")
    nodes = document(run)["nodes"]
    assert nodes["n3"]["findings"] == [
        {**{key: row[key] for key in ("severity", "where", "expected", "found")}, "remedy": ""}
    ]
    assert (nodes["ctl1"]["outcome"], nodes["ctl1"]["findings"][0]["severity"]) == ("ok", "warning")
    del run.hosts["n3"].rolled
    run.hosts["n3"].rolled = {}
    assert document(run)["nodes"]["n3"]["failed"] == {"task": "", "reason": "1 differences from the cluster file"}


def test_a_report_is_as_its_schema_says(run: RunRecord):
    schema = json.loads((ROOT / "docs/schema/run-report.schema.json").read_text())
    run.add("n1", "failed", "Deploy the driver", {"msg": "no such package"})
    run.add_findings([{"severity": "error", "where": "x", "expected": "", "found": "y", "remedy": ""}], "n3")
    jsonschema.validate(document(run, "lab", PLACES), schema)
