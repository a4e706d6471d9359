"""LLDP's neighbours as a discovered fabric."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.compare import comparison
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import (
    LldpError,
    discovery_of,
    neighbours,
    port_number,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan, by_switch
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import Host, Nic, Shape, leaf_spine

Answers = dict[str, dict[str, Any]]


def fabric() -> Plan:
    hosts = [Host(f"gpu{n}", [Nic("ens1f0np0"), Nic("ens2f0np0")], f"a{n // 2}") for n in range(4)]
    return leaf_spine(hosts, Shape(technology="roce", ports=16, spines=["sp1", "sp2"], uplinks=4, spine_rack="s0"))


def neighbour(interface: str, name: str, port: str) -> dict[str, Any]:
    """Return what `lldpctl -f json` (1.0.16) says of one neighbour."""
    return {
        interface: {
            "via": "LLDP",
            "rid": "1",
            "age": "0 day, 00:12:31",
            "chassis": {
                name: {
                    "id": {"type": "mac", "value": "9c:05:91:00:ab:01"},
                    "descr": "a switch",
                    "mgmt-ip": "10.0.0.1",
                    "capability": [{"type": "Bridge", "enabled": True}],
                }
            },
            "port": {"id": {"type": "ifname", "value": port}, "descr": port, "ttl": "120"},
        }
    }


def port_of(plan: Plan, end: tuple[str, int]) -> tuple[str, str]:
    name, port = end
    return (name, f"swp{port}") if name in plan.switches else (plan.hcas[name].host, plan.hcas[name].device)


def answers(plan: Plan, *asked: str) -> Answers:
    """Return what each box says if the fabric is as planned."""
    found: Answers = {}
    for name, ports in by_switch(plan.links).items():
        for port, far in ports.items():
            box, interface = port_of(plan, (name, port))
            if box in asked or not asked:
                told = found.setdefault(box, {"lldp": {"interface": []}})
                told["lldp"]["interface"].append(neighbour(interface, *port_of(plan, far)))
    return found


def findings(plan: Plan, found: Answers) -> list[Finding]:
    return comparison(plan, {"": discovery_of(found, plan)}).findings


@pytest.mark.parametrize("asked", [(), ("leaf-a0", "leaf-a1", "sp1", "sp2"), ("leaf-a0", "leaf-a1")])
def test_fabric_as_planned_has_no_finding_whoever_is_asked(asked: tuple[str, ...]):
    plan = fabric()
    found = comparison(plan, {"": discovery_of(answers(plan, *asked), plan)})
    assert found.findings == []
    assert found.counts == {"ok": 8 + 8}


def test_swapped_cables_are_named_with_both_ports():
    plan = fabric()
    found = answers(plan, "leaf-a0", "leaf-a1")
    one, other = found["leaf-a0"]["lldp"]["interface"], found["leaf-a1"]["lldp"]["interface"]
    one[0]["swp1"], other[0]["swp1"] = other[0]["swp1"], one[0]["swp1"]
    (finding,) = findings(plan, found)
    assert finding.kind == "swapped"
    assert str(finding) == (
        "rack a0, leaf-a0 port 1: expected gpu0 ens1f0np0, found gpu2 ens1f0np0; swap with rack a1, leaf-a1 port 1"
    )


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


def test_forms_of_lldpctl():
    bare = {"lldp": {"interface": neighbour("swp1", "gpu1", "eth0")}}
    listed = {"lldp": {"interface": [neighbour("swp1", "gpu1", "eth0")]}}
    full = {
        "lldp": [
            {
                "interface": [
                    {
                        "name": "swp1",
                        "chassis": [
                            {"id": [{"type": "mac", "value": "9c:05:91:00:ab:01"}], "name": [{"value": "gpu1"}]}
                        ],
                        "port": [
                            {"id": [{"type": "mac", "value": "9c:05:91:00:ab:02"}], "descr": [{"value": "eth0"}]},
                        ],
                    }
                ]
            }
        ]
    }
    nameless = {
        "lldp": {
            "interface": {
                "swp1": {
                    "chassis": {"id": {"type": "mac", "value": "9c:05:91:00:ab:01"}},
                    "port": {"id": {"type": "mac", "value": "9c:05:91:00:ab:02"}},
                }
            }
        }
    }
    expected = [("swp1", "gpu1", "eth0", "9c:05:91:00:ab:01")]
    assert [list(neighbours(one)) for one in (bare, listed, full)] == [expected] * 3
    assert list(neighbours(nameless)) == [("swp1", "", "9c:05:91:00:ab:02", "9c:05:91:00:ab:01")]
    assert list(neighbours({"lldp": {}})) == []


@pytest.mark.parametrize("answer", [{}, {"lldp": "off"}, {"lldp": {"interface": ["swp1"]}}])
def test_what_is_no_answer_is_told_with_the_box(answer: dict[str, Any]):
    with pytest.raises(LldpError):
        list(neighbours(answer))
    plan = fabric()
    unread = discovery_of({"sp1": answer}, plan).unread
    assert len(unread) == 1
    assert unread[0][1].startswith("sp1: ")


def test_interface_that_is_no_map_is_told_of():
    assert list(neighbours({"lldp": {"interface": [{"swp1": "gpu1"}]}})) == [("swp1", "", "", "")]


@pytest.mark.parametrize("told", [{}, {"chassis": "gpu1"}, {"chassis": {"gpu1": {"id": {}}}, "port": "eth0"}])
def test_interface_of_which_nothing_can_be_read_is_told_of(told: dict[str, Any]):
    answer = {"lldp": {"interface": {"swp1": told}}}
    assert list(neighbours(answer)) == [("swp1", "", "", "")]
    assert discovery_of({"sp1": answer}, fabric()).unread == [(0, "sp1 swp1 to  : no neighbour is named")]


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
    assert "the port has two neighbours, and gpu0 ens1f0np0 was taken, not b8:3f:d2:00:00:01" in text
    assert {one.kind for one in comparison(plan, {"": discovery}).findings} == {"unread", "unknown"}


@pytest.mark.parametrize(
    ("name", "lanes", "step", "number"),
    [("swp17", 1, 1, 17), ("swp9s1", 2, 1, 18), ("Ethernet1/31", 1, 1, 31), ("Ethernet1/31/2", 2, 1, 62),
     ("Ethernet0", 1, 4, 1), ("Ethernet248", 1, 8, 32), ("etp5", 1, 1, 5), ("Eth1/7", 1, 1, 7), ("mgmt", 1, 1, 0)],
)  # fmt: skip
def test_number_of_a_port(name: str, lanes: int, step: int, number: int):
    assert port_number(name, lanes, step) == number
