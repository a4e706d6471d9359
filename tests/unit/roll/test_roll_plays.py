# SPDX-License-Identifier: GPL-3.0-or-later
"""Keywords that each play of a roll or a recovery needs: a scenario of a few nodes does not notice that one is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

PHASES = Path(__file__).parents[3] / "playbooks/phases"


def plays(*patterns: str) -> list[Any]:
    paths = sorted(path for pattern in patterns for path in PHASES.glob(pattern))
    found = [play for path in paths for play in yaml.safe_load(path.read_text())]
    assert found
    return [pytest.param(play, id=play["name"]) for play in found]


def tasks(entries: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each task, also of blocks."""
    for entry in entries:
        inner = [one for key in ("block", "rescue", "always") for one in entry.get(key, ())]
        yield from tasks(inner) if inner else [entry]


def is_on_controller(play: dict[str, Any]) -> bool:
    return all("delegate_to" in task for task in tasks(play["tasks"]))


@pytest.mark.parametrize("play", plays("roll_pending.yml"))
def test_a_comparison_is_in_check_mode_so_that_no_plan_changes_a_node(play: dict[str, Any]):
    assert play.get("check_mode") is True or is_on_controller(play)


@pytest.mark.parametrize("play", plays("roll_*.yml"))
def test_a_preview_runs_no_play_that_changes_a_node(play: dict[str, Any]):
    has_none = "[] if ansible_check_mode" in play["hosts"]
    assert has_none or play.get("check_mode") is True or is_on_controller(play)


@pytest.mark.parametrize("play", plays("roll_*.yml", "recover_*.yml"))
def test_a_node_that_does_not_answer_stays_in_the_play_so_that_its_outcome_is_reported(play: dict[str, Any]):
    assert play.get("ignore_unreachable") is True


@pytest.mark.parametrize("play", plays("roll_*.yml", "recover_*.yml"))
def test_a_call_for_all_nodes_is_made_once_also_where_the_site_has_another_strategy(play: dict[str, Any]):
    once = any(task.get("run_once") for task in tasks(play["tasks"]))
    assert play.get("strategy") == "ansible.builtin.linear" or not once


def test_no_machine_has_a_login_before_its_host_key_is_proved():
    (play,) = yaml.safe_load((PHASES / "recover_open.yml").read_text())
    first, second = play["tasks"][:2]
    assert "bedplate.cluster.recover_host_key" in first
    assert (second["bedplate.cluster.recover_plan"], "delegate_to" in second) == ({"step": "begin"}, True)


def test_a_node_is_drained_before_the_first_role_and_slurmd():
    (play,) = yaml.safe_load((PHASES / "recover_nodes.yml").read_text())
    drain = play["tasks"][0]["bedplate.cluster.slurm_node"]
    assert (drain["state"], drain["kind"]) == ("drained", "recover")
