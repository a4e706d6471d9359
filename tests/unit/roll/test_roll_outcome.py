# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of each node: what the playbook finished, against what Slurm reports."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_outcome import (
    failures,
    outcomes,
    plan_of,
    to_reboot,
    verified,
)

OWN = {"kind": "roll", "run": "r1", "state": "DRAIN+IDLE (bedplate:roll:r1: GPU driver [0000]; set by root)"}
PLAN = {
    "run": "r1",
    "hosts": ["n1"],
    "open": ["!all"],
    "left": {},
    "problems": {},
    "parts": {"n1": "GPU driver, reboot"},
}
DRAINED = {"__roll_drained": {"nodes": {"n1": {"outcome": "drained"}}}}
RESUMED = {"__roll_resumed": {"nodes": {"n1": {"outcome": "resumed"}}}}
VERIFIED = {**DRAINED, "__roll_step": "verified"}


def of(variables: dict[str, Any], now: dict[str, Any] | None = None, **plan: Any) -> tuple[str, str, bool]:
    found = outcomes({**PLAN, **plan}, {"n1": variables}.__getitem__, {"n1": now or {}})["n1"]
    return found.outcome, found.why, found.drained


@pytest.mark.parametrize(
    ("variables", "now", "outcome"),
    [
        ({**VERIFIED, **RESUMED}, {}, "done"),
        # Slurm says what holds.
        ({**VERIFIED, **RESUMED}, OWN, "failed"),
        ({**VERIFIED, "__roll_resumed": {"nodes": {"n1": {"outcome": "held", "why": "fan"}}}}, {}, "failed"),
        (VERIFIED, {}, "failed"),
        ({}, {}, "waiting"),
        (
            {"__roll_drained": {"nodes": {"n1": {"outcome": "draining", "why": "waits for job 7"}}}},
            {**OWN, "jobs": ["7"]},
            "waiting",
        ),
        ({"__roll_drained": {"nodes": {"n1": {"outcome": "held", "why": "fan"}}}}, {}, "left"),
        ({"__roll_drained": {"nodes": {"n1": {"outcome": "failed", "why": "denied"}}}}, {}, "failed"),
        ({**DRAINED, "__roll_failure": "Deploy the driver: no"}, OWN, "failed"),
        ({**DRAINED, "__roll_failure": "x", "__gpu_driver_done": {"unreachable": True}}, OWN, "unreachable"),
        (DRAINED, OWN, "unreachable"),
        ({**DRAINED, "__roll_step": "changed"}, OWN, "unreachable"),
    ],
)
def test_outcome_of_a_drained_node(variables: dict[str, Any], now: dict[str, Any], outcome: str):
    found = of(variables, now)
    assert (found[0], found[2]) == (outcome, now.get("kind") == "roll")
    assert found[1] or outcome == "done"


def test_outcome_of_a_node_that_no_batch_has():
    assert of({}, hosts=["!all"], left={"n1": "out of service: DRAIN (fan)"})[0] == "left"
    assert of({}, hosts=["!all"], left={"n1": "partition gpu: 1 of at most 1 nodes are out: n2"})[0] == "waiting"
    assert of({}, hosts=["!all"], problems={"n1": "no answer by SSH"})[0] == "unreachable"
    assert of({}, hosts=["!all"], problems={"n1": "CUDA: no such package"})[0] == "failed"


def test_outcome_of_a_node_without_a_drain():
    assert of({"__roll_step": "verified"}, hosts=["!all"], open=["n1"])[0] == "done"
    assert of({}, hosts=["!all"], open=["n1"])[0] == "failed"


def test_only_a_changed_node_that_wants_it_is_rebooted_and_only_a_verified_one_resumed():
    reasons = {"__roll_wanted": {"reasons": {"gpu_driver": "x"}}}
    hosts: dict[str, dict[str, Any]] = {
        "n1": {"__roll_step": "changed", **reasons},
        "n2": {"__roll_step": "changed", "__roll_wanted": {"reasons": {}}},
        "n3": reasons,
        "n4": {"__roll_step": "changed", "__roll_wanted": {"unreachable": True}},
        "n5": {"__roll_step": "verified", **reasons},
        "n6": {"__roll_failure": "no"},
    }
    assert to_reboot(hosts.__getitem__, hosts) == ["n1"]
    assert verified(hosts.__getitem__, hosts) == ["n5"]
    assert failures(hosts.__getitem__, [*hosts, "!all"]) == ["n6"]


def test_a_plan_that_failed_is_no_plan():
    hosts: dict[str, dict[str, Any]] = {"n1": {"__roll": {"failed": True, "hosts": ["n1"]}}, "n2": {"__roll": None}}
    assert plan_of(hosts.__getitem__, hosts) == {}
    hosts["n3"] = {"__roll": PLAN}
    assert plan_of(hosts.__getitem__, hosts) == PLAN
