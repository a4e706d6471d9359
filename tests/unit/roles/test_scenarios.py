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


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(ROOT) as found:
        yield found


@pytest.mark.parametrize("scenario", scenarios(ROOT), ids=str)
def test_a_scenario(stage: Stage, scenario: Scenario):
    assert judge(scenario, play(stage, scenario)) == []
