"""Discoveries as one: GUIDs of two nodes, output that was cut short, nodes that keep silent."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import (
    comparison,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
)
from tests.fuzz.properties import PLAN
from tests.unit.fabric.compare.worlds import compared, recable, world
from tests.unit.fabric.messages import check_messages


def test_doubles_are_told_with_both_places():
    w = world()
    w.new_guid["gpu5 mlx5_0"] = w.nodes["gpu0 mlx5_0"].guid
    w.mute.add("gpu5 mlx5_0")
    (finding,) = compared(w).findings
    assert finding.kind == "duplicate-guid"
    assert {name for name, _port in finding.ports} == {"gpu0 mlx5_0", "gpu5 mlx5_0"}
    check_messages("discovery: one GUID at two places", [finding])


def test_truncated_output_says_that_it_is_one():
    w = world()
    text = w.text("")
    half = text[: text.index("\nCa\t") + 60]
    found = comparison(w.plan, {"": parse(half.split("\n"))}).findings
    assert {one.kind for one in found} <= {"partial", "unread"}
    (partial,) = [one for one in found if one.kind == "partial"]
    assert len(partial.ports) == 16
    check_messages("discovery: cut short", [partial])


def test_truncated_output_of_switches_is_not_taken_for_dead_cables():
    w = world()
    text = w.text("")
    lines = text[: text.index("\nCa\t")].split("\n")
    for count in range(5, len(lines), 3):
        found = comparison(w.plan, {"": parse(lines[:count])}).findings
        assert {one.kind for one in found} <= {"partial"}, count
        assert "partial" in {one.kind for one in found}


def test_guid_of_two_hcas_as_ibnetdiscover_tells_of_it():
    # It prints one node, with the description of the one and the cable of the other, and complains.
    text = (Path(__file__).parents[1] / "captures" / "simulated-duplicate.txt").read_text()
    found = parse(text.split("\n"))
    assert (found.unread, found.troubles) == ([], [])
    (finding,) = comparison(PLAN, {"": found}).findings
    assert finding.kind == "duplicate-guid"
    assert set(finding.ports) == {("gpu5 mlx5_0", 0), ("gpu6 mlx5_0", 0)}
    check_messages("discovery: one GUID of two HCAs", [finding])


def test_guid_of_two_nodes_of_which_none_is_printed_is_told_of():
    lines = [
        *ibnetdiscover_text(discovery_of(PLAN)).split("\n"),
        "./x.c:667; Duplicate Node: Node with guid 0x1f already",
    ]
    (finding,) = comparison(PLAN, {"": parse(lines)}).findings
    assert (finding.kind, finding.where) == ("partial", "the discovery")
    check_messages("discovery: one GUID of two nodes that are not printed", [finding])


def test_cables_that_a_truncated_output_leaves_unknown_are_an_error():
    w = world()
    text = w.text("")
    lines = text[: text.index("\nCa\t")].split("\n")
    # As cut off behind the first switch, of which all cables are told.
    first = [number for number, line in enumerate(lines) if line.startswith("Switch\t")][1]
    result = comparison(w.plan, {"": parse(lines[: first - 4])})
    (finding,) = result.findings
    assert (finding.kind, finding.severity) == ("partial", "error")
    assert f" {result.planned - len(result.ok)} planned cables " in finding.found
    check_messages("discovery: cables that are not known", [finding])


def test_nodes_that_keep_silent_while_others_tell_of_all_their_cables_are_a_warning():
    w = world()
    w.mute.add("sp1")
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity) == ("partial", "warning")


def test_complaints_of_the_tool_and_lines_that_it_did_not_write_are_warnings():
    text = world().text("")
    for line, kind in (("ibwarn: [4711] mad_rpc: _do_madrpc failed", "partial"), ("what is this", "unread")):
        (finding,) = comparison(world().plan, {"": parse([*text.split("\n"), line])}).findings
        assert (finding.kind, finding.severity) == (kind, "warning")
        assert repr(line) in finding.found


def test_discoveries_that_contradict_each_other_are_an_error():
    w = world()
    before = parse(w.text("").split("\n"))
    recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 2)), (("gpu1 mlx5_0", 1), ("leaf-0-r0", 1)))
    after = parse(w.text("").split("\n"))
    for both in ({"one": before, "two": after}, {"one": after, "two": before}):
        found = comparison(w.plan, both).findings
        assert {(one.kind, one.severity) for one in found} == {("duplicate-guid", "error")}
