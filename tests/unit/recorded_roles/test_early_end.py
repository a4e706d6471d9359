# SPDX-License-Identifier: GPL-3.0-or-later
"""A run of a mutant ends at its first call that is not as wanted; what it has made by then says why."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.kit.recorded.scenario import Scenario, judge, play
from tests.kit.recorded.stage import Stage

pytestmark = pytest.mark.playbooks
ROOT = Path(__file__).parents[3]
NAMES = Scenario(
    subject="early_end",
    name="names and time of four hosts",
    playbook="os",
    answers=["converged"],
    calls=[{"ctl1,gpu1,gpu2,cpu1 deploy": {"manifest": "node_os"}}],
)


def test_a_run_ends_at_its_first_call_that_is_not_as_wanted():
    with Stage(ROOT) as stage:
        assert judge(NAMES, play(stage, NAMES, to_its_end=False)) == []
        for wrong, said in (
            ({"ctl1 deploy": {}, "gpu1 units": {}}, "call 2 is gpu1 deploy, wanted gpu1 units"),
            (
                {"ctl1 deploy": {}, "gpu1 deploy": {"manifest": "cuda"}},
                "call 2, gpu1 deploy: manifest: 'node_os', wanted 'cuda'",
            ),
        ):
            scenario = dataclasses.replace(NAMES, calls=[{name: arguments} for name, arguments in wrong.items()])
            run = play(stage, scenario, to_its_end=False)
            assert len(run.calls) == 2
            assert judge(scenario, run)[0] == said
            assert len(play(stage, scenario).calls) == 4
