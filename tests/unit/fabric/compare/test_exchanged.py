"""Names of switches in each other's place, and hosts with all of each other's cables: one finding, not one for each cable."""

from __future__ import annotations

import random

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import Comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.identify import with_learned_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.unit.fabric.compare.faulty import FACTORY, World
from tests.unit.fabric.compare.test_planted_faults import PLANS
from tests.unit.fabric.compare.worlds import compared, plan, recable, world
from tests.unit.fabric.messages import check_messages


def renamed(w: World, *names: str) -> World:
    """Let each of these switches have the name of the next one."""
    w.rename.update(zip(names, [*names[1:], names[0]], strict=True))
    return w


def kinds(found: Comparison) -> list[str]:
    return [one.kind for one in found.findings]


def recorded(found: Comparison, of: Plan) -> set[str]:
    assert found.seen
    full = with_learned_guids(of, found.seen)
    return {name for name, thing in (full.switches | full.hcas).items() if thing.guid}


@pytest.mark.parametrize(
    "names",
    [
        ("leaf-0-r0", "leaf-1-r0"),
        ("sp1", "sp2"),
        ("sp1", "leaf-0-r0"),
        ("leaf-0-r0", "leaf-1-r0", "leaf-0-r1"),
    ],
)
def test_exchanged_names_of_switches_are_one_finding(names: tuple[str, ...]):
    w = renamed(world(), *names)
    found = compared(w)
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("exchanged", "error")
    assert set(finding.ports) == {(name, 0) for name in names}
    assert not set(names) & recorded(found, w.plan)
    assert found.seen
    # Nodes have the names of their places.
    assert all(found.seen.names[w.nodes[name].guid] == name for name in names)
    check_messages(f"names: exchanged switches {', '.join(names)}", [finding])


def test_leaves_and_spines_may_be_exchanged_at_once():
    w = renamed(renamed(world(), "sp1", "sp2"), "leaf-0-r0", "leaf-1-r1")
    assert kinds(compared(w)) == ["exchanged", "exchanged"]


def test_wrong_node_name_map_is_one_finding():
    w = world(PLANS["leaf-spine"])
    for number in range(1, 4, 2):
        renamed(w, f"leaf-a0{number}", f"leaf-a0{number + 1}")
        renamed(w, f"spine-{number}", f"spine-{number + 1}")
    (finding,) = compared(w).findings
    assert (finding.kind, finding.where, len(finding.ports)) == ("exchanged", "fabric", 8)
    check_messages("names: a wrong node-name map", [finding])


def test_other_faults_of_an_exchanged_switch_are_told_too():
    w = renamed(world(PLANS["leaf-spine"]), "leaf-a01", "leaf-a02")
    w.cut(("gpu001 mlx5_0", 1))
    assert sorted(kinds(compared(w))) == ["exchanged", "missing"]


def test_name_of_a_switch_whose_place_has_a_switch_without_a_name():
    w = world()
    w.rename |= {"sp1": "sp2", "sp2": "Quantum Mellanox Technologies"}
    found = compared(w)
    assert kinds(found) == ["exchanged", "unnamed"]
    assert found.seen
    assert all(found.seen.names[w.nodes[name].guid] == name for name in ("sp1", "sp2"))


@pytest.mark.parametrize("wrong", ["names", "cables"])
def test_record_says_whether_names_or_cables_are_wrong(wrong: str):
    w = World(with_guids(plan()), random.Random(0))
    if wrong == "names":
        renamed(w, "sp1", "sp2")
    else:
        for port in range(1, 9):
            recable(w, *exchanged_cable(w, "sp1", "sp2", port))
    (finding,) = compared(w).findings
    assert finding.kind == "exchanged"
    check_messages(f"names: exchanged switches, and the {wrong} are wrong", [finding])


def exchanged_cable(w: World, one: str, other: str, port: int) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    by_guid = {node.guid: name for name, node in w.nodes.items()}
    ends = [w.nodes[name].cables[port] for name in (one, other)]
    far = [(by_guid[end.guid], end.port) for end in ends]
    return [((one, port), far[1]), ((other, port), far[0])]


def exchange_hosts(w: World, one: str, other: str) -> None:
    for device in dict.fromkeys(hca.device for hca in w.plan.hcas.values()):
        recable(w, *exchanged_cable(w, f"{one} {device}", f"{other} {device}", 1))


def test_exchanged_hosts_are_one_finding():
    w = world()
    exchange_hosts(w, "gpu1", "gpu6")
    found = compared(w)
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("exchanged", "error")
    assert {name for name, _port in finding.ports} == {f"{host} mlx5_{n}" for host in ("gpu1", "gpu6") for n in (0, 1)}
    assert not {name for name, _port in finding.ports} & recorded(found, w.plan)
    assert len(found.ok) == found.planned - 4
    check_messages("names: exchanged hosts", [finding])


def test_exchanged_hosts_with_an_unnamed_card_are_exchanged_too():
    w = world(PLANS["rail-optimised"])
    exchange_hosts(w, "gpu001", "gpu002")
    w.rename["gpu001 mlx5_2"] = FACTORY
    assert kinds(compared(w))[0] == "exchanged"
    assert "swapped" not in kinds(compared(w))


def test_one_exchanged_cable_of_two_hosts_is_a_swap():
    w = world()
    recable(w, *exchanged_cable(w, "gpu1 mlx5_0", "gpu2 mlx5_0", 1))
    assert kinds(compared(w)) == ["swapped"]


@pytest.mark.parametrize("name", ["sp1", "Quantum Mellanox Technologies"])
def test_a_switch_without_one_right_cable_is_in_doubt_and_not_recorded(name: str):
    w = world()
    w.rename["sp1"] = name
    links = [link for link in w.plan.links if link.b == "sp1"]
    recable(w, *((one.ends[0], other.ends[1]) for one, other in zip(links, [*links[1:], links[0]], strict=True)))
    found = compared(w)
    assert found.seen
    assert found.seen.unrecorded.keys() == {"sp1"}
    (doubt,) = [one for one in found.findings if one.kind == "unnamed"]
    assert (doubt.severity, {name for name, _port in doubt.ports}) == ("warning", {"sp1"})
