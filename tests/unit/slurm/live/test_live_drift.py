"""Slurm read back on a controller: what is asked, how long it is waited, and what one answer gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import live_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.live_state import NODE_FORMAT
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
CONFIG = "HASH_VAL = Match\nSlurmUser = slurm(64030)\nSLURM_CONF = /etc/slurm/slurm.conf\nSLURM_VERSION = 24.11.5\n"
NODE = "gpu01|gpu:sim:2(S:0)|2|960|{}|24.11.5|{}|2026-11-21T09:00:00|{}\n"
IDLE = NODE.format("idle", "Unknown", "none")
ANSWERS = {
    "scontrol show config": CONFIG,
    f"sinfo --noheader --all --Node --format={NODE_FORMAT}": IDLE,
    "scontrol --all --oneliner show partition": (
        "PartitionName=gpu Nodes=gpu01 State=UP MaxTime=1-00:00:00\nPartitionName=old Hidden=YES Nodes=gpu01\n"
    ),
    "scontrol --all --oneliner show node": "NodeName=gpu01 AvailableFeatures=sim,rack_r1 Weight=1\n",
    "scontrol show topology": "SwitchName=leaf Level=0 LinkSpeed=1 Nodes=gpu01\n",
}
SINFO = list(ANSWERS)[1]
EXPECTED: dict[str, Any] = {
    "version": "24.11",
    "node_count": 1,
    "nodes": [{"names": "gpu01", "gres": "gpu:sim:2", "cpus": 2, "memory": 960, "state": ""}],
    "partitions": {"gpu": "gpu01"},
    "topology": {"leaf": {"level": "0", "nodes": "gpu01", "switches": ""}},
    "options": {"SlurmctldDebug": "info"},
    "partition_options": {
        "gpu": [
            {"option": "State", "shown": "State", "type": "word", "want": "UP"},
            {"option": "MaxTime", "shown": "MaxTime", "type": "time", "want": "24:00:00"},
        ]
    },
    "features": [{"names": "gpu01", "features": "sim,rack_r1"}],
    "wait": 30,
}


class Slurm:
    """A Slurm that gives prepared answers; one of several is given each time it is asked, the last stays."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = {**ANSWERS, **answers}
        self.rounds = 0

    def ask(self, questions: Sequence[Sequence[str]]) -> list[Outcome]:
        self.rounds += 1
        outcomes = []
        for question in questions:
            answer = self.answers[" ".join(question)]
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
            outcomes.append(answer if isinstance(answer, Outcome) else Outcome(0, answer, ""))
        return outcomes


Run = Callable[..., tuple[list[Finding], int]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that compares, with other answers than those of a cluster in order; nobody waits."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    def start(answers: Mapping[str, Any], **expected: Any) -> tuple[list[Finding], int]:
        slurm = Slurm(answers)
        return list(live_drift.findings("/", {**EXPECTED, **expected}, slurm.ask)), slurm.rounds

    monkeypatch.setattr(live_drift.time, "sleep", sleep)
    monkeypatch.setattr(live_drift.time, "monotonic", lambda: clock[0])
    return start


def test_a_cluster_in_order_has_no_finding_and_is_asked_once(run: Run) -> None:
    assert run({}) == ([], 1)


def test_nodes_that_have_not_registered_yet_are_waited_for(run: Run) -> None:
    for state in ("unk*", "idle*"):
        starting = NODE.format(state, "Unknown", "none")
        assert run({SINFO: [starting, starting, IDLE]}) == ([], 3)


def test_the_wait_ends_after_thirty_seconds(run: Run) -> None:
    (finding,), rounds = run({SINFO: NODE.format("idle*", "Unknown", "none")})
    assert (finding.kind, finding.where, finding.found) == ("node-state", "node gpu01", "idle*")
    assert rounds == 31


@pytest.mark.parametrize(
    ("state", "reason", "severity"),
    [("drain", "Low RealMemory", "error"), ("down*", "Not responding", "error"), ("drain", "fan", "notice")],
)
def test_what_stays_is_not_waited_for(run: Run, state: str, reason: str, severity: str) -> None:
    who = "root(0)" if reason == "fan" else "slurm(64030)"
    (finding,), rounds = run({SINFO: NODE.format(state, who, reason)})
    assert (finding.kind, finding.severity, finding.machine, rounds) == ("node-state", severity, "Slurm", 1)


def test_all_that_differs_is_told_at_once(run: Run) -> None:
    config = CONFIG.replace("Match", "Different Ours=0x1 Slurmctld=0x2").replace("24.11.5", "23.02.1")
    answers = {
        "scontrol show config": config + "SlurmctldDebug = debug3\nDebugFlags = Backfill\n",
        SINFO: IDLE + "?",
        "scontrol --all --oneliner show partition": "PartitionName=gpu Nodes=gpu01 State=DOWN MaxTime=00:05:00\n",
        "scontrol --all --oneliner show node": "NodeName=gpu01 AvailableFeatures=sim Weight=7\n",
        "scontrol show topology": "",
    }
    findings, _ = run(answers)
    assert [(one.kind, one.where.partition(" of ")[0]) for one in findings] == [
        ("slurm-release", "slurmctld"),
        ("slurm-conf-hash", "/etc/slurm/slurm.conf"),
        ("slurm-option", "SlurmctldDebug"),
        ("slurm-option", "DebugFlags"),
        ("unread", "sinfo"),
        ("node-release", "node gpu01"),
        ("node-option", "node gpu01 Features"),
        ("node-option", "node gpu01 Weight"),
        ("partition-option", "partition gpu State"),
        ("partition-option", "partition gpu MaxTime"),
        ("switch", "switch leaf"),
    ]
    overridden = {one.where: one.overridden_by for one in findings if one.overridden_by}
    assert list(overridden) == [one.where for one in findings if one.kind.endswith("-option")]
    one_of_each = {one.kind: one for one in reversed(findings)}
    sentences.check(SENTENCES, "all that differs in the running Slurm", sorted(map(str, one_of_each.values())))


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (Outcome(1, "", "slurm_load_ctl_conf error: Unable to contact\n"), "Unable to contact"),
        (Outcome(None, "", "stopped after 30 s"), " 30 s"),
    ],
)
def test_a_slurmctld_that_does_not_answer_is_one_finding_of_its_host(run: Run, outcome: Outcome, text: str) -> None:
    (finding,), rounds = run({"scontrol show config": outcome})
    assert (finding.kind, finding.machine, rounds) == (live_drift.SILENT, "", 31)
    assert text in finding.found
    sentences.check(SENTENCES, "a slurmctld that does not answer", [str(finding).replace(finding.found, "...")])


def test_where_slurm_is_not_installed_nobody_waits(run: Run) -> None:
    (finding,), rounds = run({"scontrol show config": Outcome(127, "", "scontrol: No such file or directory")})
    assert (finding.kind, rounds) == (live_drift.SILENT, 1)


def test_a_login_does_not_change_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SINFO_PARTITION", "debug")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    (outcome,) = live_drift.query([["env"]])
    assert "SLURM_CONF=" in outcome.stdout
    assert "SINFO_" not in outcome.stdout
    assert "SLURM_CLUSTERS" not in {*os.environ}


def test_the_topology_of_single_partitions_is_read_back_too(run: Run) -> None:
    wanted = {"block": {"n1": {"level": "block", "nodes": "gpu01", "switches": ""}}}
    name = "scontrol show topology block"
    shown = "BlockName=n1 BlockIndex=0 Nodes=gpu01 BlockSize=1\n"
    assert run({name: shown}, topologies=wanted) == ([], 1)
    (finding,), _ = run({name: shown.replace("gpu01", "gpu02")}, topologies=wanted)
    assert (finding.kind, finding.where) == ("switch", "switch n1")
    assert ("gpu01" in finding.expected, "gpu02" in finding.found) == (True, True)
    (silent,), _ = run({name: Outcome(1, "", "slurm_load_topo error: Invalid topology")}, topologies=wanted)
    assert silent.kind == live_drift.SILENT
