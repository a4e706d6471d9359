"""The fabrics on which other tools fail: what is wrong with each is told, of the plan and of the cables that are there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.checks import check
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.compare import comparison
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import discovery_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    Shape,
    leaf_spine,
    rail_optimised,
)
from tests.unit.fabric import cases
from tests.unit.fabric.cases import CASES

RIGHT = ("rail_full", "rail_only_spines", "three_level", "dragonfly", "one_leaf", "oversubscribed", "roce", "cores_by_rail",
         "dragonfly_plus", "nvlink_racks", "rail_partial_planned")  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_a_plan_that_is_right_has_no_errors(name: str):
    assert [str(one) for one in check(CASES[name].plan()) if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rail_partial", ["rack r0, gpu3 mlx5_1: no cable goes to it [P3]"]),
        ("storage_ufm", ["ufm01 mlx5_0: is on spine0 of tier 2: ftree takes HCAs on leaves only [P5]"]),
        ("mixed_depth", ["gpu9 mlx5_0: is on spine0 of tier 2: ftree takes HCAs on leaves only [P5]"]),
        ("names", ["""the name "o'brien" cannot stand in a hostlist"""]),
        ("miswire_leaf_leaf", ["leaf-r2 port 5: a cable to rack r0, leaf-r0 port 5, of the same tier 1", "4 cables from below and 3 up"]),
        ("dual_port", ["gpu0 mlx5_0 port 2: a plan knows one port of an HCA"]),
        ("ring5", ["sw0 port 2: a cable to sw1 port 2, of the same tier 1"]),
        ("damaged", [
            "gpu9 mlx5_2: is of rail 2, and its cable goes to", "gpu17 mlx5_3: is of rail 3, and its cable goes to",
            "8 cables from below and 7 up are 1.14 to 1, and 1 to 1 is allowed [P4]",
        ]),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_plan_is_told(name: str, words: list[str]):
    told = [str(one) for one in check(CASES[name].plan()) if one.severity == "error"]
    for part in words:
        assert any(part in text for text in told), told


def whole(count: int) -> Plan:
    return leaf_spine(cases.hosts(count, 1, 4), Shape(spines=["spine0", "spine1"], uplinks=4))


def sound() -> Plan:
    return rail_optimised(cases.hosts(32, 4, 8), Shape(ports=32, spines=[f"spine{n}" for n in range(4)], uplinks=8))


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
