"""Adapters that do not have their planned names: unnamed, crossed, of other device names, in capitals; and what is recorded of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import Comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.identified_fabric import ORDER
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.identify import with_learned_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.unit.fabric.compare.faulty import FACTORY, World
from tests.unit.fabric.compare.test_planted_faults import PLANS
from tests.unit.fabric.compare.worlds import compared, plan, recable, world
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import cluster


def recorded(found: Comparison, of: Plan) -> dict[str, str]:
    """Return what a plan without GUIDs has on record afterwards."""
    assert found.seen
    return {name: hca.guid for name, hca in with_learned_guids(of, found.seen).hcas.items() if hca.guid}


def kinds(found: Comparison) -> list[str]:
    return [one.kind for one in found.findings]


def hca_numbers(w: World) -> None:
    w.rename.update((name, f"{hca.host} HCA-{int(hca.device[-1]) + 1}") for name, hca in w.plan.hcas.items())


def test_unnamed_hca_that_is_crossed_with_a_named_neighbour_is_one_swap():
    w = world()
    w.rename["gpu1 mlx5_0"] = w.rename["gpu6 mlx5_1"] = FACTORY
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r0", 3)), (("gpu2 mlx5_0", 1), ("leaf-0-r0", 2)))
    found = compared(w)
    assert kinds(found) == ["swapped", "unnamed", "unnamed"]
    assert set(found.findings[0].ports) == {("gpu1 mlx5_0", 1), ("gpu2 mlx5_0", 1), ("leaf-0-r0", 2), ("leaf-0-r0", 3)}
    # It may as well be the other way round: gpu2's card with a name that is not its own.
    assert not {"gpu1 mlx5_0", "gpu2 mlx5_0", "gpu6 mlx5_1"} & recorded(found, w.plan).keys()
    check_messages("names: an unnamed HCA is crossed with a named one", found.findings)


def test_an_order_that_one_cable_contradicts_records_no_card_of_the_host():
    w = world(plan(hosts=2))
    w.rename = {f"gpu1 mlx5_{number}": f"gpu1 HCA-{number + 1}" for number in range(2)}
    assert {"gpu1 mlx5_0", "gpu1 mlx5_1"} < recorded(compared(w), w.plan).keys()
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r0", 11)))
    found = compared(w)
    assert found.seen
    assert {found.seen.how[f"gpu1 mlx5_{number}"] for number in range(2)} == {ORDER}
    assert recorded(found, w.plan).keys() == {"gpu0 mlx5_0", "gpu0 mlx5_1"}


def test_three_in_a_circle_with_an_unnamed_one_are_one_rotation():
    w = world()
    w.rename["gpu1 mlx5_0"] = FACTORY
    recable(
        w,
        (("gpu1 mlx5_0", 1), ("leaf-0-r0", 3)),
        (("gpu2 mlx5_0", 1), ("leaf-0-r0", 4)),
        (("gpu3 mlx5_0", 1), ("leaf-0-r0", 2)),
    )
    assert kinds(compared(w)) == ["rotated", "unnamed"]


def test_unnamed_hca_is_found_by_place_and_never_recorded():
    w = world()
    w.rename["gpu1 mlx5_0"] = FACTORY
    found = compared(w)
    (finding,) = found.findings
    assert (finding.kind, len(recorded(found, w.plan))) == ("unnamed", len(w.plan.hcas) - 1)
    assert "not recorded" in str(finding)


def test_hca_of_other_device_name_is_never_taken_for_another_hosts():
    """As tried: gpu1's unnamed card is in gpu2's port, and gpu2's in gpu1's; gpu2 has another unnamed one, so its order says nothing."""
    w = world()
    hca_numbers(w)
    w.rename["gpu1 mlx5_0"] = w.rename["gpu2 mlx5_1"] = FACTORY
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r0", 3)), (("gpu2 mlx5_0", 1), ("leaf-0-r0", 2)))
    found = compared(w)
    assert kinds(found) == ["swapped", "unnamed", "unnamed", "unnamed"]
    right = {name: w.nodes[name].guid for name in w.plan.hcas}
    assert all(right[name] == guid for name, guid in recorded(found, w.plan).items())
    assert not {"gpu1 mlx5_0", "gpu2 mlx5_0", "gpu2 mlx5_1"} & recorded(found, w.plan).keys()


def test_node_that_names_its_host_keeps_others_out_of_its_place():
    w = world()
    # One host alone, with devices that no other host shows.
    w.rename.update({"gpu2 mlx5_0": "gpu2 roce7", "gpu2 mlx5_1": FACTORY, "gpu1 mlx5_0": FACTORY})
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r0", 3)), (("gpu2 mlx5_0", 1), ("leaf-0-r0", 11)))
    found = compared(w)
    assert found.seen
    assert found.seen.names[w.nodes["gpu1 mlx5_0"].guid] not in ("gpu2 mlx5_0", "gpu2 mlx5_1")
    assert not any(name.startswith(("gpu1 mlx5_0", "gpu2")) for name in recorded(found, w.plan))


def test_devices_are_known_by_what_other_hosts_show():
    w = world()
    hca_numbers(w)
    # With a card less, the order of the devices of gpu4 would be a guess.
    w.cut(("gpu4 mlx5_0", 1))
    found = compared(w)
    assert found.seen
    assert kinds(found) == ["missing", "unnamed"]
    assert found.seen.names[w.nodes["gpu4 mlx5_1"].guid] == "gpu4 mlx5_1"
    assert recorded(found, w.plan)["gpu4 mlx5_1"] == w.nodes["gpu4 mlx5_1"].guid
    check_messages("names: hosts that name their devices HCA-n", found.findings)


def test_numbers_that_are_shifted_for_all_hosts_are_no_rotation():
    w = world(PLANS["rail-optimised"])
    w.rename.update((name, f"{hca.host} mlx5_{int(hca.device[-1]) + 2}") for name, hca in w.plan.hcas.items())
    found = compared(w)
    assert [(one.kind, one.severity) for one in found.findings] == [("unnamed", "notice")]
    assert recorded(found, w.plan) == {name: w.nodes[name].guid for name in w.plan.hcas}


def test_absent_card_shifts_the_numbers_of_the_others():
    w = world(PLANS["rail-optimised"])
    names = [f"gpu003 mlx5_{number}" for number in range(4)]
    w.cut((names[1], 1))
    w.rename.update({names[2]: names[1], names[3]: names[2]})
    found = compared(w)
    assert kinds(found) == ["missing", "renumbered"]
    assert found.findings[1].ports == ((names[2], 1), (names[3], 1))
    assert not set(names[1:]) & recorded(found, w.plan).keys()
    check_messages("names: a card is absent", found.findings)


def renumbered(w: World, moves: dict[int, int], *hosts: str) -> list[str]:
    """Let devices of hosts have other numbers; return the names of these cards."""
    for host in hosts:
        w.rename.update({f"{host} mlx5_{old}": f"{host} mlx5_{new}" for old, new in moves.items()})
    return [f"{host} mlx5_{old}" for host in hosts for old in moves]


@pytest.mark.parametrize("moves", [{0: 1, 1: 0}, {1: 2, 2: 3, 3: 4}], ids=["exchanged", "shifted"])
def test_other_numbers_of_devices_are_no_other_cables_if_the_record_shows_it(moves: dict[int, int]):
    w = world(with_guids(PLANS["rail-optimised"]))
    names = renumbered(w, moves, "gpu003")
    found = compared(w)
    (finding,) = found.findings
    assert (finding.kind, finding.severity, len(found.ok)) == ("exchanged", "error", found.planned)
    assert {name for name, _port in finding.ports} == set(names)
    assert recorded(found, w.plan) == {name: w.nodes[name].guid for name in w.plan.hcas}
    assert found.seen
    assert set(found.seen.unrecorded) == set(names)
    check_messages(f"names: devices have other numbers, {len(moves)}", [finding])


def test_all_hosts_with_other_numbers_are_one_finding():
    w = world(with_guids(PLANS["rail-optimised"]))
    renumbered(w, {0: 1, 1: 0}, *dict.fromkeys(hca.host for hca in w.plan.hcas.values()))
    found = compared(w)
    (finding,) = found.findings
    assert (finding.kind, finding.where, len(found.ok)) == ("exchanged", w.plan.name, found.planned)
    check_messages("names: devices of all hosts have other numbers", [finding])


def test_cables_that_are_swapped_stay_a_swap_with_the_guids_on_record():
    w = world(with_guids(PLANS["rail-optimised"]))
    one, other = ("gpu003 mlx5_0", "gpu003 mlx5_1")
    ends = {link.a: link.ends[1] for link in w.plan.links}
    recable(w, ((one, 1), ends[other]), ((other, 1), ends[one]))
    assert kinds(compared(w)) == ["swapped"]


def test_numbers_that_are_shifted_for_all_hosts_stay_no_rotation_after_the_record():
    w = world(with_guids(PLANS["rail-optimised"]))
    w.rename.update((name, f"{hca.host} mlx5_{int(hca.device[-1]) + 2}") for name, hca in w.plan.hcas.items())
    found = compared(w)
    assert [(one.kind, one.severity) for one in found.findings] == [("unnamed", "notice")]


def test_names_of_hosts_are_compared_without_case():
    w = world()
    w.rename.update((name, name.replace("gpu", "GPU")) for name in w.plan.hcas)
    w.rename.update((name, name.upper()) for name in w.plan.switches)
    found = compared(w)
    assert found.findings == []
    assert len(recorded(found, w.plan)) == len(w.plan.hcas)


def test_name_in_the_fabric_that_the_profile_states(tmp_path: Path):
    edits = [(f"name: mlx5_{n},", f'name: mlx5_{n}, fabric_name: "mlx5_{7 - n}",') for n in range(8)]
    w = world(plan_of(cluster(tmp_path, *edits)))
    w.rename.update((name, f"{hca.host} {hca.label}") for name, hca in w.plan.hcas.items())
    assert w.rename["gpu005 mlx5_0"] == "gpu005 mlx5_7"
    found = compared(w)
    assert found.findings == []
    assert recorded(found, w.plan)["gpu005 mlx5_0"] == w.nodes["gpu005 mlx5_0"].guid


def test_after_the_record_other_device_names_are_still_one_line():
    w = world(with_guids(plan()))
    hca_numbers(w)
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity) == ("unnamed", "notice")


def test_many_unnamed_hcas_are_one_line():
    w = world(with_guids(plan()))
    w.rename.update((name, FACTORY) for name in w.plan.hcas)
    (finding,) = compared(w).findings
    assert (finding.kind, len(finding.ports)) == ("unnamed", len(w.plan.hcas))
    check_messages("names: HCAs without one", [finding])


def test_replaced_switch_of_the_top_tier_is_an_error_with_the_commands():
    w = world(with_guids(plan()))
    w.new_guid |= {"sp1": "b83fd20300a10009", "leaf-0-r0": "b83fd20300a10109"}
    found = compared(w).findings
    assert [(one.kind, one.severity, one.where) for one in found] == [
        ("replaced", "error", "rack s1, sp1"),
        ("replaced", "warning", "rack b0, leaf-0-r0"),
    ]
    assert all(words in found[0].remedy for words in ("fabric_record=true", "fabric.yml", "interconnect.yml"))
    check_messages("names: replaced switches", found)


def test_replaced_card_with_a_default_name_is_told_with_its_guid():
    w = world(with_guids(plan()))
    w.new_guid["gpu3 mlx5_1"] = "b83fd20300a10009"
    w.rename["gpu3 mlx5_1"] = FACTORY
    found = compared(w)
    (finding,) = found.findings
    assert (finding.kind, finding.severity) == ("replaced", "warning")
    assert "b83fd20300a10009" in finding.found
    assert recorded(found, w.plan)["gpu3 mlx5_1"] == w.nodes["gpu3 mlx5_1"].guid
    check_messages("names: a replaced card has a default name", [finding])


def test_many_replaced_cards_are_one_line():
    w = World(with_guids(plan()), random.Random(0))
    w.new_guid = {name: f"b83fd203{number:08x}" for number, name in enumerate(w.plan.hcas)}
    (finding,) = compared(w).findings
    assert (finding.kind, len(finding.ports)) == ("replaced", len(w.plan.hcas))
    check_messages("names: replaced cards", [finding])


def test_card_that_names_another_host_leaves_the_one_on_record():
    w = world(with_guids(plan()))
    # Of gpu3, in gpu7 now, where it is a device that the plan does not have.
    w.new_guid["gpu7 mlx5_1"] = w.nodes["gpu3 mlx5_1"].guid
    w.rename["gpu7 mlx5_1"] = "gpu7 other9"
    w.cut(("gpu3 mlx5_1", 1))
    found = compared(w)
    assert found.seen
    assert "gpu3 mlx5_1" not in found.seen.guids
