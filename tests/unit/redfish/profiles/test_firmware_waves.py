# SPDX-License-Identifier: GPL-3.0-or-later
"""Waves of firmware updates: order of kinds, bounds, and what is in no wave."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.firmware import (
    FirmwareItem,
    FirmwareRow,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.firmware_waves import (
    Bounds,
    NodePlace,
    WavePlan,
    plan_waves,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import Component


def row(kind: str, state: str = "older", name: str = "") -> FirmwareRow:
    item = None if state == "missing" else FirmwareItem(name or kind.upper(), "", "1.0", kind)
    return FirmwareRow(state, Component(kind.upper(), "2.0"), item, "no order" if state == "unknown" else "")


def places(count: int, per_rack: int = 4) -> list[NodePlace]:
    return [NodePlace(f"n{one}", f"r{one // per_rack}", ("all", f"p{one % 2}")) for one in range(count)]


def shape(plan: WavePlan) -> list[tuple[str, dict[str, tuple[str, ...]]]]:
    assert [wave.number for wave in plan.waves] == list(range(1, len(plan.waves) + 1))
    return [(wave.kind, dict(wave.nodes)) for wave in plan.waves]


def test_bmc_then_bios_then_the_rest() -> None:
    rows = {"n0": [row("other", name="CX7"), row("bios"), row("bmc"), row("other", name="CPLD")], "n1": [row("bios")]}
    assert shape(plan_waves(rows, places(2), Bounds())) == [
        ("bmc", {"n0": ("BMC",)}),
        ("bios", {"n0": ("BIOS",), "n1": ("BIOS",)}),
        ("other", {"n0": ("CX7", "CPLD")}),
    ]


@pytest.mark.parametrize("state", ["equal", "newer"])
def test_nothing_to_do(state: str) -> None:
    assert plan_waves({"n0": [row("bmc", state)]}, places(1), Bounds()) == WavePlan()


def test_bound_of_nodes() -> None:
    rows = {f"n{one}": [row("bmc")] for one in range(5)}
    assert [list(nodes) for _, nodes in shape(plan_waves(rows, places(5), Bounds(nodes=2)))] == [
        ["n0", "n1"],
        ["n2", "n3"],
        ["n4"],
    ]


def test_bound_of_racks() -> None:
    rows = {f"n{one}": [row("bmc")] for one in range(8)}
    found = shape(plan_waves(rows, places(8), Bounds(nodes=8, per_rack=1)))
    assert [list(nodes) for _, nodes in found] == [["n0", "n4"], ["n1", "n5"], ["n2", "n6"], ["n3", "n7"]]


def test_bound_of_partitions() -> None:
    rows = {f"n{one}": [row("bmc")] for one in range(4)}
    found = shape(
        plan_waves(rows, [NodePlace(f"n{one}", "r", (f"p{one % 2}",)) for one in range(4)], Bounds(per_partition=1))
    )
    assert [list(nodes) for _, nodes in found] == [["n0", "n1"], ["n2", "n3"]]


def test_node_outside_all_partitions_has_no_bound_of_them() -> None:
    rows = {f"n{one}": [row("bmc")] for one in range(3)}
    assert len(plan_waves(rows, [NodePlace(f"n{one}") for one in range(3)], Bounds(per_partition=1)).waves) == 1


@pytest.mark.parametrize("state", ["unknown", "missing"])
def test_doubt_about_the_rest_stops_nothing(state: str) -> None:
    plan = plan_waves({"n0": [row("bmc"), row("other", state)]}, places(1), Bounds())
    assert [kind for kind, _ in shape(plan)] == ["bmc"]
    assert list(plan.left) == ["n0"]


@pytest.mark.parametrize("kind", ["bmc", "bios"])
def test_doubt_about_bmc_or_bios_stops_what_follows(kind: str) -> None:
    rows = {"n0": [row(kind, "unknown"), row("other")], "n1": [row(kind), row("other")]}
    plan = plan_waves(rows, places(2), Bounds())
    assert shape(plan) == [(kind, {"n1": (kind.upper(),)}), ("other", {"n1": ("OTHER",)})]
    assert [len(one) for one in plan.left.values()] == [2]


def test_second_bmc_in_doubt_stops_the_first_too() -> None:
    """GB300 has two BMCs: one of a version that is not comparable stops the update of the other."""
    plan = plan_waves(
        {"n0": [row("bmc", name="FW_BMC_0"), row("bmc", "unknown", "HGX_FW_BMC_0"), row("bios")]}, places(1), Bounds()
    )
    assert shape(plan) == [("bmc", {"n0": ("FW_BMC_0",)})]
    assert len(plan.left["n0"]) == 2


def test_node_without_a_place() -> None:
    with pytest.raises(ValueError, match="n7"):
        plan_waves({"n7": [row("bmc")]}, places(2), Bounds())


@pytest.mark.parametrize("bounds", [{"nodes": 0}, {"per_rack": 0}, {"per_partition": -1}])
def test_bounds_below_one(bounds: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bounds))):
        Bounds(**bounds)


def test_all_bounds_hold_for_any_nodes() -> None:
    chance = random.Random(7)
    for _ in range(100):
        nodes = places(chance.randint(1, 40), chance.randint(1, 8))
        rows = {
            one.name: [row(kind, chance.choice(("older", "equal", "unknown"))) for kind in ("bmc", "bios", "other")]
            for one in nodes
        }
        bounds = Bounds(chance.randint(1, 9), chance.choice((None, 1, 2)), chance.choice((None, 1, 3)))
        plan = plan_waves(rows, nodes, bounds)
        by_name = {one.name: one for one in nodes}
        done: Counter[tuple[str, str]] = Counter()
        order = [("bmc", "bios", "other").index(wave.kind) for wave in plan.waves]
        assert order == sorted(order)
        for wave in plan.waves:
            assert 0 < len(wave.nodes) <= bounds.nodes
            racks = Counter(by_name[name].rack for name in wave.nodes)
            partitions = Counter(one for name in wave.nodes for one in by_name[name].partitions)
            assert bounds.per_rack is None or max(racks.values()) <= bounds.per_rack
            assert bounds.per_partition is None or max(partitions.values()) <= bounds.per_partition
            done.update((name, wave.kind) for name in wave.nodes)
        assert set(done.values()) <= {1}
        for name, mine in rows.items():
            older = [one for one in mine if one.state == "older"]
            assert all((name, one.kind) in done or name in plan.left for one in older)


def test_a_thousand_nodes() -> None:
    rows = {f"n{one}": [row("bmc"), row("bios"), row("other")] for one in range(1000)}
    plan = plan_waves(rows, places(1000, 36), Bounds(nodes=64, per_rack=4))
    assert sum(len(wave.nodes) for wave in plan.waves) == 3000
    assert len(plan.waves) <= 3 * 20
