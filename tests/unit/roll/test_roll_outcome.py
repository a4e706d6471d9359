# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of each node: what the playbook finished, against what Slurm reports."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_outcome import (
    goes_on,
    late,
    outcomes,
    plan_of,
    seconds_to_settle,
    sick,
    stopped,
    to_reboot,
    verified,
    watched,
)

OWN = {"kind": "roll", "run": "r1", "state": "DRAIN+IDLE (bedplate:roll:r1: GPU driver [0000]; set by root)"}
PLAN = {
    "run": "r1",
    "hosts": ["n1"],
    "serial": [1],
    "canaries": ["n1"],
    "failures": 0,
    "until": 100.0,
    "open": ["!all"],
    "left": {},
    "problems": {},
    "parts": {"n1": "GPU driver, reboot"},
}
DRAINED = {"__roll_drained": {"nodes": {"n1": {"outcome": "drained"}}}}
RESUMED = {"__roll_resumed": {"nodes": {"n1": {"outcome": "resumed"}}}}
VERIFIED = {**DRAINED, "__roll_step": "verified"}


def of(variables: dict[str, Any], now: dict[str, Any] | None = None, **plan: Any) -> tuple[str, str, bool]:
    found = outcomes(
        {**PLAN, **plan}, {"n1": variables}.__getitem__, {"nodes": {"n1": now or {}}, "now": "2026-11-26T12:00:00"}
    )["n1"]
    return found.outcome, found.why, found.drained


@pytest.mark.parametrize(
    ("variables", "now", "outcome"),
    [
        ({**VERIFIED, **RESUMED}, {}, "done"),
        # Slurm says what holds.
        ({**VERIFIED, **RESUMED}, OWN, "failed"),
        # A person took it meanwhile.
        (
            {**VERIFIED, "__roll_resumed": {"nodes": {"n1": {"outcome": "held", "why": "fan"}}}},
            {"outcome": "held"},
            "left",
        ),
        ({**VERIFIED, "__roll_resumed": {"nodes": {"n1": {"outcome": "held", "why": "fan"}}}}, {}, "waiting"),
        ({**VERIFIED, "__roll_resumed": {"nodes": {"n1": {"outcome": "held", "why": "fan"}}}}, OWN, "failed"),
        (VERIFIED, {}, "failed"),
        ({}, {}, "waiting"),
        (
            {"__roll_drained": {"nodes": {"n1": {"outcome": "draining", "why": "waits for job 7"}}}},
            {**OWN, "jobs": ["7"]},
            "waiting",
        ),
        ({"__roll_drained": {"nodes": {"n1": {"outcome": "limited", "why": "partition gpu: full"}}}}, {}, "waiting"),
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


def test_a_node_of_another_kind_of_run_is_not_this_runs():
    assert of({**VERIFIED, **RESUMED}, {**OWN, "kind": "upgrade"}) == ("done", "", False)


def test_a_node_of_a_batch_that_the_controller_did_not_answer_has_failed():
    lost = {"__roll_renewed": {"failed": True, "msg": "slurmctld does not answer"}}
    assert of(lost) == ("failed", "the controller: slurmctld does not answer", False)
    silent = {**DRAINED, "__roll_own": {"unreachable": True, "msg": "no route"}}
    assert of(silent, OWN) == ("failed", "the controller: no route", True)


@pytest.mark.parametrize("name", ["__roll_wanted", "__roll_direct", "__roll_after", "__cuda_done"])
def test_a_node_that_did_not_answer_a_task_of_its_batch_is_unreachable(name: str):
    variables = {**DRAINED, "__roll_failure": "x", name: {"unreachable": True}}
    assert of(variables, OWN) == ("unreachable", "no answer by SSH", True)
    assert not on(variables, "applied")


def test_outcome_of_a_node_that_no_batch_has():
    assert of({}, hosts=["!all"], left={"n1": "out of service: DRAIN (fan)"})[0] == "left"
    assert of({}, hosts=["!all"], left={"n1": "in the active reservation course"})[0] == "left"
    assert of({}, hosts=["!all"], left={"n1": "partition gpu: 1 of at most 1 nodes are out: n2"})[0] == "waiting"
    assert of({}, hosts=["!all"], problems={"n1": "no answer by SSH"})[0] == "unreachable"
    assert of({}, hosts=["!all"], problems={"n1": "CUDA: no such package"})[0] == "failed"


def test_outcome_of_a_node_without_a_drain():
    assert of({"__roll_step": "verified"}, hosts=["!all"], open=["n1"])[0] == "done"
    assert of({}, hosts=["!all"], open=["n1"])[0] == "failed"


def test_nodes_that_their_batch_left_out_are_late():
    hosts: dict[str, dict[str, Any]] = {
        "n1": {"__roll_drained": {"nodes": {"n1": {"outcome": "draining"}}}},
        "n2": {"__roll_drained": {"nodes": {"n2": {"outcome": "limited"}}}},
        "n3": DRAINED,
        "n4": {},
        "n5": {"__roll_drained": {"nodes": {"n5": {"outcome": "held"}}}},
    }
    assert late(hosts.__getitem__, {"hosts": [*hosts]}) == ["n1", "n2"]
    assert late(hosts.__getitem__, {"hosts": ["!all"]}) == late(hosts.__getitem__, {}) == []


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


def test_a_plan_that_failed_is_no_plan():
    hosts: dict[str, dict[str, Any]] = {"n1": {"__roll": {"failed": True, "hosts": ["n1"]}}, "n2": {"__roll": None}}
    assert plan_of(hosts.__getitem__, hosts) == {}
    hosts["n3"] = {"__roll": PLAN}
    assert plan_of(hosts.__getitem__, hosts) == PLAN


def waits(outcome: str, **more: Any) -> dict[str, Any]:
    """Return the variables of a changed node that wants a reboot, and what became of it."""
    wanted = {"reasons": {"gpu_driver": "x"}, "in_use": []}
    nodes = {"n1": {"outcome": outcome, "why": "its slurmd does not answer"}}
    return {**DRAINED, "__roll_step": "changed", "__roll_wanted": wanted, "__roll_rebooted": {"nodes": nodes}, **more}


def on(variables: dict[str, Any], after: str) -> bool:
    return goes_on({"n1": variables}.__getitem__, "n1", after)


def test_a_node_goes_on_after_a_positive_answer_alone():
    assert on(DRAINED, "drained")
    assert not on({"__roll_drained": {"failed": True}}, "drained")
    assert not on({}, "drained")
    assert on(waits("rebooted"), "changed")
    assert not on(waits("failed"), "changed")
    assert not on({**waits("rebooted"), "__roll_rebooted": {"unreachable": True}}, "changed")
    assert on({**DRAINED, "__roll_step": "changed", "__roll_wanted": {"reasons": {}}}, "changed")
    assert not on(DRAINED, "changed")


def test_a_node_that_others_took_over_while_packages_were_installed_keeps_its_driver():
    def now(outcome: str, run: str) -> dict[str, Any]:
        drained = {"nodes": {"n1": {"outcome": "drained", "run": "r1"}}}
        return {"__roll_drained": drained, "__roll_own": {"nodes": {"n1": {"outcome": outcome, "run": run}}}}

    assert on(now("drained", "r1"), "own")
    # Between a resume and another drain it may get a job.
    running = now("draining", "r1")
    taken_over = [now("resumed", ""), now("held", ""), now("drained", "r2"), running]
    for variables in (*taken_over, {"__roll_own": {"failed": True}}, {}):
        assert not on(variables, "own")
    assert of(running, OWN)[0] == "waiting"
    assert of(now("resumed", ""), {"outcome": "resumed"})[0] == "waiting"
    assert of(now("held", ""), {"outcome": "held"})[0] == "left"
    taken = {"n1": now("held", ""), "n2": {}}
    assert stopped({**PLAN, "hosts": ["n1", "n2"]}, taken.__getitem__, 50.0).startswith("canary n1 is not free")
    assert stopped({**PLAN, "hosts": ["n1", "n2"], "canaries": []}, taken.__getitem__, 50.0) == ""


def test_a_node_that_did_not_answer_a_role_is_not_changed():
    assert on({**DRAINED, "__cuda_done": {"changed": True}}, "applied")
    assert not on({**DRAINED, "__roll_packages": {"unreachable": True}}, "applied")


def test_a_node_without_slurmd_is_rebooted_by_ssh_if_nothing_runs_on_it():
    assert on(waits("silent"), "silent")
    assert not on(waits("rebooted"), "silent")
    assert not on(
        waits("silent", __roll_wanted={"reasons": {"gpu_driver": "x"}, "in_use": ["GPUs are in use"]}), "silent"
    )
    assert not on(waits("silent", __roll_wanted={"reasons": {"gpu_driver": "x"}}), "silent")
    assert not on(waits("silent", __roll_wanted={"reasons": {}, "in_use": []}), "silent")
    assert not on(waits("silent", __roll_wanted={"unreachable": True}), "silent")
    assert not on(waits("silent"), "changed")
    assert on(waits("silent", __roll_direct={"rebooted": True}), "changed")
    assert not on(waits("silent", __roll_direct={"skipped": True}), "changed")
    assert of(waits("held"), {"outcome": "held"})[:2] == ("left", "its slurmd does not answer")
    assert of(waits("held"), {"outcome": "resumed"})[0] == "waiting"
    assert of(waits("held"), OWN)[0] == "failed"
    busy = {"reasons": {"gpu_driver": "x"}, "in_use": ["GPUs are in use: python3 (7)"]}
    assert of(waits("silent", __roll_wanted=busy), OWN)[:2] == (
        "failed",
        "its slurmd does not answer; GPUs are in use: python3 (7)",
    )


HOSTS: dict[str, Any] = {"hosts": ["n1", "n2", "n3"], "serial": [1, 2], "canaries": ["n1"]}


@pytest.mark.parametrize(
    ("hosts", "plan", "why"),
    [
        ({}, {}, ""),
        ({"n1": {**VERIFIED, **RESUMED}}, {}, ""),
        ({"n1": {**DRAINED, "__roll_failure": "no"}}, {"failures": 5}, "canary n1 failed"),
        ({"n1": VERIFIED}, {"failures": 5}, "canary n1 failed"),
        ({"n1": {"__roll_drained": {"nodes": {"n1": {"outcome": "draining"}}}}}, {}, "canary n1 is not free"),
        # A canary that Slurm did not drain proves nothing.
        ({"n1": {"__roll_drained": {"nodes": {"n1": {"outcome": "failed"}}}}}, {"failures": 5}, "canary n1 failed"),
        ({"n2": {"__roll_drained": {"nodes": {"n2": {"outcome": "failed"}}}}}, {}, "1 nodes failed, of at most 0"),
        ({"n2": {"__roll_failure": "no"}}, {}, "1 nodes failed, of at most 0"),
        ({"n2": {"__roll_failure": "no"}}, {"failures": 1}, ""),
        # Of the nodes that need no drain.
        ({"n4": {"__roll_failure": "no"}}, {"open": ["n4"]}, "1 nodes failed, of at most 0"),
        ({"n4": {"__roll_failure": "no"}}, {"open": ["n4"], "failures": 1}, ""),
        ({"n4": {"__roll_step": "verified"}}, {"open": ["n4"]}, ""),
        ({"n2": {**VERIFIED, "__roll_resumed": {"nodes": {"n2": {"outcome": "held"}}}}}, {}, ""),
        ({"n1": {**VERIFIED, "__roll_resumed": {"nodes": {"n1": {"outcome": "held"}}}}}, {}, "canary n1 is not free"),
        (
            {"n2": {"__roll_drained": {"failed": True, "msg": "slurmctld does not answer"}}},
            {"failures": 5},
            "the controller: slurmctld",
        ),
        ({"n2": {"__roll_renewed": {"unreachable": True}}}, {"failures": 5}, "the controller: no answer"),
        ({"n2": {"__roll_own": {"unreachable": True}}}, {"failures": 5}, "the controller: no answer"),
        ({"n2": {"__roll_rebooted": {"failed": True, "msg": "x"}}}, {"failures": 5}, "the controller: x"),
        ({"n2": {"__roll_resumed": {"failed": True, "msg": "x"}}}, {"failures": 5}, "the controller: x"),
        ({}, {"until": 10.0}, "its time is over"),
    ],
)
def test_why_no_further_batch_begins(hosts: dict[str, Any], plan: dict[str, Any], why: str):
    found = stopped({**PLAN, **HOSTS, **plan}, lambda name: hosts.get(name, {}), 50.0)
    assert found.startswith(why)
    assert bool(found) == bool(why)


def back(host: str, **drained: Any) -> dict[str, Any]:
    """Return the variables of a node that the run has resumed; `drained` is what the drain of its batch reported besides."""
    return {
        "__roll_drained": {"nodes": {host: {"outcome": "drained"}}, "halted": "", "sick": {}, **drained},
        "__roll_step": "verified",
        "__roll_resumed": {"nodes": {host: {"outcome": "resumed"}}},
    }


def halted(host: str, outcome: str = "limited", **out: str) -> dict[str, Any]:
    """Return the variables of a node whose batch did not begin, because of the nodes `out`."""
    why = "canaries: health has 1 nodes out of service, of at most 0: n1"
    return {"__roll_drained": {"nodes": {host: {"outcome": outcome, "why": why}}, "halted": why, "sick": out}}


LOST_GPU = "gpu-count: 7 of 8"
SICK = {"outcome": "drained", "kind": "health", "run": "limiter", "text": LOST_GPU, "state": f"DRAIN ({LOST_GPU})"}
WAYS: list[Any] = [
    pytest.param({"n2": halted("n2", n1=LOST_GPU)}, {}, id="the next batch would begin"),
    pytest.param({}, {"n1": SICK}, id="the roll closes"),
]


@pytest.mark.parametrize(("hosts", "nodes"), WAYS)
def test_a_resumed_node_that_health_takes_has_failed(hosts: dict[str, Any], nodes: dict[str, Any]):
    hosts = {"n1": back("n1"), "n2": {}, "n3": {}, **hosts}
    plan = {**PLAN, **HOSTS}
    assert sick(plan, hosts.__getitem__, nodes) == {"n1": LOST_GPU}
    # A canary stops the roll, however many may fail.
    assert stopped({**plan, "failures": 5}, hosts.__getitem__, 50.0, nodes) == "canary n1 failed"
    other = {**plan, "canaries": []}
    assert stopped(other, hosts.__getitem__, 50.0, nodes).startswith("1 nodes failed, of at most 0 (roll_failures): n1")
    found = outcomes(plan, hosts.__getitem__, {"nodes": nodes, "now": ""}, "canary n1 failed")
    assert (found["n1"].outcome, found["n1"].drained) == ("failed", False)
    assert LOST_GPU in found["n1"].why
    waiting = {name: (found[name].outcome, found[name].why) for name in ("n2", "n3")}
    assert waiting == dict.fromkeys(("n2", "n3"), ("waiting", "the roll stopped: canary n1 failed"))


def test_a_tolerated_failure_does_not_stop_the_roll_and_counts_once():
    hosts = {"n1": back("n1"), "n2": back("n2"), "n3": back("n3", sick={"n2": LOST_GPU}), "n4": {}}
    plan = {**PLAN, "hosts": [*hosts], "canaries": ["n1"], "failures": 1}
    assert stopped(plan, hosts.__getitem__, 50.0, {"n2": SICK}) == ""
    # One more stops it. The failed node itself is not watched any more.
    assert watched(plan, hosts.__getitem__) == [
        {"where": "canaries", "nodes": "n1", "most": 0},
        {"where": "resumed nodes", "nodes": "n[1,3]", "most": 0},
    ]
    assert stopped(plan, hosts.__getitem__, 50.0, {"n2": SICK, "n3": SICK}).startswith("2 nodes failed, of at most 1")
    # It has failed, although health has resumed it since.
    found = outcomes(plan, hosts.__getitem__, {"nodes": {}, "now": ""})
    assert {name: one.outcome for name, one in found.items()} == {
        "n1": "done",
        "n2": "failed",
        "n3": "done",
        "n4": "waiting",
    }


@pytest.mark.parametrize(
    ("variables", "now"),
    [
        pytest.param(back("n1"), {**SICK, "outcome": "held", "kind": "", "text": ""}, id="a person drained it"),
        pytest.param(back("n1"), {**SICK, "kind": "upgrade"}, id="another run drained it"),
        pytest.param({"__roll_drained": {"nodes": {"n1": {"outcome": "held"}}}}, SICK, id="out before the roll"),
        pytest.param({}, SICK, id="in a later batch"),
    ],
)
def test_a_node_that_others_took_or_that_was_out_before_has_not_failed(variables: dict[str, Any], now: dict[str, Any]):
    plan = {**PLAN, "hosts": ["n1", "n2"], "canaries": []}
    assert stopped(plan, {"n1": variables, "n2": {}}.__getitem__, 50.0, {"n1": now}) == ""
    assert of(variables, now)[0] != "failed"
    assert of({}, SICK, hosts=["!all"], left={"n1": "out of service: DRAIN"})[0] == "left"


def test_no_node_goes_on_in_a_batch_that_does_not_begin():
    own = halted("n1", "drained", n2=LOST_GPU)
    assert not on(own, "drained")
    # It stays drained by the run, and has not failed.
    assert of(own, OWN) == ("waiting", f"the roll stopped: {own['__roll_drained']['halted']}", True)
    assert of(halted("n1", "held", n2=LOST_GPU), {"outcome": "held"})[0] == "left"
    hosts = {"n1": halted("n1"), "n2": back("n2")}
    plan = {**PLAN, "hosts": [*hosts], "canaries": []}
    assert late(hosts.__getitem__, plan) == []
    # Without another reason, such as at the end of the time of health.
    for outcome in ("limited", "draining", "drained"):
        hosts["n1"] = halted("n1", outcome)
        assert stopped(plan, hosts.__getitem__, 50.0) == hosts["n1"]["__roll_drained"]["halted"]


def test_resumed_nodes_are_watched_and_before_the_first_batch_none():
    plan = {**PLAN, "hosts": ["n1", "n2", "n3"], "canaries": ["n1"], "failures": 2}
    assert watched(plan, lambda _host: {}) == []
    hosts = {"n1": back("n1"), "n2": {**DRAINED, "__roll_failure": "no"}, "n3": {}}
    assert watched(plan, hosts.__getitem__) == [
        {"where": "canaries", "nodes": "n1", "most": 0},
        {"where": "resumed nodes", "nodes": "n1", "most": 1},
    ]


def test_only_the_batch_after_canaries_waits_for_health():
    # Nodes of an earlier call, their canary first; then canaries of other profiles.
    plan = {**PLAN, "hosts": ["n1", "n2", "n3", "n4", "n5", "n6"], "canaries": ["n1", "n3", "n4"], "settle": 90}
    batches = [["n1"], ["n2"], ["n3"], ["n4"], ["n5"], ["n6"]]
    assert [seconds_to_settle(plan, batch) for batch in batches] == [0, 90, 0, 0, 90, 0]
    assert seconds_to_settle({**plan, "settle": 0}, ["n5", "n6"]) == 0


def test_node_hours_out_of_service():
    def hours(variables: dict[str, Any], now: dict[str, Any]) -> float:
        slurm = {"nodes": {"n1": now}, "now": "2026-11-26T12:00:00"}
        return outcomes(PLAN, {"n1": variables}.__getitem__, slurm)["n1"].hours

    back = {"nodes": {"n1": {"outcome": "resumed", "since": "2026-11-26T10:00:00"}}, "now": "2026-11-26T10:30:00"}
    assert hours({**VERIFIED, "__roll_resumed": back}, {}) == 0.5
    assert hours(DRAINED, {**OWN, "since": "2026-11-26T10:00:00"}) == 2.0
    # Slurm sets the time anew at a reboot.
    earlier = {"__roll_drained": {"nodes": {"n1": {"outcome": "drained", "since": "2026-11-26T09:00:00"}}}}
    assert hours({**VERIFIED, **earlier, "__roll_resumed": back}, {}) == 1.5
    assert hours({**DRAINED, **earlier}, {**OWN, "since": "2026-11-26T10:00:00"}) == 3.0
    assert hours(earlier, {}) == 0.0
    assert hours({}, {}) == 0.0
