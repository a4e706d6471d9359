"""Shapes that run in ibsim are adopted from what the real ibnetdiscover prints, and their faults are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import comparison_report
from tests.unit.fabric.adopt.judge import adopted, broken, judge
from tests.unit.fabric.adopt.shapes import SHAPES, existing
from tests.unit.fabric.compare.console import TOOLS, simulator
from tests.unit.fabric.compare.test_faults_on_ibsim import LEFT

SETS = 10
pytestmark = [pytest.mark.simulation, pytest.mark.nightly, pytest.mark.tools(*TOOLS)]


@pytest.mark.parametrize("name", SHAPES)
def test_a_running_fabric_is_adopted_and_its_faults_are_found(tmp_path: Path, name: str):
    there = existing(name, 11, tmp_path)
    with simulator(tmp_path) as console:
        console.become(there.world)
        outputs = [ToolOutput(plane or "fabric", text) for plane, text in console.texts(there.world).items()]
        plan, _found = adopted(there, outputs)
        report = comparison_report(there.cluster(), outputs)
        assert report.counts == {"ok": len(there.world.plan.links)}
        for number in range(SETS):
            world = broken(plan, 500 + number, 1 + number % 5, LEFT)
            console.become(world)
            try:
                judge(world, console.discover(world))
            except AssertionError as error:
                raise AssertionError(f"set {number} of {name}: {error}") from error
