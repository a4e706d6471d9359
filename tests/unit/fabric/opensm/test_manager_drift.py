"""The subnet managers that run against those that are planned."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import sm_log
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.manager_drift import (
    PlannedManager,
    PlannedManagers,
    manager_findings,
)
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.test_sm_tools import ONE, THREE, TWO

WANTED = PlannedManagers(
    plane="",
    name="pod",
    managers=[
        PlannedManager(
            "ctl1", "ctl1 mlx5_0", ONE, 15, "opensm-plane@fabric.service", "/var/log/opensm/fabric/opensm.log"
        ),
        PlannedManager(
            "ctl2", "ctl2 mlx5_0", TWO, 14, "opensm-plane@fabric.service", "/var/log/opensm/fabric/opensm.log"
        ),
    ],
    engine="ftree",
    pkeys={ONE: [0xFFFF], TWO: [0x7FFF, 0x8001]},
    names={ONE: "ctl1 mlx5_0", TWO: "ctl2 mlx5_0"},
)


def sm(guid: str, priority: int, state: str) -> dict[str, Any]:
    return {"guid": guid, "lid": 1, "priority": priority, "state": state}


def facts(state: str, **changed: Any) -> dict[str, Any]:
    log = {
        **asdict(sm_log.LogSummary(state=state, engine="ftree" if state == "MASTER" else "", up=True)),
        **changed.pop("log", {}),
    }
    return {
        "plane": "",
        "unit": "active",
        "port": ["mlx5_0", "1"],
        "ports": [ONE],
        "managers": [sm(ONE, 15, "master"), sm(TWO, 14, "standby")],
        "log": log,
        "pkeys": {ONE: [0xFFFF], TWO: [0x8001, 0x7FFF]},
        **changed,
    }


def verdict(one: dict[str, Any] | None = None, two: dict[str, Any] | None = None, **both: Any) -> list[Finding]:
    """Return the findings when one or both hosts report something else than what is planned."""
    told = {"ctl1": facts("MASTER", **{**both, **(one or {})}), "ctl2": facts("STANDBY", **{**both, **(two or {})})}
    return manager_findings(WANTED, told)


def test_what_is_as_planned_is_no_finding():
    assert verdict() == []


# What hosts report, where it is not as planned.
CASES: dict[str, dict[str, Any]] = {
    "the master has failed": {"one": {"unit": "failed"}, "managers": [sm(TWO, 14, "master")]},
    "the standby is master": {"managers": [sm(ONE, 15, "standby"), sm(TWO, 14, "master")]},
    "a stranger is master": {"managers": [sm(ONE, 15, "standby"), sm(TWO, 14, "standby"), sm(THREE, 15, "master")]},
    "a stranger is standby": {"managers": [sm(ONE, 15, "master"), sm(TWO, 14, "standby"), sm(THREE, 0, "standby")]},
    "two masters": {"managers": [sm(ONE, 15, "master"), sm(TWO, 14, "master")]},
    "no master": {"managers": [sm(ONE, 15, "standby"), sm(TWO, 14, "standby")]},
    "a silent standby": {"managers": [sm(ONE, 15, "master"), sm(TWO, 14, "silent")]},
    "no standby": {"managers": [sm(ONE, 15, "master")]},
    "priority of the master": {"managers": [sm(ONE, 13, "master"), sm(TWO, 14, "standby")]},
    "priority of the standby": {"managers": [sm(ONE, 15, "master"), sm(TWO, 3, "standby")]},
    "nobody answers": {"managers": []},
    "different masters": {"two": {"managers": [sm(TWO, 14, "master")]}},
    "another port": {"one": {"port": [], "ports": [THREE], "managers": []}},
    "another engine": {"one": {"log": {"engine": "minhop"}}},
    "no state": {"two": {"log": {"state": ""}}},
    "no engine": {"one": {"log": {"engine": ""}}},
    "no subnet up": {"one": {"log": {"up": False}}},
    "partitions dropped": {"one": {"log": {"partitions": "line 3: bad PortGUID"}}},
    "errors in the log": {"two": {"log": {"errors": {"ERR 3113": 4}, "last": "ERR 3113: MAD"}}},
    "other P_Keys": {"pkeys": {ONE: [0xFFFF], TWO: [0xFFFF]}},
    "P_Keys that cannot be read": {"pkeys": {ONE: [0xFFFF]}},
}


# Kind, place and severity of the findings.
EXPECTED = {
    "the master has failed": [("unit", "ctl1, pod", "error"), ("sm", "pod", "error")],
    "the standby is master": [("sm", "pod", "error")],
    "a stranger is master": [("sm", "pod", "error")],
    "a stranger is standby": [("sm", "pod", "warning")],
    "two masters": [("sm", "pod", "error")],
    "no master": [("subnet", "pod", "error")],
    "a silent standby": [("sm", "pod", "error")],
    "no standby": [("sm", "pod", "error")],
    "priority of the master": [("sm", "pod", "error")],
    "priority of the standby": [("sm", "pod", "error")],
    "nobody answers": [("subnet", "pod", "error")],
    "different masters": [("subnet", "pod", "error")],
    "another port": [("port", "ctl1, pod", "error")],
    "another engine": [("engine", "ctl1, pod", "error")],
    "no state": [("log", "ctl2, pod", "error")],
    "no engine": [("engine", "ctl1, pod", "error")],
    "no subnet up": [("subnet", "ctl1, pod", "error")],
    "partitions dropped": [("log", "ctl1, pod", "error")],
    "errors in the log": [("log", "ctl2, pod", "error")],
    "other P_Keys": [("pkeys", "pod", "error")],
    "P_Keys that cannot be read": [("pkeys", "pod", "warning")],
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_not_as_planned_is_told_once_with_what_to_do(name: str):
    found = verdict(**CASES[name])
    assert [(one.kind, one.where, one.severity) for one in found] == EXPECTED[name]
    check_messages(f"manager: {name}", found)


def test_a_host_that_was_not_reached_is_a_finding_and_the_others_are_judged():
    found = manager_findings(WANTED, {"ctl1": None, "ctl2": facts("MASTER", managers=[sm(TWO, 14, "master")])})
    assert [(one.kind, one.where) for one in found] == [("host", "ctl1, pod"), ("sm", "pod")]
    check_messages("manager: a host that was not reached", found)
    assert len(manager_findings(WANTED, {"ctl1": None, "ctl2": None})) == 2


def test_a_host_that_was_not_asked_is_not_judged_and_one_that_failed_says_why():
    assert manager_findings(WANTED, {"ctl2": facts("STANDBY")}) == []
    (found,) = manager_findings(WANTED, {"ctl1": None, "ctl2": facts("STANDBY")}, {"ctl1": "sminfo not installed"})
    assert (found.kind, found.where, found.found.endswith("sminfo not installed")) == ("host", "ctl1, pod", True)
    check_messages("manager: a host that failed", [found])
