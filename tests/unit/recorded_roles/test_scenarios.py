# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles and playbooks on recorded nodes: which modules they call, with which arguments, in which order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.recorded.scenario import Scenario, judge, play, scenarios
from tests.kit.recorded.stage import Stage

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
# What `make test` runs on containers (Slurm with one controller), or in test_reboot_playbook.py. `make full-roles` plays these scenarios,
# all before its first mutant.
RUN_ELSEWHERE = ("fabric", "node_os", "node_tuning", "opensm", "reboot", "slurm")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(ROOT) as found:
        yield found


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(one, marks=pytest.mark.full_roles if one.subject in RUN_ELSEWHERE else (), id=str(one))
        for one in scenarios(ROOT)
    ],
)
def test_a_scenario(stage: Stage, scenario: Scenario):
    assert judge(scenario, play(stage, scenario)) == []
