"""Switches of every vendor: the names of their ports, as lldpctl prints them, give the ports of the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import Comparison, comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import discovery_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan, by_switch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    leaf_spine,
)
from tests.unit.fabric.lldp_answers import Answers, told_by
from tests.unit.fabric.messages import check_messages

PORTS = 64


@dataclass(frozen=True)
class System:
    """How a switch calls port `cage` and `lane`, both from 0: in its own answer, and as the `port` that it sends."""

    description: str
    own: Callable[[int, int], str]
    sent: Callable[[int, int], dict[str, Any]]


def ifname(text: Callable[[int, int], str]) -> Callable[[int, int], dict[str, Any]]:
    return lambda cage, lane: {
        "id": {"type": "ifname", "value": text(cage, lane)},
        "descr": "to the fabric",
        "mfs": "9216",
    }


def same(description: str, text: Callable[[int, int], str]) -> System:
    return System(description, text, ifname(text))


def local(
    number: Callable[[int, int], str], description: Callable[[int, int], str]
) -> Callable[[int, int], dict[str, Any]]:
    return lambda cage, lane: {"id": {"type": "local", "value": number(cage, lane)}, "descr": description(cage, lane)}


SONIC = "SONiC Software Version: SONiC.202411.0 - HwSku: ACS-SN5600 - Distribution: Debian 12.6"
# Unbroken cages: the plan has one port to a cage.
WHOLE = {
    "cumulus": same("Cumulus Linux version 5.9.1 running on Nvidia SN5600", lambda cage, _: f"swp{cage + 1}"),
    "sonic alias": System(SONIC, lambda cage, _: f"Ethernet{8 * cage}",
                          local(lambda cage, _: f"etp{cage + 1}", lambda cage, _: f"Ethernet{8 * cage}")),
    "sonic without alias": System(SONIC, lambda cage, _: f"Ethernet{4 * cage}",
                                  local(lambda cage, _: f"Ethernet{4 * cage}", lambda *_: "")),
    "sonic slot": same(SONIC, lambda cage, _: f"Eth1/{cage + 1}"),
    "sonic accton": same(SONIC, lambda cage, _: f"Eth{cage + 1}(Port{cage + 1})"),
    "arista": same("Arista Networks EOS version 4.32.2F running on an Arista Networks DCS-7060X6-64PE",
                   lambda cage, _: f"Ethernet{cage + 1}/1"),
    "arista sfp": same("Arista Networks EOS version 4.32.2F", lambda cage, _: f"Ethernet{cage + 1}"),
    "arista short": same("", lambda cage, _: f"Et{cage + 1}/1"),
    "arista chassis": same("Arista Networks EOS version 4.32.2F running on an Arista Networks DCS-7804R3",
                           lambda cage, _: f"Ethernet{3 + cage // 16}/{cage % 16 + 1}/1"),
    "junos": same("Juniper Networks, Inc. qfx5230-64cd", lambda cage, _: f"et-0/0/{cage}"),
    "junos index": System("Juniper Networks, Inc. qfx5130-32cd", lambda cage, _: f"et-0/0/{cage}",
                          local(lambda cage, _: str(689 + cage), lambda cage, _: f"et-0/0/{cage}")),
    "nxos": same("Cisco Nexus Operating System (NX-OS) Software 10.4(3)", lambda cage, _: f"Ethernet1/{cage + 1}"),
    "nxos without description": same("", lambda cage, _: f"Ethernet1/{cage + 1}"),
    "comware": same("H3C S9827-128DH", lambda cage, _: f"FourHundredGigE1/0/{cage + 1}"),
    "comware bare": same("", lambda cage, _: f"1/0/{cage + 1}"),
    "huawei": same("Huawei CE6863E", lambda cage, _: f"400GE1/0/{cage + 1}"),
    "lambda": same("Lambda OS B5020", lambda cage, _: f"ethernet{cage + 1}"),
}  # fmt: skip
# Two ports to a cage.
BROKEN = {
    "cumulus": same("Cumulus Linux version 5.9.1", lambda cage, lane: f"swp{cage + 1}s{lane}"),
    "cumulus a port each": same("Cumulus Linux version 5.9.1", lambda cage, lane: f"swp{2 * cage + lane + 1}"),
    "sonic alias": System(SONIC, lambda cage, lane: f"Ethernet{8 * cage + 4 * lane}",
                          local(lambda cage, lane: f"etp{cage + 1}{'ab'[lane]}", lambda cage, lane: f"Ethernet{8 * cage + 4 * lane}")),
    "sonic slot": same(SONIC, lambda cage, lane: f"Eth1/{cage + 1}/{lane + 1}"),
    "sonic accton": same(SONIC, lambda cage, lane: f"Eth{cage + 1}/{lane + 1}(Port{cage + 1})"),
    "arista": same("Arista Networks EOS version 4.32.2F", lambda cage, lane: f"Ethernet{cage + 1}/{lane + 1}"),
    "arista 8 lanes": same("", lambda cage, lane: f"Ethernet{cage + 1}/{4 * lane + 1}"),
    "junos": same("Juniper Networks, Inc. qfx5240-64od", lambda cage, lane: f"et-0/0/{cage}:{lane}"),
    "nxos": same("Cisco Nexus Operating System (NX-OS) Software 10.4(3)", lambda cage, lane: f"Ethernet1/{cage + 1}/{lane + 1}"),
    "comware": same("H3C Comware Platform Software", lambda cage, lane: f"TwoHundredGigE1/0/{cage + 1}:{lane + 1}"),
    "lambda": same("Lambda OS B5020", lambda cage, lane: f"ethernet{cage + 1}{'ab'[lane]}"),
}  # fmt: skip
CASES = [
    *(pytest.param(system, 1, id=f"{name}, whole") for name, system in WHOLE.items()),
    *(pytest.param(system, 2, id=f"{name}, broken") for name, system in BROKEN.items()),
]


def fabric(lanes: int = 1) -> Plan:
    """Return 64 hosts with two ports on four leaves, which have 32 uplinks to two spines."""
    nics = [WiredNic("ens1f0np0"), WiredNic("ens2f0np0")]
    hosts = [WiredHost(f"gpu{n}", nics, f"a{n // 16}") for n in range(64)]
    shape = FabricShape(technology="ethernet", ports=PORTS, lanes=lanes, spines=["sp1", "sp2"], uplinks=32)
    return leaf_spine(hosts, shape)


def answers(plan: Plan, system: System, *queried: str) -> Answers:
    """Return what each device answers, or the queried ones, if the fabric is as planned and all switches are of one system."""
    found: Answers = {}
    for name, ports in by_switch(plan.links).items():
        hca = plan.hcas.get(name)
        box = hca.host if hca else name
        for port, far in ports.items():
            if not queried or box in queried:
                lanes = plan.switches[name].lanes if not hca else 1
                interface = hca.device if hca else system.own((port - 1) // lanes, (port - 1) % lanes)
                told = found.setdefault(box, {"lldp": {"interface": []}})
                told["lldp"]["interface"].append(_neighbour(plan, system, interface, *far))
    return found


def _neighbour(plan: Plan, system: System, interface: str, name: str, port: int) -> dict[str, Any]:
    if hca := plan.hcas.get(name):
        # What lldpd sends on a host: the MAC is the port, the name its description.
        sent = {"id": {"type": "mac", "value": "b8:3f:d2:00:00:01"}, "descr": hca.device}
        return told_by(interface, hca.host, sent, "Ubuntu 24.04.1 LTS Linux 6.8.0-45-generic")
    lanes = plan.switches[name].lanes
    return told_by(interface, name, system.sent((port - 1) // lanes, (port - 1) % lanes), system.description)


def compared(plan: Plan, found: Answers, **options: Any) -> Comparison:
    return comparison(plan, {"": discovery_of(found, plan, **options)})


@pytest.mark.parametrize(("system", "lanes"), CASES)
@pytest.mark.parametrize("queried", ["all", "leaves and spines", "leaves"])
def test_fabric_as_planned_has_no_finding(system: System, lanes: int, queried: str):
    plan = fabric(lanes)
    names = {"all": (), "leaves": [name for name, one in plan.switches.items() if one.tier == 1]}
    found = compared(plan, answers(plan, system, *names.get(queried, plan.switches)))
    assert (found.findings, len(found.ok)) == ([], len(plan.links))


@pytest.mark.parametrize(("system", "lanes"), CASES)
def test_swapped_cables_are_found_in_their_ports(system: System, lanes: int):
    plan = fabric(lanes)
    told = answers(plan, system, *plan.switches)
    one, other = told["leaf-a0"]["lldp"]["interface"][4], told["leaf-a2"]["lldp"]["interface"][9]
    (mine,), (its,) = one, other
    one[mine], other[its] = other[its], one[mine]
    (finding,) = compared(plan, told).findings
    assert (finding.kind, sorted(end for end in finding.ports if end[0] in plan.switches)) == (
        "swapped",
        [("leaf-a0", 5), ("leaf-a2", 10)],
    )


def test_a_stated_step_is_used_and_a_wrong_one_is_unclear():
    plan = fabric()
    told = answers(plan, WHOLE["sonic without alias"])
    assert compared(plan, told, step=4).findings == []
    assert {one.kind for one in compared(plan, told, step=8).findings} == {"unclear"}


def test_names_that_fit_several_systems_are_one_finding_for_the_switch():
    # Of hosts that the plan calls otherwise, no cable says whose names these are.
    plan = fabric()
    system = same("", lambda cage, _: f"Ethernet{8 * cage}")
    told = answers(plan, system, "gpu0", "gpu1")
    told = {name.replace("gpu", "node"): answer for name, answer in told.items()}
    found = compared(plan, told)
    (finding,) = [one for one in found.findings if one.kind == "unclear"]
    assert (finding.where, finding.ports, finding.severity) == ("rack a0, leaf-a0", (("leaf-a0", 0),), "error")
    assert all(("leaf-a0", 5) not in one.ports for one in found.findings)
    check_messages("lldp: names of several steps", [finding])


@pytest.mark.parametrize(
    ("case", "change"),
    [
        ("one name of another system", lambda cage, _: f"swp{cage + 1}" if cage else "Ethernet1/1"),
        ("names that no system has", lambda cage, _: f"port-{cage + 1}"),
        ("more lanes than the plan has", lambda cage, _: f"swp{cage // 2 + 1}s{cage % 2}"),
        ("more ports than the plan has", lambda cage, _: f"swp{cage + 33}"),
    ],
)
def test_names_that_do_not_fit_are_one_finding_for_the_switch(case: str, change: Callable[[int, int], str]):
    plan = fabric()
    found = compared(plan, answers(plan, same("", change), "leaf-a0", "leaf-a1", "leaf-a2", "leaf-a3"))
    named = [one for one in found.findings if one.kind == "unclear"]
    assert {one.ports[0][0] for one in named} == {*plan.switches}
    assert {one.kind for one in found.findings} == {"unclear"}
    assert (len(found.ok), found.planned) == (0, 0)
    check_messages(f"lldp: {case}", named[:1])


def test_junos_that_sends_no_names_says_what_to_set():
    plan = fabric()
    index = local(lambda cage, _: str(689 + cage), lambda cage, _: f"to rack {cage}")
    told = answers(
        plan, System("Juniper Networks, Inc. qfx5130-32cd", lambda cage, _: f"et-0/0/{cage}", index), *plan.switches
    )
    kept = {
        "leaf-a0": told["leaf-a0"],
        "gpu1": answers(plan, System("Juniper Networks, Inc.", lambda cage, _: f"et-0/0/{cage}", index), "gpu1")[
            "gpu1"
        ],
    }
    (finding,) = [one for one in compared(plan, kept).findings if one.where == "rack a0, leaf-a0"]
    assert finding.kind == "unclear"
    assert "port-id-subtype interface-name" in finding.remedy


def test_ports_for_people_are_left_out():
    plan = fabric()
    told = answers(plan, WHOLE["cumulus"])
    told["leaf-a0"]["lldp"]["interface"].append(told_by("eth0", "oob1", {"id": {"type": "ifname", "value": "swp12"}}))
    assert compared(plan, told).findings == []
