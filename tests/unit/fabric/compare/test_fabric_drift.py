"""Faults that could be taken for others, what is said of them, and nodes without names."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import SWITCH
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import (
    comparison,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    rail_optimised,
)
from tests.unit.fabric.compare.worlds import (
    NICS,
    compared,
    messages,
    places,
    plan,
    planes,
    recable,
    slowed,
    unname,
    world,
)
from tests.unit.fabric.messages import check_messages


def test_downgraded_link_with_its_rate():
    w = world()
    w.join(("leaf-0-r0", 13), ("sp1", 1), width="1x", speed="EDR")
    (finding,) = compared(w).findings
    assert (finding.kind, finding.where, finding.expected) == ("slow", "rack s1, sp1 port 1", "4xHDR")
    check_messages("speed: one slow cable", messages(w))


@pytest.mark.parametrize(("width", "speed"), [("4x", "EDR"), ("1x", "HDR")])
def test_one_lower_speed_of_all_links_is_one_finding_and_other_faults_come_first(width: str, speed: str):
    w = world()
    slowed(w, speed, width)
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity, finding.ports) == ("slow", "error", ())
    assert (finding.where, finding.expected) == ("fabric", "4xHDR")
    check_messages(f"speed: all cables at {width}{speed}", [finding])
    assert len(compared(w).ok) == 32
    w.join(("leaf-0-r0", 13), ("sp1", 1), width="1x", speed="SDR")
    recable(w, (("gpu5 mlx5_0", 1), ("leaf-1-r0", 3)), (("gpu6 mlx5_0", 1), ("leaf-1-r0", 2)))
    found = compared(w)
    assert [(one.kind, one.where) for one in found.findings] == [
        ("swapped", "rack b1, leaf-1-r0 port 2"),
        ("slow", "fabric"),
        ("slow", "rack s1, sp1 port 1"),
    ]
    assert [one.expected for one in found.findings[1:]] == ["4xHDR", "4xHDR"]
    check_messages(f"speed: nearly all cables at {width}{speed}, and one slower", found.findings)
    assert len(found.ok) == 29


# 16 links of two NICs of eight hosts, and 16 between switches.
@pytest.mark.parametrize(("faster", "findings"), [(3, 1), (4, 2 + 12), (17, 1 + 7)])
def test_a_lower_speed_of_less_than_nearly_all_links_is_told_by_nic_or_of_each(faster: int, findings: int):
    w = world()
    slowed(w, faster=faster)
    assert len(compared(w).findings) == findings


def test_findings_are_in_the_order_of_people():
    shape = FabricShape(ports=32, speed="HDR", spines=["sp1"], uplinks=11)
    w = world(rail_optimised([WiredHost(f"gpu{n}", NICS, "b0", "0") for n in range(11)], shape))
    w.cut(*((f"gpu{n} mlx5_0", 1) for n in (0, 1, 9, 10)))
    w.join(("gpu2 mlx5_0", 1), ("leaf-0-r0", 3), "1x", "HDR")
    assert [(one.kind, one.where.split()[-1]) for one in compared(w).findings] == [
        ("missing", "1"),
        ("missing", "2"),
        ("missing", "10"),
        ("missing", "11"),
        ("slow", "3"),
    ]


def test_planes_joined_by_an_unknown_switch():
    w = world(planes())
    w.add("foreign", SWITCH, 8)
    w.join(("foreign", 1), ("leaf-0-r0", 11))
    w.join(("foreign", 2), ("leaf-0-r1", 11))
    (finding,) = compared(w).findings
    assert (finding.kind, finding.severity) == ("unknown", "error")
    check_messages("cables: an unknown switch that joins planes", [finding])


def test_cable_that_is_left_out_on_purpose_and_is_there():
    w = world()
    left_out = plan()
    left_out.links[0] = replace(left_out.links[0], missing=True)
    (finding,) = comparison(left_out, w.discoveries()).findings
    assert finding.kind == "extra"
    check_messages("cables: one that the plan leaves out", [finding])


def test_order_of_discovery_does_not_matter():
    def findings(seed: int) -> list[Finding]:
        w = world()
        recable(w, (("gpu0 mlx5_0", 1), ("leaf-0-r0", 2)), (("gpu1 mlx5_0", 1), ("leaf-0-r1", 12)))
        w.cut(("leaf-1-r1", 13))
        unname(w, lambda name: name in ("gpu5 mlx5_0", "sp1"))
        w.rng = random.Random(seed)
        return compared(w).findings

    assert findings(1) == findings(2) == findings(3)


def test_link_that_is_faster_than_planned_is_fine():
    w = world()
    w.join(("leaf-0-r0", 13), ("sp1", 1), width="4x", speed="NDR")
    assert places(w) == []


def test_rates_that_cannot_be_read_are_told_of():
    w = world()
    w.join(("gpu1 mlx5_0", 1), ("leaf-0-r0", 2), "4x", "???")
    w.join(("gpu2 mlx5_0", 1), ("leaf-0-r0", 3), "??", "HDR")
    assert places(w) == [("unread", "fabric")]
    check_messages("speed: rates that cannot be read", messages(w))
    assert compared(w).findings[0].severity == "warning"
    w.join(("gpu1 mlx5_0", 1), ("leaf-0-r0", 2), "1x", "???")
    assert [one.kind for one in compared(w).findings] == ["slow", "unread"]
