# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a roll as data and as text: what is in it, what is left and why, and what a maintenance reservation changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.pending_parts import PendingNode
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_document import (
    NOBODY,
    UNKNOWN,
    RollChoices,
    SlurmNodes,
    document,
    in_window,
    preview,
)
from tests.unit.stand_ins import cluster_file

IDLE: dict[str, Any] = {"outcome": "resumed", "state": "IDLE", "jobs": [], "free_in": 0, "kind": "", "run": ""}
DRIVER = PendingNode({"GPU driver": "install nvidia-driver"}, {"GPU driver": "the driver is new"}, drain=True)
NAMES = PendingNode({"names and time": "write /etc/hosts"})
OWN: dict[str, Any] = {"outcome": "drained", "state": "DRAIN+IDLE", "kind": "roll", "run": "r1"}
WINDOW = {"name": "bedplate_roll_r1", "active": True, "nodes": "n[1-2]", "start": "2026-11-27T22:00:00", "end": ""}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    data: dict[str, Any] = yaml.safe_load(cluster_file({"b": {}}, {"b": "n[1-4]"}))
    file: Path = tmp_path_factory.mktemp("roll") / "c.bedplate.yml"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    return load(file)


def plan(
    cluster: Cluster,
    pending: dict[str, PendingNode],
    percent: float = 50,
    within: list[str] | None = None,
    **nodes: dict[str, Any],
) -> tuple[dict[str, Any], SlurmNodes]:
    slurm = SlurmNodes({node.name: {**IDLE, **nodes.get(node.name, {})} for node in cluster.nodes})
    return document(cluster, pending, slurm, "r1", RollChoices(percent, until=100.0, within=within)), slurm


def test_what_needs_no_drain_is_in_no_batch(cluster: Cluster):
    found, slurm = plan(
        cluster, {"n1": DRIVER, "n2": NAMES, "n3": PendingNode(), "n4": PendingNode(problem="no answer by SSH")}
    )
    assert (found["hosts"], found["open"], found["problems"]) == (["n1"], ["n2"], {"n4": "no answer by SSH"})
    assert preview(found, slurm).splitlines() == [
        "batch 1, canaries: n1: GPU driver, reboot",
        "without a drain: n2: names and time",
        "not compared: n4: no answer by SSH",
    ]


def test_nothing_is_pending(cluster: Cluster):
    found, slurm = plan(cluster, {"n1": PendingNode()})
    assert (found["work"], found["hosts"], preview(found, slurm)) == (False, NOBODY, "Nothing is pending.")


def test_a_preview_says_which_jobs_hold_a_node_and_for_how_long(cluster: Cluster):
    found, slurm = plan(
        cluster,
        {"n1": DRIVER, "n2": DRIVER},
        n1={"jobs": ["7"], "free_in": 5400},
        n2={"jobs": ["8", "9"], "free_in": None},
    )
    assert preview(found, slurm).splitlines() == [
        "batch 1, canaries: n1: GPU driver, reboot",
        "  n1 waits for jobs 7, 1.5 h at most",
        "batch 2: n2: GPU driver, reboot",
        "  n2 waits for jobs 8, 9, without a time limit",
        "at most 1.5 node-hours drained before their last jobs end, and 1 nodes have jobs without a time limit",
    ]


def test_a_node_that_slurm_does_not_know_is_left_with_what_to_do(cluster: Cluster):
    found, _ = plan(cluster, {"n1": DRIVER}, n1={"outcome": "failed", "why": "unknown to Slurm"})
    assert found["hosts"] == NOBODY
    assert found["left"]["n1"].startswith("unknown to Slurm: run playbooks/scheduler.yml")


def test_own_nodes_of_an_earlier_call_come_first_though_nothing_is_pending_on_them(cluster: Cluster):
    found, _ = plan(cluster, {"n1": DRIVER, "n2": DRIVER, "n3": PendingNode()}, n3=OWN)
    assert found["hosts"] == ["n3", "n1", "n2"]
    assert found["parts"]["n3"] == "drained before"


@pytest.mark.parametrize(("kind", "run"), [("roll", "r0"), ("upgrade", "r1")])
def test_nodes_of_another_run_are_left(cluster: Cluster, kind: str, run: str):
    other = {"outcome": "drained", "state": "DRAIN+IDLE", "kind": kind, "run": run}
    found, _ = plan(cluster, {"n1": DRIVER}, n1=other)
    assert found["hosts"] == NOBODY
    assert found["left"] == {"n1": "out of service: DRAIN+IDLE"}


def test_a_node_that_others_have_switched_off_is_left(cluster: Cluster):
    off = {"outcome": "held", "state": "DOWN+DRAIN (dead fan; set by ann)"}
    found, _ = plan(cluster, {"n1": PendingNode(problem="no answer by SSH"), "n2": DRIVER}, n1=off)
    assert found["problems"] == {}
    assert found["left"] == {"n1": "out of service: DOWN+DRAIN (dead fan; set by ann)"}
    assert found["hosts"] == ["n2"]


def test_an_own_node_that_does_not_answer_counts_as_out(cluster: Cluster):
    own = {"outcome": "drained", "state": "DRAIN+IDLE*", "kind": "roll", "run": "r1"}
    found, _ = plan(cluster, {"n1": PendingNode(problem="no answer by SSH"), "n2": DRIVER}, percent=5, n1=own)
    assert found["hosts"] == NOBODY
    assert found["left"]["n2"].startswith("partition")
    assert found["problems"] == {"n1": "no answer by SSH"}


@pytest.mark.parametrize("outcome", ["failed", "unreachable"])
def test_an_own_node_that_failed_is_no_canary(cluster: Cluster, outcome: str):
    own = {"outcome": "drained", "kind": "roll", "run": "r1"}
    own["state"] = f"DRAIN+IDLE (bedplate:roll:r1: GPU driver: {outcome}: no headers [0000]; set by root)"
    found, _ = plan(cluster, {"n1": DRIVER, "n2": DRIVER}, n1=own)
    assert (found["hosts"], found["canaries"]) == (["n1", "n2"], ["n2"])


@pytest.mark.parametrize("pending", [DRIVER, NAMES])
def test_a_node_that_was_not_compared_is_not_changed(cluster: Cluster, pending: PendingNode):
    found, _ = plan(cluster, {"n1": replace(pending, problem="CUDA: no such package"), "n2": DRIVER})
    assert (found["hosts"], found["open"], found["problems"]) == (["n2"], NOBODY, {"n1": "CUDA: no such package"})


def test_an_own_node_is_changed_in_its_batch_alone(cluster: Cluster):
    found, _ = plan(cluster, {"n1": NAMES}, n1=OWN)
    assert (found["hosts"], found["open"]) == (["n1"], NOBODY)


@pytest.mark.parametrize(
    ("node", "left"),
    [
        (OWN, None),
        ({"outcome": "held", "state": "DRAIN+IDLE (fan; set by ann)"}, "out of service: DRAIN+IDLE (fan; set by ann)"),
        ({"outcome": "failed", "why": "unknown to Slurm"}, UNKNOWN),
    ],
    ids=["of this run", "of others", "unknown"],
)
def test_a_reservation_of_others_is_no_reason_for_what_has_another_one(
    cluster: Cluster, node: dict[str, Any], left: str | None
):
    found, _ = plan(cluster, {"n1": DRIVER}, n1={**node, "reservations": ["course"]})
    assert found["left"].get("n1") == left
    assert found["hosts"] == (NOBODY if left else ["n1"])


@pytest.mark.parametrize("reserved", [False, True])
def test_a_node_in_the_reservation_of_others_is_no_canary(cluster: Cluster, reserved: bool):
    slurm = SlurmNodes({node.name: dict(IDLE) for node in cluster.nodes})
    slurm.nodes["n1"]["reservations"] = ["course"]
    slurm.nodes["n2"]["reservations"] = ["bedplate_roll_r1"]
    choices = RollChoices(50, until=100.0, reserved=reserved)
    found = document(cluster, {"n1": DRIVER, "n2": DRIVER}, slurm, "r1", choices)
    assert found["canaries"] == (["n1"] if reserved else ["n2"])
    assert found["left"] == ({} if reserved else {"n1": "in the active reservation course"})


def test_no_batch_begins_after_the_end_of_the_reservation(cluster: Cluster):
    found, _ = plan(cluster, {"n1": DRIVER})
    assert in_window(found, {**WINDOW, "end": "1970-01-01T00:00:50"}, "")["until"] == 50.0
    assert in_window(found, {**WINDOW, "end": "2026-11-28T02:00:00"}, "")["until"] == 100.0


def test_nobody_is_drained_before_the_reservation_begins(cluster: Cluster):
    found, slurm = plan(cluster, {"n1": DRIVER, "n2": NAMES})
    before = in_window(found, {**WINDOW, "active": False}, "")
    assert (before["hosts"], before["open"], before["work"]) == (NOBODY, ["n2"], True)
    assert before["left"] == {"n1": "waits for the reservation bedplate_roll_r1 from 2026-11-27T22:00:00"}
    assert "left: n1: waits for" in preview(before, slurm)
    assert in_window(found, {**WINDOW, "active": False, "start": ""}, "now+2hours")["left"]["n1"].endswith("now+2hours")


def test_in_the_reservation_its_nodes_alone_are_drained(cluster: Cluster):
    found, _ = plan(cluster, {"n1": DRIVER, "n2": DRIVER, "n3": DRIVER}, percent=100, within=["n1", "n2"])
    inside = in_window(found, WINDOW, "")
    assert (inside["hosts"], inside["serial"], inside["canaries"]) == (["n1", "n2"], [1, 1], ["n1"])
    assert inside["left"] == {"n3": "is not in the reservation bedplate_roll_r1"}
    assert inside["reservation"] == "bedplate_roll_r1"


def test_a_reservation_without_the_node_that_would_be_the_canary_has_another(cluster: Cluster):
    found, slurm = plan(cluster, {"n1": DRIVER, "n2": DRIVER, "n3": NAMES}, percent=100, within=["n2"])
    inside = in_window(found, {**WINDOW, "nodes": "n2"}, "")
    assert (inside["hosts"], inside["canaries"], inside["open"]) == (["n2"], ["n2"], ["n3"])
    assert preview(inside, slurm).startswith("batch 1, canaries: n2:")


def test_a_drained_node_outside_of_the_reservation_counts_for_the_limits(cluster: Cluster):
    drained = {"n1": {"outcome": "drained", "kind": "roll", "run": "r1"}}
    found, _ = plan(cluster, dict.fromkeys(["n1", "n2"], DRIVER), percent=25, within=["n2"], **drained)
    assert found["hosts"] == NOBODY
    assert found["left"]["n1"] == "is not in the reservation bedplate_roll_r1"
    assert "1 of at most 1 nodes are out: n1" in found["left"]["n2"]


@pytest.mark.parametrize(("health", "seconds"), [("", 0), ("health: {}\n", 70)])
def test_canaries_are_judged_only_where_the_cluster_has_health(tmp_path: Path, health: str, seconds: int):
    (tmp_path / "c.bedplate.yml").write_text(cluster_file({"b": {}}, {"b": "n[1-4]"}) + health)
    choices = RollChoices(50, settle=70)
    found = document(load(tmp_path / "c.bedplate.yml"), {"n1": DRIVER}, SlurmNodes({}), "r1", choices)
    assert found["settle"] == seconds


class Name(str):
    """A name that counts how often it is compared or hashed."""

    __slots__ = ()
    counted = 0

    def __hash__(self) -> int:
        Name.counted += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        Name.counted += 1
        return super().__eq__(other)


def test_ten_times_the_nodes_cost_no_hundred_times_the_comparisons(tmp_path: Path):
    (tmp_path / "c.bedplate.yml").write_text(cluster_file({"b": {}}, {"b": "n[1-160]"}))
    names = [Name(f"n{number}") for number in range(1, 161)]
    own = {"outcome": "drained", "kind": "roll", "run": "r1", "jobs": ["7"]}
    unknown = {"outcome": "failed", "why": "unknown to Slurm"}
    kinds = [(DRIVER, {**IDLE, **own}), (DRIVER, {**IDLE, **unknown}), (DRIVER, IDLE), (NAMES, IDLE)]
    slurm = SlurmNodes({name: kinds[number % 4][1] for number, name in enumerate(names)})
    pending = {name: kinds[number % 4][0] for number, name in enumerate(names)}
    Name.counted = 0
    found = document(load(tmp_path / "c.bedplate.yml"), pending, slurm, "r1", RollChoices(50))
    assert (len(found["hosts"]), len(found["open"]), len(found["left"])) == (80, 40, 40)
    assert Name.counted < 100 * len(names)
