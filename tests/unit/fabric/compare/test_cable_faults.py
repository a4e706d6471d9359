"""What was done to cables: swaps, circles, shifts, wrong ports."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import worst
from tests.unit.fabric.compare.worlds import compared, messages, places, plan, planes, recable, world
from tests.unit.fabric.messages import check_messages


def test_swap_across_rails_at_one_host():
    w = world()
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r1", 2)), (("gpu1 mlx5_1", 1), ("leaf-0-r0", 2)))
    (finding,) = compared(w).findings
    assert (finding.kind, finding.where) == ("swapped", "rack b0, leaf-0-r0 port 2")
    assert (finding.expected, finding.found) == ("gpu1 mlx5_0", "gpu1 mlx5_1")
    assert set(finding.ports) == {("gpu1 mlx5_0", 1), ("leaf-0-r0", 2), ("gpu1 mlx5_1", 1), ("leaf-0-r1", 2)}
    assert finding.severity == worst([finding]) == "error"
    check_messages("cables: swap across rails at one host", messages(w))


def test_swap_of_two_cables_between_one_leaf_and_one_spine():
    w = world()
    recable(w, (("leaf-0-r0", 13), ("sp1", 2)), (("leaf-0-r0", 14), ("sp1", 1)))
    (finding,) = compared(w).findings
    assert (finding.kind, finding.where) == ("swapped", "rack b0, leaf-0-r0 port 13")
    assert (finding.expected, finding.found) == ("sp1 port 1", "sp1 port 2")
    check_messages("cables: swap between one leaf and one spine", messages(w))


def test_cages_are_named_where_a_cage_holds_two_ports():
    w = world(plan(lanes=2))
    w.cut(("leaf-0-r0", 14))
    assert places(w) == [("missing", "rack s1, sp1 port 2 (cage 1/2)")]
    check_messages("cables: missing between ports of cages", messages(w))


def test_three_cables_in_a_circle_are_one_rotation_and_not_two_swaps():
    w = world()
    leaf = "leaf-0-r0"
    recable(w, (("gpu0 mlx5_0", 1), (leaf, 2)), (("gpu1 mlx5_0", 1), (leaf, 3)), (("gpu2 mlx5_0", 1), (leaf, 1)))
    (finding,) = compared(w).findings
    assert (finding.kind, finding.where) == ("rotated", "rack b0, leaf-0-r0 port 1")
    assert {end for end in finding.ports if end[0] == leaf} == {(leaf, 1), (leaf, 2), (leaf, 3)}
    check_messages("cables: rotation of three", messages(w))


def test_what_a_circle_says_puts_the_cables_right():
    """The moves are carried out as they are told."""
    w = world()
    leaf = "leaf-0-r0"
    ends = [f"gpu{n} mlx5_0" for n in range(4)]
    recable(w, *(((name, 1), (leaf, port)) for name, port in zip(ends, (3, 1, 4, 2), strict=True)))
    (finding,) = compared(w).findings
    moves = [step.split(" into ") for step in finding.remedy.removeprefix("move the cable of ").split("; ")]
    far = {port: w.nodes[leaf].cables[port].description for port in range(1, 5)}
    wanted = {name: int(port.rsplit(" ", 1)[1]) for name, port in moves}
    for source, target in wanted.items():
        recable(w, ((far[int(source.rsplit(" ", 1)[1])], 1), (leaf, target)))
    assert compared(w).findings == []


def test_shift_by_one_port_says_the_order_of_the_moves():
    w = world()
    leaf = "leaf-0-r0"
    w.cut((leaf, 3), (leaf, 4))
    recable(w, (("leaf-0-r0", 9), ("gpu3 mlx5_0", 1)), (("leaf-0-r0", 4), ("gpu2 mlx5_0", 1)))
    (finding,) = compared(w).findings
    assert (finding.kind, finding.where) == ("shifted", "rack b0, leaf-0-r0 port 3")
    assert {end for end in finding.ports if end[0] == leaf} == {(leaf, 3), (leaf, 4), (leaf, 9)}
    check_messages("cables: shift by one port", messages(w))


def test_cable_in_another_port_of_its_switch_or_in_another_switch():
    w = world()
    recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 11)), (("gpu1 mlx5_0", 1), ("leaf-0-r1", 12)))
    assert places(w) == [("wrong-port", "rack b0, leaf-0-r0 port 11"), ("miswired", "rack b0, leaf-0-r1 port 12")]
    check_messages("cables: wrong port and wrong switch", messages(w))


def test_half_of_a_swap_is_one_cable_in_a_wrong_place_and_one_missing():
    w = world()
    w.cut(("gpu1 mlx5_0", 1))
    recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 2)))
    assert places(w) == [("missing", "rack b0, leaf-0-r0 port 2"), ("wrong-port", "rack b0, leaf-0-r0 port 2")]
    check_messages("cables: half of a swap", messages(w))


def test_planes_joined_by_two_swapped_uplinks_are_said_so():
    w = world(planes())
    recable(w, (("leaf-0-r0", 13), ("sp1", 1)), (("leaf-0-r1", 13), ("sp0", 1)))
    (finding,) = compared(w).findings
    assert finding.kind == "swapped"
    check_messages("cables: swap that joins planes", [finding])


def test_half_of_a_swap_between_switches_is_told_at_the_switches():
    w = world()
    w.cut(("gpu1 mlx5_0", 1))
    recable(w, (("gpu5 mlx5_0", 1), ("leaf-0-r0", 2)))
    assert places(w) == [("missing", "rack b0, leaf-0-r0 port 2"), ("miswired", "rack b0, leaf-0-r0 port 2")]
    check_messages("cables: half of a swap between switches", messages(w))
