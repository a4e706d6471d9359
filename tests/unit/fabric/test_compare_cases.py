"""Faults that could be taken for others, what is said of them, and nodes without names."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.compare import (
    Comparison,
    comparison,
    learned,
    worst,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import CA, SWITCH, parse
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import (
    discovery_of,
    ibnetdiscover_text,
    with_guids,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    Host,
    Nic,
    Shape,
    rail_only,
    rail_optimised,
)
from tests.fuzz.properties import PLAN
from tests.unit.fabric.faulty import FACTORY, World

NICS = [Nic(f"mlx5_{n}", n) for n in range(2)]


def plan(lanes: int = 1, hosts: int = 8) -> Plan:
    """Two units of two rails with four hosts each, below two spines with two cables from each leaf."""
    shape = Shape(ports=16, speed="HDR", spines=["sp1", "sp2"], uplinks=4, spine_rack="s1", lanes=lanes)
    return rail_optimised([Host(f"gpu{n}", NICS, f"b{n // 4}", f"{n // 4}") for n in range(hosts)], shape)


def world(of: Plan | None = None) -> World:
    return World(of or plan(), random.Random(0))


def compared(w: World) -> Comparison:
    return comparison(w.plan, w.discoveries())


def told(w: World) -> list[str]:
    return [f"{one.kind}: {one}" for one in compared(w).findings]


def recable(w: World, *cables: tuple[tuple[str, int], tuple[str, int]]) -> None:
    for cable in cables:
        w.cut(*cable)
    for one, other in cables:
        w.join(one, other)


def test_swap_across_rails_at_one_host():
    w = world()
    recable(w, (("gpu1 mlx5_0", 1), ("leaf-0-r1", 2)), (("gpu1 mlx5_1", 1), ("leaf-0-r0", 2)))
    assert told(w) == [
        "swapped: rack b0, leaf-0-r0 port 2: expected gpu1 mlx5_0, found gpu1 mlx5_1; at gpu1 swap the cables of mlx5_0 and mlx5_1, "
        "or at the leaves swap with rack b0, leaf-0-r1 port 2"
    ]
    (finding,) = compared(w).findings
    assert set(finding.ports) == {("gpu1 mlx5_0", 1), ("leaf-0-r0", 2), ("gpu1 mlx5_1", 1), ("leaf-0-r1", 2)}
    assert finding.severity == worst([finding]) == "error"


def test_swap_of_two_cables_between_one_leaf_and_one_spine():
    w = world()
    recable(w, (("leaf-0-r0", 13), ("sp1", 2)), (("leaf-0-r0", 14), ("sp1", 1)))
    assert told(w) == [
        "swapped: rack b0, leaf-0-r0 port 13: expected sp1 port 1, found sp1 port 2; swap with rack b0, leaf-0-r0 port 14"
    ]


def test_cages_are_named_where_a_cage_holds_two_ports():
    w = world(plan(lanes=2))
    w.cut(("leaf-0-r0", 14))
    assert told(w) == [
        "missing: rack s1, sp1 port 2 (cage 1/2): expected the cable to rack b0, leaf-0-r0 port 14 (cage 7/2), found missing or dead; "
        "see that it is plugged in at both ends; if it is, replace it"
    ]


def test_three_cables_in_a_circle_are_one_rotation_and_not_two_swaps():
    w = world()
    leaf = "leaf-0-r0"
    recable(w, (("gpu0 mlx5_0", 1), (leaf, 2)), (("gpu1 mlx5_0", 1), (leaf, 3)), (("gpu2 mlx5_0", 1), (leaf, 1)))
    assert told(w) == [
        "rotated: rack b0, leaf-0-r0 port 1: expected gpu0 mlx5_0, found gpu2 mlx5_0; 3 cables are in each other's places: "
        "leaf-0-r0 port 1, leaf-0-r0 port 3, leaf-0-r0 port 2; move the cable of leaf-0-r0 port 1 into leaf-0-r0 port 3; "
        "leaf-0-r0 port 3 into leaf-0-r0 port 2; leaf-0-r0 port 2 into leaf-0-r0 port 1"
    ]


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
    assert told(w) == [
        "shifted: rack b0, leaf-0-r0 port 3: 2 cables are each in the next one's place, up to leaf-0-r0 port 9; "
        "move, in this order, the cable of leaf-0-r0 port 4 into leaf-0-r0 port 3; leaf-0-r0 port 9 into leaf-0-r0 port 4"
    ]


def test_cable_in_another_port_of_its_switch_or_in_another_switch():
    w = world()
    recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 11)), (("gpu1 mlx5_0", 1), ("leaf-0-r1", 12)))
    assert told(w) == [
        "wrong-port: rack b0, leaf-0-r0 port 11: expected the cable of gpu0 mlx5_0 in leaf-0-r0 port 1, found in leaf-0-r0 port 11; "
        "move it to leaf-0-r0 port 1",
        "miswired: rack b0, leaf-0-r1 port 12: expected the cable of gpu1 mlx5_0 in leaf-0-r0 port 2, found in leaf-0-r1 port 12; "
        "move it to rack b0, leaf-0-r0 port 2",
    ]


def test_half_of_a_swap_is_one_cable_in_a_wrong_place_and_one_missing():
    w = world()
    w.cut(("gpu1 mlx5_0", 1))
    recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 2)))
    assert [one.split(";")[0] for one in told(w)] == [
        "missing: rack b0, leaf-0-r0 port 2: expected the cable to rack b0, gpu1 mlx5_0, found missing or dead",
        "wrong-port: rack b0, leaf-0-r0 port 2: expected the cable of gpu0 mlx5_0 in leaf-0-r0 port 1, found in leaf-0-r0 port 2",
    ]


def test_downgraded_link_with_its_rate():
    w = world()
    w.join(("leaf-0-r0", 13), ("sp1", 1), width="1x", speed="EDR")
    assert [one.split(";")[0] for one in told(w)] == [
        "slow: rack s1, sp1 port 1: expected 4xHDR, found 1xEDR on the cable to rack b0, leaf-0-r0 port 13"
    ]


def slowed(w: World, speed: str = "EDR", width: str = "4x", faster: int = 0) -> None:
    """Let all links, but the last few, run at a speed."""
    links = list(w.plan.present)
    for link in links[: len(links) - faster]:
        w.join(*link.ends, width=width, speed=speed)


@pytest.mark.parametrize(("width", "speed"), [("4x", "EDR"), ("1x", "HDR")])
def test_one_lower_speed_of_all_links_is_one_finding_and_other_faults_come_first(width: str, speed: str):
    w = world()
    slowed(w, speed, width)
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity, finding.ports) == ("slow", "error", ())
    assert str(finding) == (
        f"fabric: expected 4xHDR, found {width}{speed} on all 32 links; "
        "is fabric.speed right, or are the switches set lower? No cable is to be touched for this"
    )
    assert len(compared(w).ok) == 32
    w.join(("leaf-0-r0", 13), ("sp1", 1), width="1x", speed="SDR")
    recable(w, (("gpu5 mlx5_0", 1), ("leaf-1-r0", 3)), (("gpu6 mlx5_0", 1), ("leaf-1-r0", 2)))
    found = compared(w)
    assert [(one.kind, one.where) for one in found.findings] == [
        ("swapped", "rack b1, leaf-1-r0 port 2"),
        ("slow", "fabric"),
        ("slow", "rack s1, sp1 port 1"),
    ]
    assert [(one.expected, one.found) for one in found.findings[1:]] == [
        ("4xHDR", f"{width}{speed} on 29 of 30 links"),
        ("4xHDR", "1xSDR on the cable to rack b0, leaf-0-r0 port 13"),
    ]
    assert len(found.ok) == 29


@pytest.mark.parametrize(("faster", "findings"), [(3, 1), (4, 28)])
def test_a_lower_speed_of_less_than_nearly_all_links_is_told_of_each(faster: int, findings: int):
    w = world()
    slowed(w, faster=faster)
    assert len(compared(w).findings) == findings


def test_findings_are_in_the_order_of_people():
    shape = Shape(ports=32, speed="HDR", spines=["sp1"], uplinks=11)
    w = world(rail_optimised([Host(f"gpu{n}", NICS, "b0", "0") for n in range(11)], shape))
    w.cut(*((f"gpu{n} mlx5_0", 1) for n in (0, 1, 9, 10)))
    w.join(("gpu2 mlx5_0", 1), ("leaf-0-r0", 3), "1x", "HDR")
    assert [(one.kind, one.where.split()[-1]) for one in compared(w).findings] == [
        ("missing", "1"),
        ("missing", "2"),
        ("missing", "10"),
        ("missing", "11"),
        ("slow", "3"),
    ]


def test_leaf_that_is_off_is_one_finding_with_its_hosts():
    w = world()
    w.cut(*(("leaf-1-r0", port) for port in range(1, 17)))
    assert told(w) == [
        "isolated: rack b1, leaf-1-r0: leaf-1-r0 and the 4 HCAs below: nothing is seen of it; "
        "check power and management of the switch, then all its cables"
    ]


def test_island_that_was_discovered_from_within():
    w = world()
    w.cut(*(("leaf-1-r0", port) for port in range(13, 17)))
    found = w.discoveries()
    w.start = lambda plane, by_guid: w.nodes["leaf-1-r0"]  # type: ignore[method-assign]
    found["from gpu4"] = parse(w.text("").split("\n"))
    (finding,) = comparison(w.plan, found).findings
    assert (finding.kind, finding.where) == ("isolated", "rack b1, leaf-1-r0")
    assert finding.found == "leaf-1-r0 and the 4 HCAs below reach each other, and nothing else of the fabric"


def test_pod_without_its_way_up_is_one_finding():
    w = world()
    w.cut(*((leaf, port) for leaf in ("leaf-1-r0", "leaf-1-r1") for port in range(13, 17)))
    w.join(("leaf-1-r0", 11), ("leaf-1-r1", 11))
    kinds = [one.kind for one in compared(w).findings]
    assert kinds == ["isolated", "isolated"]


def planes(spines: int = 2) -> Plan:
    shape = Shape(ports=16, speed="HDR", spines=[f"sp{n}" for n in range(spines)], uplinks=4)
    return rail_only([Host(f"gpu{n}", NICS, f"b{n // 4}", f"{n // 4}") for n in range(8)], shape)


def test_plane_that_was_not_discovered_is_not_taken_for_dead():
    w = world(planes())
    found = w.discoveries()
    del found["rail1"]
    result = comparison(w.plan, found)
    assert [(one.kind, one.where, one.severity) for one in result.findings] == [("partial", "plane rail1", "error")]
    assert result.counts["ok"] == result.planned // 2


def test_nothing_discovered_is_one_finding():
    assert [one.kind for one in comparison(plan(), {}).findings] == ["partial"]
    assert [one.kind for one in comparison(plan(), {"": parse([""])}).findings] == ["partial"]


def test_planes_joined_by_an_unknown_switch():
    w = world(planes())
    w.add("foreign", SWITCH, 8)
    w.join(("foreign", 1), ("leaf-0-r0", 11))
    w.join(("foreign", 2), ("leaf-0-r1", 11))
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity) == ("unknown", "error")
    assert "it joins the planes rail0 and rail1" in finding.found


def test_planes_joined_by_two_swapped_uplinks_are_said_so():
    w = world(planes())
    recable(w, (("leaf-0-r0", 13), ("sp1", 1)), (("leaf-0-r1", 13), ("sp0", 1)))
    (finding,) = compared(w).findings
    assert finding.kind == "swapped"
    assert "joins the planes rail0 and rail1" in finding.found


def test_aggregation_nodes_have_no_part():
    w = world()
    for number, name in enumerate(list(w.plan.switches)):
        w.add(f"an{number}", CA, 1)
        w.nodes[f"an{number}"].description = "Mellanox Technologies Aggregation Node"
        w.nodes[name].ports = 17
        w.join((f"an{number}", 1), (name, 17))
    assert told(w) == []


def test_doubles_are_told_with_both_places():
    w = world()
    w.new_guid["gpu5 mlx5_0"] = w.nodes["gpu0 mlx5_0"].guid
    w.mute.add("gpu5 mlx5_0")
    (finding,) = compared(w).findings
    assert finding.kind == "duplicate-guid"
    assert finding.found.endswith(
        "is at rack b0, leaf-0-r0 port 1, rack b1, leaf-1-r0 port 2: gpu0 mlx5_0 and gpu5 mlx5_0 have the same"
    )


def test_truncated_output_says_that_it_is_one():
    w = world()
    text = w.text("")
    half = text[: text.index("\nCa\t") + 60]
    found = comparison(w.plan, {"": parse(half.split("\n"))}).findings
    assert {one.kind for one in found} <= {"partial", "unread"}
    (partial,) = [one for one in found if one.kind == "partial"]
    assert partial.found.startswith("16 nodes are named by others and did not tell of themselves")


def test_truncated_output_of_switches_is_not_taken_for_dead_cables():
    w = world()
    text = w.text("")
    lines = text[: text.index("\nCa\t")].split("\n")
    for count in range(5, len(lines), 3):
        found = comparison(w.plan, {"": parse(lines[:count])}).findings
        assert {one.kind for one in found} <= {"partial"}, count
        assert "partial" in {one.kind for one in found}


# Binding.
def unname(w: World, which: Callable[[str], bool], name: str = FACTORY) -> None:
    w.rename.update((node, name) for node in w.nodes if which(node))


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
    assert found.counts["ok"] == found.planned
    assert {one.kind for one in found.findings} == {"unnamed"}
    assert found.seen
    assert {found.seen.how[name] for name in w.nodes if which[what](name)} == {"GUID" if guids else "place"}
    assert all(found.seen.names[node.guid] == name for name, node in w.nodes.items())


def test_many_switches_without_names_are_one_finding():
    w = world()
    unname(w, lambda name: name in w.plan.switches, "Quantum Mellanox Technologies")
    (finding,) = compared(w).findings
    assert finding.found.startswith("6 switches carry no name of the plan")


def test_managed_and_qualified_names():
    w = world()
    w.rename = {name: f"MF0;{name}:MQM9700/U1" for name in w.plan.switches}
    w.rename |= {name: name.replace(" ", ".example.com ") for name in w.plan.hcas}
    assert told(w) == []


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
    assert found.seen.how["gpu1 mlx5_0"] == "being the only one left"


def test_guids_are_learned_and_a_replaced_adapter_is_noticed():
    w = world()
    found = compared(w)
    assert found.seen
    known = learned(w.plan, found.seen)
    assert known.hcas["gpu3 mlx5_1"].port_guid == with_guids(w.plan).hcas["gpu3 mlx5_1"].port_guid
    assert w.plan.hcas["gpu3 mlx5_1"].guid == ""
    again = World(known, random.Random(0))
    assert told(again) == []
    again.new_guid["gpu3 mlx5_1"] = "b83fd20300a10009"
    (finding,) = compared(again).findings
    assert (finding.kind, finding.severity, finding.where) == ("replaced", "warning", "rack b0, gpu3 mlx5_1")


def test_adapter_that_went_to_another_host():
    w = world(with_guids(plan()))
    w.new_guid["gpu3 mlx5_1"] = w.nodes["gpu7 mlx5_1"].guid
    w.new_guid["gpu7 mlx5_1"] = "b83fd20300a10009"
    found = compared(w).findings
    assert [one.kind for one in found] == ["replaced", "replaced"]
    assert "which is on record for gpu7 mlx5_1" in found[0].found


def test_cable_that_is_left_out_on_purpose_and_is_there():
    w = world()
    left_out = plan()
    left_out.links[0] = replace(left_out.links[0], missing=True)
    (finding,) = comparison(left_out, w.discoveries()).findings
    assert finding.kind == "extra"
    assert "that the plan leaves out" in finding.found


def test_order_of_discovery_does_not_matter():
    def findings(seed: int) -> list[Finding]:
        w = world()
        recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 2)), (("gpu1 mlx5_0", 1), ("leaf-0-r1", 12)))
        w.cut(("leaf-1-r1", 13))
        unname(w, lambda name: name in ("gpu5 mlx5_0", "sp1"))
        w.rng = random.Random(seed)
        return compared(w).findings

    assert findings(1) == findings(2) == findings(3)


def test_half_of_a_swap_between_switches_is_told_at_the_switches():
    w = world()
    w.cut(("gpu1 mlx5_0", 1))
    recable(w, (("gpu5 mlx5_0", 1), ("leaf-0-r0", 2)))
    assert [one.split(";")[0] for one in told(w)] == [
        "missing: rack b0, leaf-0-r0 port 2: expected the cable to rack b0, gpu1 mlx5_0, found missing or dead",
        "miswired: rack b0, leaf-0-r0 port 2: expected the cable of gpu5 mlx5_0 in leaf-1-r0 port 2, found in leaf-0-r0 port 2",
    ]


def test_link_that_is_faster_than_planned_is_fine():
    w = world()
    w.join(("leaf-0-r0", 13), ("sp1", 1), width="4x", speed="NDR")
    assert told(w) == []


def test_two_dead_switches_that_were_joined_are_two_findings():
    w = world()
    w.cut(*((name, port) for name in ("leaf-1-r0", "sp2") for port in range(1, 17)))
    assert [(one.kind, one.where) for one in compared(w).findings] == [
        ("isolated", "rack b1, leaf-1-r0"),
        ("isolated", "rack s1, sp2"),
    ]


def test_switch_without_a_name_and_with_a_wrong_cable_is_known_by_the_others():
    w = world()
    unname(w, lambda name: name == "sp1")
    recable(w, (("leaf-0-r0", 13), ("sp2", 1)), (("leaf-0-r0", 15), ("sp1", 1)))
    assert [one.kind for one in compared(w).findings] == ["swapped", "unnamed"]


def test_guid_of_two_hcas_as_ibnetdiscover_tells_of_it():
    # It prints one node, with the description of the one and the cable of the other, and complains.
    text = (Path(__file__).parent / "captures" / "simulated-duplicate.txt").read_text()
    found = parse(text.split("\n"))
    assert (found.unread, found.troubles) == ([], [])
    guid = "02a6d8d23b7fb600"
    (finding,) = comparison(PLAN, {"": found}).findings
    assert finding.kind == "duplicate-guid"
    assert set(finding.ports) == {("gpu5 mlx5_0", 0), ("gpu6 mlx5_0", 0)}
    assert finding.found == (
        f"the GUID {guid} is at rack a1, leaf-a1 port 2, rack a1, leaf-a1 port 3: gpu5 mlx5_0 and gpu6 mlx5_0 have the same"
    )


def test_guid_of_two_nodes_of_which_none_is_printed_is_told_of():
    lines = [
        *ibnetdiscover_text(discovery_of(PLAN)).split("\n"),
        "./x.c:667; Duplicate Node: Node with guid 0x1f already",
    ]
    (finding,) = comparison(PLAN, {"": parse(lines)}).findings
    assert (finding.kind, finding.where) == ("partial", "the discovery")
    assert "two nodes have the GUID 000000000000001f" in finding.found


def test_cables_that_a_truncated_output_leaves_unknown_are_an_error():
    w = world()
    text = w.text("")
    lines = text[: text.index("\nCa\t")].split("\n")
    # As cut off behind the first switch, of which all cables are told.
    first = [number for number, line in enumerate(lines) if line.startswith("Switch\t")][1]
    result = comparison(w.plan, {"": parse(lines[: first - 4])})
    (finding,) = result.findings
    assert (finding.kind, finding.severity) == ("partial", "error")
    assert finding.found.endswith(f"of {result.planned - len(result.ok)} planned cables nothing is known")


def test_nodes_that_keep_silent_while_others_tell_of_all_their_cables_are_a_warning():
    w = world()
    w.mute.add("sp1")
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity) == ("partial", "warning")


def test_rates_that_cannot_be_read_are_told_of():
    w = world()
    w.join(("gpu1 mlx5_0", 1), ("leaf-0-r0", 2), "4x", "???")
    w.join(("gpu2 mlx5_0", 1), ("leaf-0-r0", 3), "??", "HDR")
    assert told(w) == [
        "unread: fabric: the rate of 2 cables could not be read, such as 4x??? at rack b0, leaf-0-r0 port 2; "
        "planned is 4xHDR: discover with newer tools (rdma-core), or ask the switches"
    ]
    assert compared(w).findings[0].severity == "warning"
    w.join(("gpu1 mlx5_0", 1), ("leaf-0-r0", 2), "1x", "???")
    assert [one.kind for one in compared(w).findings] == ["slow", "unread"]
