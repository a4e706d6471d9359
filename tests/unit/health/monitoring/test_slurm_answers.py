# SPDX-License-Identifier: GPL-3.0-or-later
"""What the exporter reads in the output of sinfo, squeue and sdiag."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter import slurm_answers, slurm_metrics
from ansible_collections.bedplate.cluster.plugins.module_utils.health.exporter.slurm_answers import (
    STATES,
    UNAVAILABLE,
    AnswerError,
    NodeState,
    Rpc,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import drain_reasons
from tests.unit.health.monitoring import recorded_slurm


def test_nodes_of_22_05_have_one_state_and_the_kind_of_their_reason() -> None:
    found = slurm_answers.nodes_of(recorded_slurm.SINFO)
    assert found.nodes == {
        "gpu001": NodeState("drained", "person"),
        "gpu002": NodeState("draining", "slurm"),
        "gpu003": NodeState("power"),
        "gpu004": NodeState("down", "slurm"),
        "gpu005": NodeState("idle"),
    }
    assert found.partitions["long"] == {"drained": 1}
    assert sum(found.partitions["gpu"].values()) == 5
    assert found.unread == 0


@pytest.mark.parametrize(
    ("complete", "state"),
    [
        ("ALLOCATED", "allocated"),
        ("IDLE+DRAIN+NOT_RESPONDING", "drained"),
        ("idle+drain+completing", "draining"),
        ("mixed+completing", "completing"),
        ("down+drain", "down"),
        ("error", "down"),
        ("idle+fail", "failing"),
        ("idle+reserved", "reserved"),
        ("mixed+reserved", "mixed"),
        ("idle+planned", "planned"),
        ("idle+maint+reserved", "maintenance"),
        ("idle+reboot_requested", "rebooting"),
        ("idle+invalid_reg", "unknown"),
        ("unknown", "unknown"),
        ("future", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_state_of_many_flags_is_one_state(complete: str, state: str) -> None:
    assert slurm_answers.state_of(complete) == state


@given(st.text())
def test_only_the_three_working_states_and_their_flags_make_a_node_available(text: str) -> None:
    state = slurm_answers.state_of(text)
    assert state in STATES
    assert state in UNAVAILABLE or text.strip().lower().split("+")[0] in ("idle", "mixed", "allocated")


def test_the_kind_of_an_own_reason_ends_with_an_edit() -> None:
    own = drain_reasons.written("health", "a1", "gpu-lost 0000:3b:00.0")
    assert slurm_answers.reason_kind(own) == "health"
    assert slurm_answers.reason_kind(own + " : reboot issued") == "health"
    assert slurm_answers.reason_kind(own.replace("gpu-lost", "gpu-lost, Ann")) == "person"


def test_a_node_that_was_resumed_has_no_reason() -> None:
    found = slurm_answers.nodes_of("gpu|n1|IDLE|fan is loud\ngpu|n2|IDLE+DRAIN|fan is loud\n")
    assert found.nodes == {"n1": NodeState("idle"), "n2": NodeState("drained", "person")}


def test_a_damaged_line_is_counted_and_a_damaged_answer_is_an_error() -> None:
    found = slurm_answers.nodes_of(recorded_slurm.SINFO + "sinfo: error: x\n||idle|none\n")
    assert (len(found.nodes), found.unread) == (5, 2)
    # An empty answer must not look like a cluster without a sick node.
    with pytest.raises(AnswerError):
        slurm_answers.nodes_of("")
    with pytest.raises(AnswerError):
        slurm_answers.nodes_of("slurm_load_partitions: error\n")
    with pytest.raises(AnswerError):
        slurm_answers.jobs_of("slurm_load_jobs error\n")
    with pytest.raises(AnswerError):
        slurm_answers.diagnosis_of("")


def test_jobs_count_in_each_of_their_partitions() -> None:
    found = slurm_answers.jobs_of(recorded_slurm.SQUEUE)
    assert found["gpu"] == {"running": 3, "pending": 1, "other": 1}
    assert found["long"] == {"pending": 1, "ending": 1}


def test_figures_of_sdiag_with_their_sections() -> None:
    found = slurm_answers.diagnosis_of(recorded_slurm.SDIAG)
    assert found.figures["Agent queue size"] == 12
    assert found.figures["Main schedule statistics/Last cycle"] == 8
    assert found.figures["Backfilling stats/Last cycle"] == 1555
    assert found.rpcs["REQUEST_NODE_INFO"] == Rpc(5, 0.002632)
    assert set(found.rpcs) == {"REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO"}
    # Each figure that is shown is in the recorded answer.
    assert set(slurm_metrics._FIGURES) <= set(found.figures)


@given(st.lists(st.text(alphabet="ab|+:, \t0", max_size=30)))
def test_no_text_ends_the_exporter(lines: list[str]) -> None:
    text = "\n".join(lines)
    for read in (slurm_answers.nodes_of, slurm_answers.jobs_of, slurm_answers.diagnosis_of):
        with suppress(AnswerError):
            read(text)
