# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that drains, reboots and resumes nodes: what it reads of Slurm, and what its parameters do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes import node_states, node_work
from ansible_collections.bedplate.cluster.plugins.modules import slurm_node
from tests.kit.module import Module, result_of
from tests.unit.slurm.nodes.slurmctld import LONG_AGO, OWN, Slurmctld, ours

DONE = {"drained": "drained", "rebooted": "rebooted", "resumed": "resumed", "noted": "drained"}
"""State of a task -> outcome of a node of its run."""


class Commands:
    """scontrol and squeue, which hide jobs, nodes and reservations as their options and the environment say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slurm: Slurmctld) -> None:
        self.slurm, self.monkeypatch = slurm, monkeypatch
        self.without_answer = ""
        self.ended: int | None = 1
        monkeypatch.setattr(node_states, "run", lambda argv, _seconds, environment: self.answer(argv, environment))
        monkeypatch.setattr(slurm_node.slurm_commands, "change", lambda argv, _slurm_conf: self.change(argv))
        monkeypatch.setattr(node_work, "_SILENCE", 0.0)

    def answer(self, argv: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        """Print nodes, jobs or reservations; a clock of another zone than UTC is nine hours ahead."""
        number = ["nodes", "squeue", "reservations"].index(argv[0] if argv[0] == "squeue" else argv[-1])
        if self.without_answer in argv:
            return Outcome(self.ended, "", "Unable to contact slurm controller")
        text = self.slurm.texts()[number]
        if "--all" not in argv or (argv[0] == "squeue" and "SQUEUE_STATES" in os.environ):
            text = ""
        if argv[0] == "squeue" and "--local" not in argv:
            text += "\n99|RUNNING|n2|1:00:00"
        if environment.get("TZ") != "UTC0":
            text = text.replace("T00:", "T09:")
        return Outcome(0, text, "")

    def change(self, argv: Sequence[str]) -> str:
        """Run a command; a node that is rebooted is back at once."""
        said = self.slurm.change(argv)
        if argv[1] == "reboot":
            self.slurm.back(argv[2])
        return said

    def run(self, state: str | None, nodes: str = "n1", check: bool = False, **more: Any) -> dict[str, Any]:
        """Run the module for the run r1."""
        given = {"kind": "roll", "run": "r1", "why": "driver 580", "deadline": 0, "patience": 0, "idle_patience": None}
        groups = {
            "limits": [],
            "apart": [],
            "watched": [],
            "settle": 0,
            "reserved": False,
            "reservation": "",
            "of_slurm": False,
        }
        given["directory"] = "/etc/slurm"
        module = Module({"nodes": nodes, "state": state, **given, **groups, **more}, check)
        return result_of(self.monkeypatch, slurm_node, module)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(monkeypatch, Slurmctld.of("n[1-2]"))


def test_jobs_of_hidden_partitions_hold_nodes_and_jobs_of_other_clusters_do_not(commands: Commands):
    commands.slurm.jobs = {"7": ("RUNNING", "n1")}
    assert commands.run("drained", "n[1-2]")["outcomes"] == {"drained": "n2", "draining": "n1"}


def test_a_variable_of_a_login_shell_hides_no_job(commands: Commands, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SQUEUE_STATES", "PENDING")
    commands.slurm.jobs = {"7": ("RUNNING", "n1")}
    assert commands.run("drained")["nodes"]["n1"]["jobs"] == ["7"]


def test_a_hidden_reservation_holds_its_nodes(commands: Commands):
    commands.slurm.reservations = {"course": "n1"}
    assert commands.run("drained")["outcomes"] == {"held": "n1"}
    assert commands.run("drained", reservation="course")["outcomes"] == {"drained": "n1"}


def test_nodes_of_reservations_are_drained_on_request(commands: Commands):
    commands.slurm.reservations = {"course": "n1"}
    assert commands.run("drained", reserved=True)["outcomes"] == {"drained": "n1"}


def test_times_are_in_utc(commands: Commands):
    ours(commands.slurm, "n1")
    assert commands.run(None)["nodes"]["n1"]["since"] == LONG_AGO


@pytest.mark.parametrize("ended", [1, None])
@pytest.mark.parametrize("word", ["nodes", "squeue", "reservations"])
@pytest.mark.parametrize("state", [None, *DONE])
def test_a_query_without_an_answer_is_a_failure_before_any_change(
    commands: Commands, state: str | None, word: str, ended: int | None
):
    """Half of the answers would hide jobs."""
    ours(commands.slurm, "n1")
    commands.without_answer, commands.ended = word, ended
    result = commands.run(state, why="new text")
    assert result["failed"]
    assert "slurmctld does not answer" in result["msg"]
    assert commands.slurm.commands == []


@pytest.mark.parametrize("state", [None, *DONE])
def test_a_line_of_a_job_that_is_not_understood_is_no_answer(
    commands: Commands, monkeypatch: pytest.MonkeyPatch, state: str | None
):
    ours(commands.slurm, "n1")
    monkeypatch.setattr(
        node_states,
        "run",
        lambda argv, _seconds, environment: (
            Outcome(0, "7 RUNNING n1 1:00\n", "") if argv[0] == "squeue" else commands.answer(argv, environment)
        ),
    )
    result = commands.run(state, why="new text")
    assert result["failed"]
    assert "not understood: '7 RUNNING n1 1:00'" in result["msg"]
    assert commands.slurm.commands == []


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("name", ["", "R1", "r 1", "-r"])
@pytest.mark.parametrize("state", DONE)
def test_a_run_whose_name_cannot_be_read_back_from_a_reason_is_refused(
    commands: Commands, state: str, name: str, check: bool
):
    result = commands.run(state, check=check, run=name)
    assert result["failed"]
    assert f"run {name!r}" in result["msg"]
    assert commands.slurm.commands == []


def test_a_report_needs_no_run(commands: Commands):
    ours(commands.slurm, "n1")
    assert commands.run(None, "n[1-2]", run=None)["outcomes"] == {"drained": "n1", "resumed": "n2"}


@pytest.mark.parametrize(
    "more",
    [
        {"nodes": "n[1"},
        {"limits": [{"where": "x", "nodes": "n[1", "most": 1}]},
        {"apart": [{"where": "x", "nodes": "n[1"}]},
        {"watched": [{"where": "x", "nodes": "n[1", "most": 1}]},
    ],
)
def test_a_hostlist_that_is_not_valid_is_a_failure(commands: Commands, more: dict[str, Any]):
    result = commands.run("drained", **more)
    assert "n[1" in result["msg"]
    assert commands.slurm.commands == []


def test_a_limit_holds_nodes_back(commands: Commands):
    limits = [{"where": "partition gpu", "nodes": "n[1-2]", "most": 1}]
    result = commands.run("drained", "n[1-2]", limits=limits)
    assert result["outcomes"] == {"drained": "n1", "limited": "n2"}
    assert "partition gpu" in result["nodes"]["n2"]["why"]


def test_nodes_of_two_batches_are_kept_apart(commands: Commands):
    ours(commands.slurm, "n1")
    result = commands.run("drained", "n2", apart=[{"where": "switch leaf1", "nodes": "n[1-2]"}])
    assert result["outcomes"] == {"limited": "n2"}
    assert "switch leaf1" in result["nodes"]["n2"]["why"]


def test_a_watched_node_that_health_takes_holds_the_others_back(commands: Commands):
    watched = [{"where": "canaries", "nodes": "n1", "most": 0}]
    assert (commands.run("drained", "n2", check=True, watched=watched)["halted"]) == ""
    commands.slurm.person("n1", written("health", "limiter", "gpu-count: 7 of 8"), "DRAIN")
    result = commands.run("drained", "n2", watched=watched)
    assert (result["outcomes"], result["sick"]) == ({"limited": "n2"}, {"n1": "gpu-count: 7 of 8"})
    assert result["halted"].startswith("canaries: ")
    assert commands.slurm.commands == []
    node = commands.run(None)["nodes"]["n1"]
    assert (node["kind"], node["run"], node["text"]) == ("health", "limiter", "gpu-count: 7 of 8")


def test_nodes_are_drained_only_after_the_time_of_health(commands: Commands):
    result = commands.run("drained", settle=60)
    assert (result["outcomes"], commands.slurm.commands) == ({"limited": "n1"}, [])


def test_a_node_that_is_named_twice_is_one_node(commands: Commands):
    limits = [{"where": "partition gpu", "nodes": "n[1-2],n2", "most": 2}]
    result = commands.run("drained", "n1,n[1-2]", limits=limits)
    assert (result["outcomes"], len(result["nodes"])) == ({"drained": "n[1-2]"}, 2)
    assert [argv[2] for argv in commands.slurm.commands] == ["NodeName=n[1-2]"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("drained", ["update", "NodeName=n1", "State=DRAIN", f"Reason={OWN}"]),
        ("rebooted", ["reboot", "n1"]),
        ("resumed", ["update", "NodeName=n1", "State=RESUME"]),
        ("noted", ["update", "NodeName=n1", f"Reason={OWN}"]),
    ],
)
@pytest.mark.parametrize("check", [False, True])
def test_each_state_has_its_command_and_check_mode_has_none(
    commands: Commands, state: str, words: list[str], check: bool
):
    if state != "drained":
        ours(commands.slurm, "n1")
        commands.slurm.reasons["n1"] = written("roll", "r1", "before") if state == "noted" else OWN
    result = commands.run(state, check=check)
    assert (result["changed"], result["outcomes"]) == (True, {DONE[state]: "n1"})
    assert commands.slurm.commands == ([] if check else [["scontrol", *words]])
