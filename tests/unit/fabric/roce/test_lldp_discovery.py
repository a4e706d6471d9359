"""LLDP's neighbours as a discovered fabric."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import neighbours
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import (
    discovery_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from tests.unit.fabric.lldp_answers import Answers, answers, fabric, neighbour
from tests.unit.fabric.messages import check_messages


def findings(plan: Plan, found: Answers) -> list[Finding]:
    return comparison(plan, {"": discovery_of(found, plan)}).findings


@pytest.mark.parametrize("asked", [(), ("leaf-a0", "leaf-a1", "sp1", "sp2"), ("leaf-a0", "leaf-a1")])
def test_fabric_as_planned_has_no_finding_whoever_is_asked(asked: tuple[str, ...]):
    plan = fabric()
    found = comparison(plan, {"": discovery_of(answers(plan, *asked), plan)})
    assert found.findings == []
    assert (found.findings, len(found.ok)) == ([], 8 + 8)


def test_swapped_cables_are_named_with_both_ports():
    plan = fabric()
    found = answers(plan, "leaf-a0", "leaf-a1")
    one, other = found["leaf-a0"]["lldp"]["interface"], found["leaf-a1"]["lldp"]["interface"]
    one[0]["swp1"], other[0]["swp1"] = other[0]["swp1"], one[0]["swp1"]
    (finding,) = findings(plan, found)
    assert (finding.kind, finding.where) == ("swapped", "rack a0, leaf-a0 port 1")
    assert (finding.expected, finding.found) == ("gpu0 ens1f0np0", "gpu2 ens1f0np0")
    check_messages("lldp: swapped cables", [finding])


def test_box_that_was_asked_and_sees_nothing_is_half_seen():
    plan = fabric()
    found = answers(plan)
    del found["gpu3"]["lldp"]["interface"][1]
    (finding,) = findings(plan, found)
    assert (finding.kind, finding.where) == ("half-seen", "rack a1, gpu3 ens2f0np0")


def test_missing_neighbour_and_stranger():
    plan = fabric()
    found = answers(plan, "leaf-a0", "leaf-a1", "sp1", "sp2")
    interfaces = found["leaf-a0"]["lldp"]["interface"]
    del interfaces[0]
    interfaces.append(neighbour("swp11", "nas1.example.com", "eth2"))
    one, other = findings(plan, found)
    assert (one.kind, one.where) == ("missing", "rack a0, leaf-a0 port 1")
    assert (other.kind, other.where, other.severity) == ("unknown", "rack a0, leaf-a0 port 11", "warning")
    assert "nas1 eth2" in other.found
    check_messages("lldp: a missing neighbour and a stranger", [one, other])


def test_plan_may_name_devices_otherwise():
    plan = fabric()
    found = answers(plan)
    text = {"ens1f0np0": "p0", "ens2f0np0": "p1"}
    for name in ("gpu0", "gpu1", "gpu2", "gpu3"):
        found[name]["lldp"]["interface"] = [
            {text[interface]: told} for one in found[name]["lldp"]["interface"] for interface, told in one.items()
        ]
    for name in ("leaf-a0", "leaf-a1"):
        for one in found[name]["lldp"]["interface"]:
            for told in one.values():
                told["port"]["id"]["value"] = text.get(told["port"]["id"]["value"], told["port"]["id"]["value"])
    back = {value: key for key, value in text.items()}
    discovery = discovery_of(found, plan, device=lambda _host, interface: back[interface])
    assert comparison(plan, {"": discovery}).findings == []


@pytest.mark.parametrize("told", [{}, {"chassis": "gpu1"}, {"chassis": {"gpu1": {"id": {}}}, "port": "eth0"}])
def test_interface_of_which_nothing_can_be_read_is_told_of(told: dict[str, Any]):
    answer = {"lldp": {"interface": {"swp1": told}}}
    assert list(neighbours(answer)) == [("swp1", "", "", "")]
    ((line, text),) = discovery_of({"sp1": answer}, fabric()).unread
    assert (line, text.startswith("sp1 swp1 to ")) == (0, True)
    check_messages("lldp: an interface of which nothing can be read", [text])


def test_a_cable_whose_port_has_no_name_is_not_dropped_in_silence():
    plan = fabric()
    found = answers(plan, "gpu0")
    found["gpu0"]["lldp"]["interface"][0]["ens1f0np0"]["port"] = {"id": {"type": "local", "value": ""}}
    ((_, text),) = discovery_of(found, plan).unread
    assert text == "gpu0 ens1f0np0 to leaf-a0 : no number in a port's name"


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_neighbours_at_one_port_the_planned_one_is_taken_and_both_are_told_of(order: int):
    plan = fabric()
    found = answers(plan)
    interfaces = found["leaf-a0"]["lldp"]["interface"]
    firmware = neighbour("swp1", "", "b8:3f:d2:00:00:01")
    del firmware["swp1"]["chassis"][""]
    firmware["swp1"]["chassis"] = {"id": {"type": "mac", "value": "b8:3f:d2:00:00:01"}}
    found["leaf-a0"]["lldp"]["interface"] = [*interfaces, firmware][::order]
    discovery = discovery_of(found, plan)
    ((_, text),) = discovery.unread
    assert text.startswith("leaf-a0 swp1 to ")
    assert text.index("gpu0 ens1f0np0 was used") < text.index("not b8:3f:d2:00:00:01")
    check_messages(f"lldp: two neighbours at one port, the planned one {'first' if order > 0 else 'last'}", [text])
    assert {one.kind for one in comparison(plan, {"": discovery}).findings} == {"unread", "unknown"}
