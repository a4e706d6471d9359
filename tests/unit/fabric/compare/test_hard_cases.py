"""The fabrics on which other tools fail: what is wrong with each is told, of the plan and of the cables that are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checks import check
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    leaf_spine,
    rail_optimised,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import discovery_of
from tests.unit.fabric import cases
from tests.unit.fabric.cases import CASES
from tests.unit.fabric.messages import check_messages

RIGHT = ("rail_full", "rail_only_spines", "three_level", "dragonfly", "one_leaf", "oversubscribed", "roce", "cores_by_rail",
         "dragonfly_plus", "nvlink_racks", "rail_partial_planned")  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_plan_that_is_right_has_no_errors(name: str):
    assert [str(one) for one in check(CASES[name].plan()) if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("rail_partial", [("P3", "rack r0, gpu3 mlx5_1")]),
        ("storage_ufm", [("P5", "ufm01 mlx5_0")]),
        ("mixed_depth", [("P5", "gpu9 mlx5_0")]),
        ("names", [("P2", "rack r0, o'brien")]),
        ("miswire_leaf_leaf", [("P5", "leaf-r2 port 5"), ("P4", "leaf-r2")]),
        ("dual_port", [("P1", "gpu0 mlx5_0 port 2")]),
        ("ring5", [("P5", "sw0 port 2")]),
        ("damaged", [("P6", "gpu9 mlx5_2"), ("P6", "gpu17 mlx5_3"), ("P4", "leaf-su00-r0")]),
    ],
)
def test_what_is_wrong_with_a_plan_is_told(name: str, places: list[tuple[str, str]]):
    problems = [one for one in check(CASES[name].plan()) if one.severity == "error"]
    for rule, where in places:
        assert any(one.rule == rule and one.where.endswith(where) for one in problems), [*map(str, problems)]
    check_messages(f"plan: the case {name}", problems)


def whole(count: int) -> Plan:
    return leaf_spine(cases.hosts(count, 1, 4), FabricShape(spines=["spine0", "spine1"], uplinks=4))


def sound() -> Plan:
    return rail_optimised(
        cases.hosts(32, 4, 8), FabricShape(ports=32, spines=[f"spine{n}" for n in range(4)], uplinks=8)
    )


@pytest.mark.parametrize(
    ("planned", "there", "told"),
    [
        (cases.rails, cases.rail_partial, {("missing", "leaf-su00-r1 port 4"): "gpu3 mlx5_1"}),
        (lambda: whole(12), cases.miswire, {("missing", "leaf-r2 port 61"): "spine0", ("extra", "leaf-r2 port 5"): "leaf-r0 port 5"}),
        (lambda: whole(8), cases.mixed_depth, {("unknown", "spine0 port 5"): "gpu9"}),
    ],
    ids=["rail_partial", "miswire_leaf_leaf", "mixed_depth"],
)  # fmt: skip
def test_cables_that_are_not_as_planned_are_told(
    planned: Callable[[], Plan], there: Callable[[], Plan], told: dict[tuple[str, str], str]
):
    found = comparison(planned(), {"": discovery_of(there())}).findings
    assert len(found) == len(told), [str(one) for one in found]
    for (kind, where), words in told.items():
        assert any(one.kind == kind and where in str(one) and words in str(one) for one in found), [*map(str, found)]


def test_swapped_rails_and_absent_uplinks_are_each_found_once():
    plan = sound()
    absent = sum(link.kind != "host" for link in plan.links) - sum(
        link.kind != "host" for link in cases.damaged().links
    )
    found = comparison(plan, {"": discovery_of(cases.damaged())}).findings
    assert absent > 10
    assert sorted(one.kind for one in found) == ["missing"] * absent + ["swapped"] * 2
    swapped = [str(one) for one in found if one.kind == "swapped"]
    for host in ("gpu9", "gpu17"):
        assert any(f"{host} mlx5_2" in text and f"{host} mlx5_3" in text for text in swapped), swapped
