"""The cabling plan and the bill of cables."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Hca, Plan, Switch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    leaf_spine,
    rail_optimised,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.cable_list import (
    INSTALL,
    LEAVE_OUT,
    Item,
    Room,
    as_csv,
    bill,
    rows,
)
from tests.unit.fabric import cases

PLACES = {"a1": ("A", 1), "a2": ("A", 2), "a11": ("A", 11), "b1": ("B", 1), "c2": ("C", 2)}


def pod(lanes: int = 1, spine_rack: str = "c2") -> Plan:
    nics = [WiredNic("mlx5_0", 0), WiredNic("mlx5_1", 1)]
    found = [WiredHost(f"gpu{n}", nics, "a1" if n < 2 else "a2", "su0") for n in range(4)]
    shape = FabricShape(ports=16, lanes=lanes, spines=["s0", "s1"], uplinks=4, spine_rack=spine_rack)
    return cases.standing(rail_optimised(found, shape))


def test_a_row_has_both_ends_and_a_label_for_each():
    row = rows(pod(lanes=2), PLACES)[5]
    assert row.cable == "leaf-su0-r1:3"
    assert (row.a_rack, row.a_device, row.a_port, row.a_cage) == ("a2", "gpu2", "mlx5_1", "")
    assert (row.b_rack, row.b_device, row.b_port, row.b_cage) == ("a1", "leaf-su0-r1", "3", "2/1")
    assert row.a_label == "a2 gpu2 mlx5_1 > a1 leaf-su0-r1 2/1"
    assert row.b_label == "a1 leaf-su0-r1 2/1 > a2 gpu2 mlx5_1"
    assert (row.kind, row.purpose, row.rail, row.state) == ("host", "compute", "1", INSTALL)
    # (2 * 2 m up and down + 0.6 m along) and a tenth more.
    assert row.length_m == "7"


@pytest.mark.parametrize(
    ("one", "other", "metres"),
    [("a1", "a1", 2), ("a1", "a2", 7), ("a1", "a11", 15), ("a1", "b1", 10), ("a2", "c2", 15), ("c2", "a2", 15),
     ("a1", "", None), ("", "", None), ("a1", "z9", None), ("z9", "z9", 2)],
)  # fmt: skip
def test_length_is_estimated_from_where_racks_stand(one: str, other: str, metres: float | None):
    assert Room().estimate(one, other, PLACES) == metres


def test_room_of_other_distances():
    room = Room(rack=1, row=10, rise=0, slack=0, lengths=(20, 1, 5))
    assert [room.estimate("a1", other, PLACES) for other in ("a2", "a11", "b1", "c2")] == [1, 20, 20, 30]


def test_rows_stand_in_the_order_of_their_numbers():
    places = {"x": ("2", 1), "y": ("10", 1), "z": ("11", 1)}
    room = Room(slack=0, rise=0, row=1)
    assert [room.estimate("x", other, places) for other in "yz"] == [1, 2]


def test_without_places_no_length_between_racks_is_known():
    assert {row.length_m for row in rows(pod(), {}) if row.kind == "leaf-spine"} == {""}


def test_labels_and_numbers_of_cables_are_unique_and_each_port_is_on_one():
    for case in cases.CASES.values():
        plan = case.plan()
        found = rows(plan)
        assert len({row.cable for row in found}) == len(found) == len(plan.links)
        labels = [label for row in found for label in (row.a_label, row.b_label)]
        assert len(set(labels)) == 2 * len(found)


def test_bill_counts_every_cable_that_is_laid_once():
    plan = pod()
    plan.links[3] = replace(plan.links[3], missing=True)
    found = rows(plan, PLACES)
    assert Counter(row.state for row in found) == {INSTALL: 15, LEAVE_OUT: 1}
    items = bill(plan, found)
    assert sum(item.count for item in items) == 15 == sum(1 for _ in plan.present)
    assert items == [
        Item("host", "compute", "4x NDR", "2", 3),
        Item("host", "compute", "4x NDR", "7", 4),
        Item("leaf-spine", "inter-switch", "4x NDR", "15", 8),
    ]


def test_bill_of_storage_is_apart():
    plan = cases.compute_storage()
    assert {(item.kind, item.purpose): item.count for item in bill(plan, rows(plan))} == {
        ("host", "compute"): 4,
        ("host", "storage"): 4,
        ("leaf-spine", "inter-switch"): 5,
    }


def test_csv_is_read_back_and_the_same_again():
    plan = pod(lanes=2)
    text = as_csv(rows(plan, PLACES))
    assert text == as_csv(rows(pod(lanes=2), PLACES))
    read = list(csv.DictReader(io.StringIO(text)))
    assert [row["cable"] for row in read] == [row.cable for row in rows(plan)]
    assert text.startswith("cable,state,kind,purpose,plane,rail,a_rack,")
    assert as_csv([], Item) == "kind,purpose,speed,length_m,count\n"


def test_no_cell_is_a_formula_and_quotes_survive():
    plan = Plan("x", "leaf-spine")
    plan.add(Switch("=cmd()", 4, 1), Hca('@o"brien,', "mlx5_0", rack="+1"))
    plan.join('@o"brien, mlx5_0', "=cmd()", "host")
    read = next(csv.DictReader(io.StringIO(as_csv(rows(plan)))))
    assert (read["b_device"], read["a_device"], read["a_rack"]) == ("'=cmd()", "'@o\"brien,", "'+1")


@pytest.mark.parametrize("name", ["a,b", "a\nb", 'a"b', '"ab"', "a,\nb"])
def test_a_name_that_needs_quotes_is_read_back(name: str):
    plan = cases.rails()
    plan.hcas = {key: replace(hca, rack=name) for key, hca in plan.hcas.items()}
    listed = rows(plan)
    read = list(csv.reader(io.StringIO(as_csv(listed), newline="")))
    # With one rate for all links there are no columns for it.
    assert [(*row, "", "") for row in read[1:]] == listed
    assert any(row.a_rack == name for row in listed)


def test_another_host_changes_no_label_of_others():
    def found(count: int) -> dict[str, str]:
        plan = leaf_spine(cases.hosts(count, 1, 4), FabricShape(spines=["s0"], uplinks=4))
        return {row.cable: row.b_label for row in rows(plan) if row.kind == "host"}

    small, large = found(6), found(7)
    assert {cable: large[cable] for cable in small} == small
