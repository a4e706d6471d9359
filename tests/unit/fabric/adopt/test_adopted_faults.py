"""Six shapes that exist are adopted: the plan that follows has no finding, and every fault is found as in a fabric that was planned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import adoption
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import comparison_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from tests.unit.fabric.adopt.judge import adopted, broken, judge, nameless
from tests.unit.fabric.adopt.shapes import SHAPES, Existing, by_directory

SETS, SEED = 20, 7
# With the sets on ibsim 300.
NIGHTLY = 240

Adopted = dict[str, tuple[Existing, Plan]]


@pytest.fixture(scope="module")
def fabrics(tmp_path_factory: pytest.TempPathFactory) -> Adopted:
    directory = tmp_path_factory.mktemp("shapes")
    return {name: (there, adopted(there)[0]) for name, there in by_directory(directory, SEED).items()}


@pytest.mark.parametrize("name", SHAPES)
def test_an_adopted_fabric_is_as_planned_and_adopted_already(fabrics: Adopted, name: str):
    there, plan = fabrics[name]
    report = comparison_report(there.cluster(), there.outputs())
    assert report.counts == {"ok": len(there.world.plan.links)}
    # The names of switches are the real ones, and each card without a name is one of its own.
    assert set(plan.switches) == set(there.world.plan.switches)
    assert len(nameless(plan)) == len(there.unnamed) == len(plan.uncabled)
    assert set(plan.hcas) - set(nameless(plan)) == set(there.world.plan.hcas) - set(there.unnamed)
    again = adoption(there.cluster(), there.outputs())
    assert again.refused == ""
    assert {path: Path(path).read_text() for path in again.files} == again.files


@pytest.mark.parametrize("name", SHAPES)
def test_tiers_rails_and_models_follow_from_the_cables(fabrics: Adopted, name: str):
    there, plan = fabrics[name]
    was = there.world.plan
    of = {
        one.name: (one.tier, one.ports, one.rail if name == "rail-optimised" and one.tier == 1 else None)
        for one in was.switches.values()
    }
    assert {one.name: (one.tier, one.ports, one.rail) for one in plan.switches.values()} == of
    groups: dict[str, set[str]] = {}
    for one in plan.switches.values():
        groups.setdefault(one.group, set()).add(one.name)
    if name == "dragonfly":
        real: dict[str, set[str]] = {}
        for one in was.switches.values():
            real.setdefault(one.group, set()).add(one.name)
        assert sorted(map(sorted, groups.values())) == sorted(map(sorted, real.values()))


def judge_sets(fabrics: Adopted, numbers: range) -> Counter[str]:
    """Judge fault sets of all shapes in turn; return the kinds of faults."""
    kinds: Counter[str] = Counter()
    for number in numbers:
        name = list(SHAPES)[number % len(SHAPES)]
        world = broken(fabrics[name][1], number, 1 + number % 4)
        kinds.update(kind for kind, _ends in world.expected)
        try:
            judge(world, world.discoveries())
        except AssertionError as error:
            raise AssertionError(f"set {number}, {name}: {error}") from error
    return kinds


def test_every_fault_of_an_adopted_fabric_is_reported_once_and_nothing_else(fabrics: Adopted):
    assert judge_sets(fabrics, range(SETS)).total() > SETS


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [1, 2])
def test_every_fault_of_many_adopted_fabrics(tmp_path: Path, seed: int):
    found = {name: (there, adopted(there)[0]) for name, there in by_directory(tmp_path, 100 + seed).items()}
    kinds = judge_sets(found, range(1000 * seed, 1000 * seed + NIGHTLY // 2))
    assert len(kinds) > 14
    assert kinds.total() > NIGHTLY
