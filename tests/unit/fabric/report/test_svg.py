"""Pictures of fabrics: valid, complete, readable; what is wrong is where it is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from xml.etree import ElementTree

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    COMPUTE,
    Hca,
    Plan,
    Switch,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    leaf_spine,
    rail_optimised,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.layout import MOST, Sketch, sketch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.svg import picture, shorten, text
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import discovery_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_topology import tree
from tests.unit.fabric import cases
from tests.unit.fabric.cases import CASES, Case

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_picture_of_a_tree_that_is_there_already_is_the_same(case: Case):
    plan = case.plan()
    hosts = [hca.host for hca in plan.hcas.values()]
    known = tree(plan, nodes=hosts).branches
    assert known is not None
    assert picture(plan, branches=known) == picture(plan)


def test_picture_is_of_the_tree_that_is_given():
    assert picture(cases.rails(), branches=[]) != picture(cases.rails())


def test_tree_without_a_host_of_compute_is_not_that_of_the_fabric():
    plan = cases.compute_storage()
    compute = {hca.host for hca in plan.hcas.values() if hca.purpose == COMPUTE}
    assert tree(plan, nodes=sorted(compute)).branches is not None
    assert tree(plan, nodes=sorted(compute)[1:]).branches is None
    assert tree([plan, cases.roce()]).branches is None


def racks(count: int, rails: int = 8) -> Plan:
    """Return scalable units of eight racks of four hosts, with cores above where two tiers are too few."""
    nics = [WiredNic(f"mlx5_{rail}", rail) for rail in range(rails)]
    found = [WiredHost(f"gpu{n:03}", nics, f"r{n // 4:03}", f"su{n // 32:02}") for n in range(4 * count)]
    if count <= 8:
        return rail_optimised(found, FabricShape(spines=[f"spine{n}" for n in range(4)], uplinks=32))
    spines, cores = [f"spine{n:03}" for n in range(count)], [f"core{n:02}" for n in range(count // 2)]
    return rail_optimised(found, FabricShape(spines=spines, cores=cores, uplinks=32))


def flat(count: int) -> Plan:
    found = [WiredHost(f"gpu{n:03}", [WiredNic("mlx5_0", 0)], f"r{n // 4:03}") for n in range(4 * count)]
    return leaf_spine(found, FabricShape(ports=256, spines=[f"spine{n}" for n in range(4)], uplinks=4))


PLANS: dict[str, Callable[[], Plan]] = {
    **{name: case.plan for name, case in cases.CASES.items()},
    "4 racks": lambda: racks(4),
    "128 racks": lambda: racks(128),
    "4 racks, a leaf each": lambda: flat(4),
    "128 racks, a leaf each": lambda: flat(128),
}


@cache
def built(name: str) -> Plan:
    return PLANS[name]()


@cache
def drawn_of(name: str) -> Sketch:
    return sketch(built(name))


def parsed(plan: Plan, findings: tuple[Finding, ...] = ()) -> ElementTree.Element:
    return ElementTree.fromstring(picture(plan, findings))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.simulation if name == "128 racks" else ()) for name in PLANS]
)
def test_every_plan_has_a_picture_that_is_valid_complete_and_the_same_again(name: str):
    plan = built(name)
    svg = picture(plan)
    assert svg == picture(plan)
    ElementTree.fromstring(svg)
    assert not re.search(r"<script|href|url\(|@import|<style|<image|<foreignObject", svg)
    drawn = drawn_of(name)
    held = [name for box in drawn.boxes for name in box.names]
    assert sorted(held) == sorted([*plan.switches, *{hca.host for hca in plan.hcas.values()}])


@pytest.mark.parametrize("name", PLANS)
def test_no_two_boxes_overlap_and_all_are_in_the_picture(name: str):
    drawn = drawn_of(name)
    for one, other in combinations([*drawn.boxes, *drawn.frames], 2):
        if one is other.frame or other is one.frame:
            continue
        apart = (
            one.x + one.width <= other.x
            or other.x + other.width <= one.x
            or one.y + one.height <= other.y
            or other.y + other.height <= one.y
        )
        assert apart, (one.label, other.label)
    for box in [*drawn.boxes, *drawn.frames]:
        assert box.x >= 0
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height
        if box.frame:
            assert box.frame.x <= box.x
            assert box.x + box.width <= box.frame.x + box.frame.width
            assert box.frame.y <= box.y
            assert box.y + box.height <= box.frame.y + box.frame.height


@pytest.mark.parametrize("name", PLANS)
def test_every_cable_between_boxes_is_counted_once(name: str):
    plan, drawn = built(name), drawn_of(name)
    home = {name: box for box in drawn.boxes for name in box.names}
    home |= {hca.name: home[hca.host] for hca in plan.hcas.values()}
    crossing = [link for link in plan.present if home[link.a].anchor is not home[link.b].anchor]
    assert sum(line.count for line in drawn.lines) == len(crossing)
    barred = sum(line.count for line in drawn.lines if line.barred)
    assert sum(sum(bar.ends.values()) for bar in drawn.bars) == 2 * barred


@pytest.mark.parametrize("name", ["128 racks", "128 racks, a leaf each"])
def test_128_racks_are_readable(name: str):
    plan, drawn = built(name), drawn_of(name)
    assert len([box for box in drawn.boxes if box.tier == 0]) == 128
    for tier in range(1, plan.tiers + 1):
        assert 1 <= len([box for box in drawn.boxes if box.tier == tier]) <= MOST
    assert drawn.width < 2400
    assert drawn.height < 1200
    root = ElementTree.fromstring(picture(plan))
    assert min(int(one.get("font-size", "0")) for one in root.iter(f"{SVG}text")) >= 11
    # Thousands of cables are a few dozen strokes.
    assert len(list(root.iter(f"{SVG}path"))) < 150


@pytest.mark.parametrize("name", ["dragonfly", "ring5"])
def test_lines_of_one_tier_bend_within_the_picture_and_below_its_title(name: str):
    bends = [one.get("d", "") for one in parsed(built(name)).iter(f"{SVG}path") if "Q" in one.get("d", "")]
    assert len(bends) >= 5
    for bend in bends:
        start, control = (float(part.split()[1]) for part in bend[1:].split("Q"))
        # A curve comes half as near to its control point.
        assert (start + control) / 2 > 30


def test_text_is_escaped_for_attributes_too():
    assert text("<a b=\"c\" d='&'>") == "&lt;a b=&quot;c&quot; d=&#x27;&amp;&#x27;&gt;"


def test_4_racks_have_a_box_for_each_switch_and_each_rack():
    plan = racks(4)
    boxes = sketch(plan).boxes
    assert [box.label for box in boxes if box.tier] == [
        *(f"leaf-su00-r{n}" for n in range(8)),
        *(f"spine{n}" for n in range(4)),
    ]
    assert [box.label for box in boxes if not box.tier] == ["r000", "r001", "r002", "r003"]


def test_labels_fit_their_boxes():
    for name in PLANS:
        for group in parsed(built(name)).iter(f"{SVG}g"):
            if group.get("data-tier"):
                assert all(len(one.text or "") <= 17 for one in group.iter(f"{SVG}text"))
    long = Plan("x", "leaf-spine")
    long.add(Switch("leaf-of-the-scalable-unit-12-rail-7", 4, 1, rack="a-rack-with-a-long-name-too"))
    labels = [one.text for one in parsed(long).iter(f"{SVG}text")]
    assert labels[2:4] == ["leaf-o...rail-7", "rack a-...ame-too"]
    assert shorten("leaf-scalable-unit-12-r7", 15) == "leaf-s...-12-r7"


def test_what_is_wrong_is_coloured_numbered_and_in_the_tooltip():
    plan = built("128 racks")
    link = next(link for link in plan.links if link.kind == "host" and link.a.startswith("gpu100 "))
    slow = next(link for link in plan.links if link.kind == "spine-core")
    findings = (
        Finding("missing", "rack r025, x", "", "the cable is missing", "plug it in", ports=link.ends),
        Finding("slow", "there", "4xHDR", "1xEDR", severity=WARNING, ports=slow.ends),
        Finding("partial", "plane 7", "", "was not discovered", severity=WARNING),
    )
    groups = [one for one in parsed(plan, findings).iter(f"{SVG}g") if one.get("data-severity")]
    boxes = [(one.get("data-tier"), one.get("data-severity")) for one in groups if one.get("data-tier")]
    assert sorted(boxes) == [("0", ERROR), ("1", ERROR), ("2", WARNING), ("3", WARNING)]
    lines = {one.get("data-severity"): one for one in groups if one.get("data-cables")}
    assert set(lines) == {ERROR, WARNING}
    rack = next(one for one in groups if one.get("data-tier") == "0")
    assert "gpu[100-103]" in rack[0].text
    assert str(findings[0]) in rack[0].text
    assert [one.text for one in rack.iter(f"{SVG}text")] == ["r025", "4 hosts", "1"]
    assert "3 findings, the gravest: error; 1 of them at no place of this picture" in picture(plan, findings)


def test_a_finding_without_ports_is_at_the_place_it_names():
    odd = Finding("topology", "rack r001, leaf-su00-r3", "", "odd", severity=WARNING)
    drawn = sketch(racks(4), [odd, Finding("x", "gpu005", "", "y")])
    assert [(box.label, box.severity) for box in drawn.boxes if box.severity] == [
        ("leaf-su00-r3", WARNING),
        ("r001", ERROR),
    ]
    assert drawn.loose == []


def test_a_real_comparison_is_drawn():
    plan = racks(4)
    real = racks(4)
    real.links = [link for link in real.links if link.a != "gpu003 mlx5_2"]
    findings = comparison(plan, {"": discovery_of(real)}).findings
    assert {box.label for box in sketch(plan, findings).boxes if box.severity} == {"leaf-su00-r2", "r000"}


def test_names_are_escaped_and_no_sign_is_left_that_xml_forbids():
    plan = Plan("<&>", "a\"b'\x00", "x")
    plan.add(Switch('<script>"', 4, 1, rack="&amp;"), Hca("h\x08<b>", "m", rack="]]>\ud800"))
    plan.join("h\x08<b> m", '<script>"', "host")
    root = parsed(plan, (Finding("x", "<i>", "", "</svg>", ports=(('<script>"', 1),)),))
    labels = [one.text for one in root.iter(f"{SVG}text")]
    assert '<script>"' in labels
    assert "]]>?" in labels
    assert {one.tag for one in root.iter()} == {
        SVG + tag for tag in ("svg", "title", "rect", "text", "g", "path", "circle")
    }


def test_cables_that_are_left_out_are_dashed_and_an_empty_plan_is_drawn():
    plan = cases.one_leaf()
    plan.links = [replace(link, missing=True) for link in plan.links]
    assert 'stroke-dasharray="3 3"' in picture(plan)
    assert "0 switches, 0 HCAs, 0 cables" in picture(Plan("empty", "leaf-spine"))
