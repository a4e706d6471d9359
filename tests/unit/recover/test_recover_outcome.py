# SPDX-License-Identifier: GPL-3.0-or-later
"""Outcomes of a recovery: what the playbook finished, against what Slurm reports."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.filter import recover
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.recover_outcome import (
    busy,
    goes_on,
    judged,
    outcomes,
    plan_of,
    to_reboot,
    to_resume,
)

IDLE = {"outcome": "resumed", "state": "IDLE", "kind": "", "run": "", "jobs": []}
OWN = {**IDLE, "outcome": "drained", "state": "DRAIN+IDLE", "kind": "recover", "run": "r1"}
PERSON = {**IDLE, "outcome": "held", "state": "DRAIN+IDLE (fan; set by ann)"}
PLAN: dict[str, Any] = {
    "run": "r1",
    "hosts": ["n1"],
    "parts": {"n1": "new host key"},
    "kept": {},
    "done": {},
    "stopped": {},
    "lost": {},
    "to_drain": "n1",
}
KEPT = {"n1": PERSON["state"]}


def answered(name: str, **node: Any) -> dict[str, Any]:
    return {name: {"nodes": {"n1": node}}}


DRAINED = answered("__roll_drained", outcome="drained", run="r1")
STILL = answered("__roll_own", **OWN)
WANTS = {"__roll_step": "changed", "__roll_wanted": {"reasons": {"rdma": "new kernel"}}}
CHANGED = {**DRAINED, **STILL, **WANTS}
VERIFIED = {**DRAINED, **STILL, "__roll_step": "verified"}
RESUMED = answered("__roll_resumed", outcome="resumed")


def of(variables: dict[str, Any], now: dict[str, Any], **plan: Any) -> tuple[str, str]:
    found = outcomes({**PLAN, **plan}, {"n1": variables}.__getitem__, {"nodes": {"n1": now}})["n1"]
    return found.outcome, found.why


@pytest.mark.parametrize(
    ("variables", "now", "outcome", "why"),
    [
        ({**VERIFIED, **RESUMED}, IDLE, "done", "recovered, verified and in service"),
        ({**VERIFIED, **RESUMED}, PERSON, "failed", "out of service again: DRAIN+IDLE (fan"),
        ({**VERIFIED, **answered("__roll_resumed", outcome="held", why="fan")}, PERSON, "left", "not resumed: fan"),
        ({**VERIFIED, **answered("__roll_resumed", outcome="failed", why="silent")}, OWN, "failed", "silent"),
        ({**VERIFIED, **answered("__roll_resumed", outcome="held", why="reboots")}, OWN, "failed", "reboots"),
        (VERIFIED, OWN, "failed", "verified, and not in service"),
        ({**CHANGED, **answered("__roll_rebooted", outcome="failed", why="not back")}, OWN, "failed", "not back"),
        ({**DRAINED, "__roll_failure": "Deploy DCGM: disk full"}, OWN, "failed", "Deploy DCGM: disk full"),
        (
            {**DRAINED, "__roll_failure": "x", "__gpu_driver_done": {"unreachable": True}},
            OWN,
            "unreachable",
            "no answer",
        ),
        (DRAINED, OWN, "unreachable", "did not answer"),
        (answered("__roll_drained", outcome="held", why="fan"), PERSON, "failed", "not drained: fan"),
        (answered("__roll_drained", outcome="draining", jobs=["7"]), IDLE, "failed", "got job 7 right before"),
        ({"__roll_drained": {"failed": True, "msg": "silent"}}, IDLE, "failed", "the controller: silent"),
        ({}, IDLE, "failed", "not drained: the run ended"),
        ({**DRAINED, **answered("__roll_own", **PERSON)}, PERSON, "failed", "by others while it was set up"),
    ],
)
def test_outcome_of_a_node(variables: dict[str, Any], now: dict[str, Any], outcome: str, why: str):
    found = of(variables, now)
    assert found[0] == outcome
    assert why in found[1]


@pytest.mark.parametrize(
    ("variables", "outcome", "why"),
    [
        ({**answered("__roll_own", **PERSON), "__roll_step": "verified"}, "left", "not resumed, because others"),
        ({**answered("__roll_own", **PERSON), **WANTS}, "failed", "needs a reboot (new kernel)"),
        (answered("__roll_own", **IDLE), "failed", "by others while it was set up"),
        ({"__roll_failure": "Deploy DCGM: disk full"}, "failed", "disk full"),
    ],
)  # fmt: skip
def test_outcome_of_a_node_that_a_person_keeps(variables: dict[str, Any], outcome: str, why: str):
    found = of(variables, PERSON, kept=KEPT, to_drain="")
    assert found[0] == outcome
    assert why in found[1]


def test_nodes_without_work_have_an_outcome():
    plan = {**PLAN, "hosts": ["!all"], "parts": {}}
    found = outcomes(
        {**plan, "done": {"n1": "nothing to do", "n2": "x"}, "kept": {"n2": "fan"}, "stopped": {"n3": "GUIDs"}, "lost": {"n4": "y"}},
        {}.get,  # type: ignore[arg-type]
        {"nodes": {}},
    )  # fmt: skip
    assert {name: one.outcome for name, one in found.items()} == {
        "n1": "done",
        "n2": "left",
        "n3": "failed",
        "n4": "unreachable",
    }


def test_a_node_that_stays_drained_is_marked_so_that_its_reason_says_why():
    failed = {"n1": {**DRAINED, "__roll_failure": "x"}}
    assert outcomes(PLAN, failed.__getitem__, {"nodes": {"n1": OWN}})["n1"].drained
    assert not outcomes(PLAN, failed.__getitem__, {"nodes": {"n1": IDLE}})["n1"].drained


@pytest.mark.parametrize(
    ("variables", "after", "expected"),
    [
        (DRAINED, "drained", True),
        ({}, "drained", False),
        (answered("__roll_drained", outcome="draining"), "drained", False),
        ({**DRAINED, **STILL}, "own", True),
        ({**DRAINED, **answered("__roll_own", **PERSON)}, "own", False),
        (CHANGED, "changed", False),
        ({**CHANGED, **answered("__roll_rebooted", outcome="rebooted")}, "changed", True),
    ],
)
def test_a_node_continues_as_in_a_roll(variables: dict[str, Any], after: str, expected: bool):
    assert goes_on({"n1": variables}.__getitem__, "n1", after, PLAN) == expected


@pytest.mark.parametrize(
    ("variables", "after", "expected"),
    [
        ({}, "drained", True),
        (answered("__roll_own", **PERSON), "own", True),
        (answered("__roll_own", **{**PERSON, "jobs": ["7"]}), "own", False),
        (answered("__roll_own", **IDLE), "own", False),
        ({}, "own", False),
        # It is theirs, and not rebooted.
        ({**CHANGED}, "changed", False),
    ],
)
def test_a_node_of_others_continues_while_it_is_out_without_a_job(
    variables: dict[str, Any], after: str, expected: bool
):
    assert goes_on({"n1": variables}.__getitem__, "n1", after, {**PLAN, "kept": KEPT}) == expected


def test_only_own_nodes_are_rebooted_and_resumed():
    for plan, expected in ((PLAN, "n1"), ({**PLAN, "kept": KEPT}, "")):
        assert to_reboot({"n1": CHANGED}.__getitem__, ["n1"], plan) == expected
        assert to_resume({"n1": VERIFIED}.__getitem__, ["n1"], plan) == expected


def test_a_node_that_got_a_job_is_resumed():
    raw = {"n1": answered("__roll_drained", outcome="draining")}.__getitem__
    assert busy(PLAN, raw) == ["n1"]
    assert busy(PLAN, {"n1": DRAINED}.__getitem__) == []


def result(variables: dict[str, Any], now: dict[str, Any], **plan: Any) -> dict[str, Any]:
    raw, full = {"n1": variables}.__getitem__, {**PLAN, **plan}
    return judged(full, outcomes(full, raw, {"nodes": {"n1": now}}), raw)


def test_a_run_fails_if_a_node_was_not_recovered():
    done = result({**VERIFIED, **RESUMED}, IDLE)
    assert (done["failed"], done["nodes"], done["outcomes"]) == (False, {}, {"done": "n1"})
    failed = result({**DRAINED, "__roll_failure": "disk full"}, OWN)
    assert (failed["failed"], failed["nodes"]["n1"]["why"]) == (True, "disk full")
    assert failed["msg"].startswith("n1: not recovered: failed: disk full")
    left = result({**answered("__roll_own", **PERSON), "__roll_step": "verified"}, PERSON, kept=KEPT)
    assert (left["failed"], left["outcomes"]) == (False, {"left": "n1"})


def test_the_report_names_new_keys_and_accepted_guids():
    key = {"state": "new", "offered": ["ssh-ed25519 SHA256:new"], "recorded": ["ssh-ed25519 SHA256:old"]}
    found = result({**VERIFIED, **RESUMED, "__recover_key": key, "__recover_guids": {"accepted": True}}, IDLE)
    assert "n1: host key: ssh-ed25519 SHA256:new (before: ssh-ed25519 SHA256:old)" in found["msg"]
    assert ("playbooks/fabric.yml" in found["msg"], "playbooks/interconnect.yml" in found["msg"]) == (True, True)


def test_without_a_plan_no_host_fits():
    assert plan_of({"n1": {}}.__getitem__, ["n1"]) == {}
    assert recover.recover_hosts({"n1": {}}, ["n1", "n2"]) == ["!all"]
    assert recover.recover_hosts({"n1": {"__recover": {**PLAN, "failed": True}}}, ["n1"]) == ["!all"]
    assert recover.recover_hosts({"n1": {"__recover": PLAN}}, ["n1"]) == ["n1"]
    assert recover.recover_nodes({"n1": {"__recover": PLAN, **VERIFIED}}, ["n1"], "resume") == "n1"
