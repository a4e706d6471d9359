"""Which node is which of the plan: by name, by GUID, by order, by place."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.identify import REST, with_learned_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    with_guids,
)
from tests.unit.fabric.compare.faulty import FACTORY, World
from tests.unit.fabric.compare.worlds import compared, places, plan, recable, unname, world
from tests.unit.fabric.messages import check_messages


def test_aggregation_nodes_have_no_part():
    w = world()
    for number, name in enumerate(list(w.plan.switches)):
        w.add(f"an{number}", CA, 1)
        w.nodes[f"an{number}"].description = "Mellanox Technologies Aggregation Node"
        w.nodes[name].ports = 17
        w.join((f"an{number}", 1), (name, 17))
    assert places(w) == []


@pytest.mark.parametrize("guids", [False, True])
@pytest.mark.parametrize("what", ["spines", "leaves", "switches", "HCAs"])
def test_a_tier_without_names_is_known_by_guid_or_by_its_place(what: str, guids: bool):
    w = world(with_guids(plan()) if guids else plan())
    which: dict[str, Callable[[str], bool]] = {
        "spines": lambda name: name.startswith("sp"),
        "leaves": lambda name: name.startswith("leaf"),
        "switches": lambda name: name in w.plan.switches,
        "HCAs": lambda name: name in w.plan.hcas,
    }
    unname(w, which[what])
    found = compared(w)
    assert len(found.ok) == found.planned
    assert {one.kind for one in found.findings} == {"unnamed"}
    assert found.seen
    assert {found.seen.how[name] for name in w.nodes if which[what](name)} == {"GUID" if guids else "place"}
    assert all(found.seen.names[node.guid] == name for name, node in w.nodes.items())


def test_many_switches_without_names_are_one_finding():
    w = world()
    unname(w, lambda name: name in w.plan.switches, "Quantum Mellanox Technologies")
    (finding,) = compared(w).findings
    assert (finding.kind, len(finding.ports)) == ("unnamed", 6)
    check_messages("names: switches without one", [finding])


def test_managed_and_qualified_names():
    w = world()
    w.rename = {name: f"MF0;{name}:MQM9700/U1" for name in w.plan.switches}
    w.rename |= {name: name.replace(" ", ".example.com ") for name in w.plan.hcas}
    assert places(w) == []


def test_devices_of_other_names_are_taken_in_their_order_so_that_a_swap_is_seen():
    w = world()
    w.rename = {name: f"{hca.host} HCA-{hca.device[-1]}" for name, hca in w.plan.hcas.items()}
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r1", 2)), (("gpu1 mlx5_1", 1), ("leaf-0-r0", 2)))
    assert [(one.kind, one.severity) for one in compared(w).findings] == [("swapped", "error"), ("unnamed", "notice")]


def test_unnamed_hca_that_is_elsewhere_is_the_only_one_left():
    w = world()
    w.rename["gpu1 mlx5_0"] = FACTORY
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r0", 11)))
    found = compared(w)
    assert [one.kind for one in found.findings] == ["wrong-port", "unnamed"]
    assert found.seen
    assert found.seen.how["gpu1 mlx5_0"] == REST


def test_guids_are_learned_and_a_replaced_adapter_is_noticed():
    w = world()
    found = compared(w)
    assert found.seen
    known = with_learned_guids(w.plan, found.seen)
    assert known.hcas["gpu3 mlx5_1"].port_guid == with_guids(w.plan).hcas["gpu3 mlx5_1"].port_guid
    assert w.plan.hcas["gpu3 mlx5_1"].guid == ""
    again = World(known, random.Random(0))
    assert places(again) == []
    again.new_guid["gpu3 mlx5_1"] = "b83fd20300a10009"
    (finding,) = compared(again).findings
    assert (finding.kind, finding.severity, finding.where) == ("replaced", "warning", "rack b0, gpu3 mlx5_1")


def test_adapter_that_went_to_another_host():
    w = world(with_guids(plan()))
    w.new_guid["gpu3 mlx5_1"] = w.nodes["gpu7 mlx5_1"].guid
    w.new_guid["gpu7 mlx5_1"] = "b83fd20300a10009"
    found = compared(w).findings
    assert [one.kind for one in found] == ["replaced", "replaced"]
    assert [one.where for one in found] == ["rack b0, gpu3 mlx5_1", "rack b1, gpu7 mlx5_1"]
    check_messages("names: an adapter that went to another host", found)


def test_switch_without_a_name_and_with_a_wrong_cable_is_known_by_the_others():
    w = world()
    unname(w, lambda name: name == "sp1")
    recable(w, (("leaf-0-r0", 13), ("sp2", 1)), (("leaf-0-r0", 15), ("sp1", 1)))
    assert [one.kind for one in compared(w).findings] == ["swapped", "unnamed"]


def test_a_switch_without_a_name_that_has_half_of_two_places_is_neither():
    w = world()
    unname(w, lambda name: name in ("sp1", "sp2"), "Quantum Mellanox Technologies")
    first, second = ([link for link in w.plan.links if link.b == name][:4] for name in ("sp1", "sp2"))
    for one, other in zip(first, second, strict=True):
        recable(w, (one.ends[0], other.ends[1]), (other.ends[0], one.ends[1]))
    found = compared(w)
    assert found.seen
    assert not {"sp1", "sp2"} & found.seen.guids.keys()
