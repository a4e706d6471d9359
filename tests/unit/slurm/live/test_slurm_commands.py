# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of slurmctld before a change: everything, of this cluster alone, and of the files that are compared."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import slurm_commands
from tests.kit import sentences
from tests.unit.slurm.jobs.controller import (
    KILLED,
    NODES,
    RUNNING,
    Node,
    closed,
    fenced,
    give_back,
    installed,
    state_of,
)

SENTENCES = Path(__file__).parents[1] / "sentences.txt"


class Hiding(Node):
    """A controller whose commands answer as Slurm's own do.

    Without --all they hide a hidden partition from who is not root; without --local they show jobs of other clusters of a federation.
    """

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        outcome = super().run(command, environment)
        out = outcome.stdout
        if "config" not in command and "--all" not in command:
            out = "".join(line for line in out.splitlines(keepends=True) if "old" not in line and "n3" not in line)
        if "squeue" in command and "--local" not in command:
            out += "99|gpu|n2|\n"
        return Outcome(outcome.code, out, outcome.stderr)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return installed(Hiding(tmp_path), monkeypatch)


@pytest.mark.parametrize(
    "text", [NODES, "NodeName=n[1-2] CPUs=2\nPartitionName=gpu Nodes=n[1-2]\n"], ids=["file", "live"]
)
def test_jobs_in_hidden_partitions_keep_their_nodes_and_those_of_other_clusters_keep_nothing(node: Node, text: str):
    """Also where the file has lost the partition and its nodes, and slurmctld alone knows them."""
    node.conf(text)
    node.up("7|old|n3|\n")
    node.params.update(nodes="n1", partitions=["gpu"])
    kept, problems = node.find()
    assert problems == []
    assert (kept.nodes, kept.partitions) == ({"n3": ["7"]}, {"old": ["7"]})
    assert [line.split()[0] for line in kept.slurm] == ["NodeName=n3", "PartitionName=old"]


def test_what_is_written_while_slurmctld_is_asked_differs_from_what_was_compared(node: Node):
    """Another run that writes in between has its files overwritten otherwise."""
    node.conf()
    (node.etc / "job_submit.lua").write_text("-- one\n")
    node.up()
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in node.etc.iterdir()}
    ask = node.run

    def meanwhile(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        node.conf(NODES + "# another run\n")
        (node.etc / "job_submit.lua").write_text("-- two\n")
        return ask(command, environment)

    node.run = meanwhile  # type: ignore[method-assign]
    answer, problems = node.answer()
    assert (answer.files, problems) == (before, [])
    assert set(before) == {"slurm.conf", "job_submit.lua"}


@pytest.mark.parametrize("quiet", ["", "check_mode", "read_back"])
def test_a_partition_that_a_person_has_opened_goes_off_the_record(node: Node, quiet: str):
    """It would be given back, by which a person's DRAIN of a later day is lost."""
    record = closed(node, "UP", "old")
    node.params["read_back"] = quiet == "read_back"
    node.check_mode = quiet == "check_mode"
    assert node.answer()[1] == []
    assert record.exists() == bool(quiet)
    assert not quiet or json.loads(record.read_text())["partitions"] == ["old"]


def hanging(node: Node, word: str) -> None:
    """Let the commands with this word hang; they are stopped with half of what they would print."""
    answer = node.run

    def run(command: Sequence[str], environment: Mapping[str, str]) -> Outcome:
        outcome = answer(command, environment)
        return Outcome(None, "partial", "stopped after 30 s") if word in command else outcome

    node.run = run  # type: ignore[method-assign]


@pytest.mark.parametrize("word", ["config", "nodes", "partitions", "squeue"])
def test_a_question_that_hangs_has_no_answer(node: Node, word: str):
    """What it has printed before it was stopped would hide nodes, partitions or jobs."""
    node.conf()
    node.up(RUNNING)
    assert slurm_commands.query(node.etc / "slurm.conf")
    hanging(node, word)
    assert slurm_commands.query(node.etc / "slurm.conf") is None


def test_a_drain_that_hangs_is_a_refusal(node: Node):
    fenced(node)
    hanging(node, "State=DRAIN")
    answer, problems = node.answer()
    assert ["NodeName=n[1,3] State=DRAIN" in one and "30 s" in one for one in problems] == [True]
    assert not answer.raised
    sentences.check(
        SENTENCES, "a drain that hangs", [re.sub(r"\d{4}-\S+Z(.*) \[\w{4}\]", r"TIME\1", one) for one in problems]
    )


def test_a_resume_that_hangs_is_reported_and_its_partition_stays_on_record(node: Node):
    record = closed(node, "DRAIN", "old")
    state_of(node, "n3", f"State=IDLE+DRAIN {KILLED}")
    hanging(node, "update")
    failed = give_back(node, "old")[1]
    commands = ["scontrol update NodeName=n3 State=RESUME", "scontrol update PartitionName=old State=UP"]
    assert [one.split("`")[1] for one in failed] == commands
    assert all("30 s" in one for one in failed)
    assert json.loads(record.read_text())["partitions"] == ["old"]
    sentences.check(SENTENCES, "a node and a partition whose return hangs", failed)
