"""Islands, switches that are off, and planes that were not discovered."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import (
    comparison,
)
from tests.unit.fabric.compare.worlds import compared, messages, places, plan, planes, world
from tests.unit.fabric.messages import check_messages


def test_leaf_that_is_off_is_one_finding_with_its_hosts():
    w = world()
    w.cut(*(("leaf-1-r0", port) for port in range(1, 17)))
    assert places(w) == [("isolated", "rack b1, leaf-1-r0")]
    check_messages("reachability: a leaf that is off", messages(w))


def test_island_that_was_discovered_from_within():
    w = world()
    w.cut(*(("leaf-1-r0", port) for port in range(13, 17)))
    found = w.discoveries()
    w.start = lambda plane, by_guid: w.nodes["leaf-1-r0"]  # type: ignore[method-assign]
    found["from gpu4"] = parse(w.text("").split("\n"))
    (finding,) = comparison(w.plan, found).findings
    assert (finding.kind, finding.where) == ("isolated", "rack b1, leaf-1-r0")
    check_messages("reachability: an island", [finding])


def test_pod_without_its_way_up_is_one_finding():
    w = world()
    w.cut(*((leaf, port) for leaf in ("leaf-1-r0", "leaf-1-r1") for port in range(13, 17)))
    w.join(("leaf-1-r0", 11), ("leaf-1-r1", 11))
    kinds = [one.kind for one in compared(w).findings]
    assert kinds == ["isolated", "isolated"]


def test_plane_that_was_not_discovered_is_not_taken_for_dead():
    w = world(planes())
    found = w.discoveries()
    del found["rail1"]
    result = comparison(w.plan, found)
    assert [(one.kind, one.where, one.severity) for one in result.findings] == [("partial", "plane rail1", "error")]
    assert len(result.ok) == result.planned // 2


def test_nothing_discovered_is_one_finding():
    assert [one.kind for one in comparison(plan(), {}).findings] == ["partial"]
    assert [one.kind for one in comparison(plan(), {"": parse([""])}).findings] == ["partial"]


def test_two_dead_switches_that_were_joined_are_two_findings():
    w = world()
    w.cut(*((name, port) for name in ("leaf-1-r0", "sp2") for port in range(1, 17)))
    assert [(one.kind, one.where) for one in compared(w).findings] == [
        ("isolated", "rack b1, leaf-1-r0"),
        ("isolated", "rack s1, sp2"),
    ]
