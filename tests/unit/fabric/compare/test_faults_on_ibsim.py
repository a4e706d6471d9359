"""Faults of a fabric that runs (ibsim, through its console), found by the real ibnetdiscover: each is told once, and nothing else is."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from tests.unit.fabric.compare import faulty
from tests.unit.fabric.compare.console import TOOLS, Simulator, simulator
from tests.unit.fabric.compare.faulty import FAULTS, World, matches, plant
from tests.unit.fabric.compare.test_planted_faults import PLANS

# A port of ibsim is seen from both ends or from none, and a node that answers answers all.
LEFT = (faulty.half_seen, faulty.mute)
KINDS = tuple(fault for fault in FAULTS if fault not in LEFT)
SETS = 105
NAMES = ("with GUIDs", "rails with cores", "planes with GUIDs")
pytestmark = [pytest.mark.simulation, pytest.mark.tools(*TOOLS)]


def worlds(name: str) -> list[World]:
    """Return fault sets, those first that need no other nodes than planned, so that one ibsim serves them all."""
    found = [plant(PLANS[name], 1000 + seed, 1 + seed % 5, KINDS) for seed in range(SETS)]
    return sorted(
        found,
        key=lambda world: bool(world.rename) or len(world.nodes) > len(world.plan.switches) + len(world.plan.hcas),
    )


def judged(console: Simulator, world: World) -> None:
    console.become(world)
    found = comparison(world.plan, console.discover(world)).findings
    told = "\n".join(f"{one.kind} {one.ports}: {one}" for one in found)
    for expected in world.expected:
        assert sum(matches(expected, one) for one in found) == 1, f"{expected} is not told once:\n{told}"
    for one in found:
        assert any(matches(expected, one) for expected in world.expected), f"{world.expected}, but: {one.kind} {one}"
        assert one.where
        assert one.remedy


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "with GUIDs" else [pytest.mark.nightly]) for name in NAMES]
)
def test_every_fault_of_a_running_fabric_is_told_once_and_nothing_else(tmp_path: Path, name: str):
    with simulator(tmp_path) as console:
        clean = plant(PLANS[name], 1, 1, (lambda _world: True,))
        judged(console, clean)
        planted = worlds(name)
        for number, world in enumerate(planted):
            try:
                judged(console, world)
            except AssertionError as error:
                raise AssertionError(f"set {number} of {name}: {error}") from error
        # The same ibsim, with all undone.
        judged(console, clean)
        assert console.starts < SETS
        assert console.commands > SETS


def test_faults_of_every_sort_are_planted():
    planted = [world for name in NAMES for world in worlds(name)]
    kinds = Counter(kind for world in planted for kind, _ in world.expected)
    counts = Counter(len(world.expected) for world in planted)
    assert len(planted) >= 300
    assert sorted(counts) == [1, 2, 3, 4, 5]
    assert set(kinds) >= {"missing", "extra", "swapped", "rotated", "shifted", "wrong-port", "miswired", "unknown", "slow",
                          "duplicate-guid", "duplicate-name", "replaced", "unnamed", "isolated", "joined"}  # fmt: skip
    assert min(kinds.values()) >= 10
