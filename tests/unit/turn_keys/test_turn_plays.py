# SPDX-License-Identifier: GPL-3.0-or-later
"""Keywords that each play of a turn needs: a run on a few machines that all answer does not notice that one is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PHASES = Path(__file__).parents[3] / "playbooks/phases"
CHANGES = {"bedplate.cluster.files", "bedplate.cluster.units", "bedplate.cluster.part"}


def _plays() -> Iterator[Any]:
    for path in sorted(PHASES.glob("turn_keys_*.yml")):
        for play in yaml.safe_load(path.read_text()):
            yield pytest.param(play, id=play["name"])


PLAYS = list(_plays())


@pytest.mark.parametrize("play", PLAYS)
def test_a_preview_changes_no_machine(play: dict[str, Any]):
    changes = [task for task in play["tasks"] if CHANGES & set(task) or "state: replaced" in yaml.safe_dump(task)]
    assert not changes or "[] if ansible_check_mode" in play["hosts"]


@pytest.mark.parametrize("play", PLAYS)
def test_a_step_is_decided_once_also_where_the_site_has_another_strategy(play: dict[str, Any]):
    once = any(task.get("run_once") for task in play["tasks"])
    assert play.get("strategy") == "ansible.builtin.linear" or not once


@pytest.mark.parametrize("play", PLAYS)
def test_a_machine_that_does_not_answer_is_named_by_a_later_step(play: dict[str, Any]):
    decides = any("bedplate.cluster.turn_keys" in task for task in play["tasks"])
    assert play.get("ignore_unreachable") is True or not decides


def test_a_credential_is_not_in_the_output():
    tasks = [task for play in PLAYS for task in play.values[0]["tasks"]]
    proofs = [task for task in tasks if task.get("bedplate.cluster.slurm_key", {}).get("state") == "proved"]
    assert len(proofs) == 9
    assert all(task["no_log"] is True for task in proofs)


def test_a_failed_proof_is_named_by_the_next_step():
    tasks = [task for play in PLAYS for task in play.values[0]["tasks"]]
    proofs = [task for task in tasks if task.get("bedplate.cluster.slurm_key", {}).get("state") == "proved"]
    assert all(task["failed_when"] is False for task in proofs)
    # Each phase has its own: a proof of an earlier one proves nothing.
    named = [task["register"] for task in proofs if "proof" in task["register"] or "collected" in task["register"]]
    assert len(named) == len(set(named)) == 6


def test_the_steps_are_in_order():
    steps = [
        task["bedplate.cluster.turn_keys"]["step"]
        for name in ("stage", "switch", "finish", "close")
        for play in yaml.safe_load((PHASES / f"turn_keys_{name}.yml").read_text())
        for task in play["tasks"]
        if "bedplate.cluster.turn_keys" in task
    ]
    assert steps == ["plan", "switch", "window", "finish", "close"]
    whole = (PHASES.parent / "turn_keys.yml").read_text()
    assert re.findall(r"phases/turn_keys_(\w+)\.yml", whole) == ["stage", "switch", "finish", "close"]
