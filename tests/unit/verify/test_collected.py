"""Findings of several machines: collected, folded, and Slurm's taken from one controller that answers."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import NOTICE, Finding, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.live_drift import SILENT
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import collected

DOWN = Finding("partition-option", "partition gpu State", "UP", "DOWN", machine="Slurm")
SLOW = Finding("node-state", "node gpu01", "able to run jobs", "idle*", machine="Slurm")
QUIET = Finding(SILENT, "slurmctld", "an answer", "no answer")
SYSCTL = Finding("sysctl", "sysctl vm.swappiness", "10", "60", overridden_by="/etc/sysctl.d/99-site.conf:3")


def result(*findings: Finding, compared: tuple[str, ...] = ("files",)) -> dict[str, Any]:
    return {"findings": to_json(findings), "compared": list(compared)}


def test_each_finding_has_its_machine_and_a_machine_that_is_off_is_one() -> None:
    results = {"gpu01": result(SYSCTL), "gpu02": {"unreachable": True, "msg": "Connection\nrefused"}, "gpu03": result()}
    found = collected.collected(results, ["ctl1"])
    assert [(one.machine, one.kind) for one in found] == [("gpu01", "sysctl"), ("gpu02", "unreachable")]
    assert (found[1].severity, found[1].found) == ("error", "Connection refused")


def test_a_machine_without_a_result_is_not_taken_for_right() -> None:
    found = collected.collected({"gpu01": None, "gpu02": {"failed": True, "msg": "no such user"}}, [])
    assert [(one.machine, one.kind, one.severity) for one in found] == [
        ("gpu01", "unread", "error"),
        ("gpu02", "unread", "error"),
    ]


def test_slurm_is_taken_from_the_first_controller_that_answers() -> None:
    asked = ("files", "slurm")
    results = {"ctl2": result(DOWN, compared=asked), "ctl1": result(DOWN, SLOW, SYSCTL, compared=asked)}
    found = collected.collected(results, ["ctl1", "ctl2"])
    assert [(one.machine, one.kind) for one in found] == [
        ("Slurm", "partition-option"),
        ("Slurm", "node-state"),
        ("ctl1", "sysctl"),
    ]
    results["ctl1"] = result(QUIET, compared=asked)
    assert [(one.machine, one.kind) for one in collected.collected(results, ["ctl1", "ctl2"])] == [
        ("Slurm", "partition-option"),
        ("ctl1", SILENT),
    ]
    results["ctl1"] = {"unreachable": True, "msg": "off"}
    assert [(one.machine, one.kind) for one in collected.collected(results, ["ctl1", "ctl2"])] == [
        ("Slurm", "partition-option"),
        ("ctl1", "unreachable"),
    ]


def test_an_edited_file_is_named_by_its_options_alone() -> None:
    option = Finding("slurm-conf", "/etc/slurm/slurm.conf KillWait", "30", "60")
    file, other = (
        Finding("file", f"file /etc/slurm/{name}.conf", "as written", "changed") for name in ("slurm", "gres")
    )
    found = collected.collected({"ctl1": result(option, file, other)}, ["ctl1"])
    assert [one.where for one in found] == [option.where, other.where]


def test_what_is_no_content_of_the_edited_file_stays() -> None:
    option = Finding("slurm-conf", "/etc/slurm/slurm.conf KillWait", "30", "60")
    kind = Finding("file-type", "file /etc/slurm/slurm.conf", "a file", "a link")
    gres = Finding("file", "file /etc/slurm/gres.conf", "as written", "changed")
    lines = Finding("block", "/etc/slurm/gres.conf of demo", "present", "none")
    found = collected.collected({"ctl1": result(option, kind, gres, lines)}, ["ctl1"])
    assert {one.where for one in found} == {option.where, kind.where, gres.where, lines.where}


def test_what_controllers_know_of_slurm_stays_where_none_answers_in_full() -> None:
    results = {"ctl1": result(QUIET, SLOW, compared=("slurm",))}
    assert [one.kind for one in collected.collected(results, ["ctl1"])] == ["node-state", SILENT]


def test_no_controller_answers() -> None:
    results = {name: result(QUIET, compared=("slurm",)) for name in ("ctl1", "ctl2")}
    assert [one.machine for one in collected.collected(results, ["ctl1", "ctl2"])] == ["ctl1", "ctl2"]


def test_a_run_without_controllers_says_that_slurm_was_not_asked() -> None:
    (notice,) = collected.unasked({"gpu01": result()}, ["ctl1"])
    assert (notice.kind, notice.severity) == ("not-checked", NOTICE)
    assert collected.unasked({"ctl1": None}, ["ctl1"]) == []
    assert collected.unasked({"gpu01": None}, []) == []


def test_the_same_on_many_machines_is_one_line() -> None:
    findings = [SYSCTL.on(f"gpu{number:02}") for number in range(1, 5)] + [SYSCTL.on("login1"), DOWN]
    assert collected.lines(collected.folded(findings)) == (
        "ERROR Slurm: partition gpu State: expected UP, found DOWN\n"
        "ERROR gpu[01-04],login1: sysctl vm.swappiness: expected 10, found 60, overridden by /etc/sysctl.d/99-site.conf:3"
    )
