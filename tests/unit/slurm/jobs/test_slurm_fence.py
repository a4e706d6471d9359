# SPDX-License-Identifier: GPL-3.0-or-later
"""The module that gives nodes and partitions back: how long it tries, and what it says when it gives up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.modules import slurm_fence
from tests.kit import sentences
from tests.kit.module import Module, result_of
from tests.unit.slurm.jobs.controller import KILLED, Node, closed, installed, state_of

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
COMMANDS = ["scontrol update NodeName=n3 State=RESUME", "scontrol update PartitionName=old State=UP"]
DENIED = "`scontrol update NodeName=n3 State=RESUME`: slurm_update error: Invalid node state specified"


class Clock:
    """A time that passes only in `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 100, "the module does not give up"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    """A controller with a drained node and a closed partition."""
    node = installed(Node(tmp_path), monkeypatch)
    closed(node, "DRAIN", "old")
    state_of(node, "n3", f"State=IDLE+DRAIN {KILLED}")
    return node


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(slurm_fence, "time", clock)
    return clock


def at_sleep(clock: Clock, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Let something happen while the module sleeps."""
    sleep = clock.sleep

    def stand_in(seconds: float) -> None:
        sleep(seconds)
        happens()

    monkeypatch.setattr(clock, "sleep", stand_in)


def run(node: Node, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give n3 and the partition `old` back."""
    places = {name: node.params[name] for name in ("directory", "state_directory")}
    return result_of(monkeypatch, slurm_fence, Module({"nodes": "n3", "partitions": ["old"], **places}))


def lift(monkeypatch: pytest.MonkeyPatch, answers: Sequence[list[str]]) -> list[int]:
    """Let `lift` fail as in `answers`, the last of which stays; return where each call is counted."""
    calls: list[int] = []

    def stand_in(*_arguments: object) -> list[str]:
        calls.append(1)
        return answers[min(len(calls), len(answers)) - 1]

    monkeypatch.setattr(slurm_fence, "lift", stand_in)
    return calls


def test_a_slurmctld_in_the_middle_of_a_restart_is_asked_again(
    node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    answers, node.answers = node.answers, None
    at_sleep(clock, monkeypatch, lambda: setattr(node, "answers", answers))
    assert run(node, monkeypatch) == {"changed": True, "commands": COMMANDS}
    assert node.updates == [command.removeprefix("scontrol update ") for command in COMMANDS]
    assert clock.now == 1


def test_a_slurmctld_that_never_answers_is_a_failure(node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    node.answers = None
    result = run(node, monkeypatch)
    assert (result["failed"], result["commands"], node.updates, clock.now) == (True, [], [], 30)
    assert {"n3", "old", "`bedplate:edit:`,", "playbooks/scheduler.yml"} <= set(result["msg"].split())
    sentences.check(SENTENCES, "nothing is given back, for slurmctld does not answer", [result["msg"]])


@pytest.mark.parametrize("silent", [False, True])
def test_a_node_that_slurmctld_does_not_resume_yet_is_tried_again(
    node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch, silent: bool
):
    """Also where slurmctld has stopped answering meanwhile."""
    calls = lift(monkeypatch, [[DENIED], [DENIED], []])
    if silent:
        at_sleep(clock, monkeypatch, lambda: setattr(node, "answers", None))
    assert run(node, monkeypatch) == {"changed": True, "commands": COMMANDS}
    assert (len(calls), clock.now) == (3, 2)


def test_a_node_that_slurmctld_never_resumes_is_a_failure(node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    calls = lift(monkeypatch, [[DENIED]])
    result = run(node, monkeypatch)
    assert (result["failed"], result["commands"], len(calls), clock.now) == (True, COMMANDS, 31, 30)
    assert result["msg"].splitlines()[0] == DENIED
    assert "playbooks/scheduler.yml" in result["msg"]
    sentences.check(SENTENCES, "a node that slurmctld never resumes", [result["msg"]])


def test_a_damaged_record_of_closed_partitions_is_a_failure(node: Node, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    """What was given back before it is read is named."""
    record = Path(node.params["state_directory"]) / "slurm_fence.json"
    record.write_text("{}")
    result = run(node, monkeypatch)
    assert (result["failed"], result["commands"], clock.now, record.read_text()) == (True, COMMANDS, 0, "{}")
    assert str(record) in result["msg"]
    assert len(node.updates) == len(COMMANDS)
    sentences.check(SENTENCES, "a damaged record of closed partitions", [result["msg"].replace(str(record), "RECORD")])
