"""The invariants P1 to P12: plans that hold, and for each rule plans that break it and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import slurm_topology
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.checks import RULES, check
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import (
    STORAGE,
    Domain,
    Hca,
    Link,
    Partition,
    Plan,
    Problem,
    SubnetManager,
    Switch,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm import files
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import Choices
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.rules_cables import repeated
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    Host,
    Nic,
    Shape,
    dragonfly,
    leaf_spine,
    rail_only,
    rail_optimised,
    three_tier,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.view import Beside
from tests.unit.fabric.cases import standing


def hosts(count: int, each: int, nics: int = 2) -> list[Host]:
    """Hosts in racks of 2 and units of `each`."""
    rails = [Nic(f"mlx5_{rail}", rail) for rail in range(nics)]
    return [Host(f"gpu{n}", rails, f"r{n // 2}", f"u{n // each}") for n in range(count)]


def rails() -> Plan:
    """Return 4 leaves of 4 HCAs and a storage HCA, 4 uplinks each to 2 spines; leaves take 5 to 4."""
    shape = Shape(ports=16, spines=["s1", "s2"], uplinks=4, oversubscription=1.25, spine_rack="net")
    plan = standing(rail_optimised(hosts(8, 4), shape))
    for leaf in [name for name, switch in plan.switches.items() if switch.tier == 1]:
        hca = Hca(f"oss-{leaf}", "mlx5_0", purpose=STORAGE, rack="r0")
        plan.add(hca)
        plan.join(hca.name, leaf, "host")
    plan.domains = [Domain(f"nvl{n}", (f"gpu{2 * n}", f"gpu{2 * n + 1}"), f"r{n}", 2, f"u{n}", "0") for n in range(4)]
    plan = with_guids(plan)
    plan.partitions = [Partition("red", 1, {"gpu0": "full"}), Partition("blue", 2, {"gpu1": "limited"})]
    plan.managers = [SubnetManager("gpu0 mlx5_0", 9)]
    return plan


def tree() -> Plan:
    spines, cores = ["s1", "s2", "s3", "s4"], ["c1", "c2"]
    return three_tier(hosts(8, 4), Shape(ports=16, spines=spines, cores=cores, uplinks=4, spine_rack="net"))


def fly() -> Plan:
    return dragonfly(hosts(18, 6, 1), Shape(ports=16, global_links=2))


PLANS: dict[str, Callable[[], Plan]] = {
    "leaf-spine": lambda: leaf_spine(hosts(8, 4), Shape(ports=16, spines=["s1", "s2"])),
    "rail-optimised": rails,
    "three-tier": tree,
    "rails below cores": lambda: rail_optimised(
        hosts(16, 4), Shape(ports=8, uplinks=4, spines=[f"s{n}" for n in range(8)], cores=["c1", "c2", "c3", "c4"])
    ),
    "rail-only": lambda: standing(rail_only(hosts(8, 4), Shape(ports=16, spines=["s1", "s2"]))),
    "rail-only without spines": lambda: rail_only(hosts(4, 4), Shape(ports=16)),
    "dragonfly": fly,
    "dragonfly+": lambda: dragonfly(hosts(12, 4, 1), Shape(ports=16, spines=[f"s{n}" for n in range(6)], uplinks=2)),
}


def beside(plan: Plan) -> Beside:
    """Return all that is checked beside a plan, as it is made of it."""
    found = {"": files(plan, plan.managers[0], Choices()) | files(plan, plan.managers[0], Choices(list_by="io"))}
    topology = slurm_topology.tree(plan, nodes=[f"gpu{n}" for n in range(8)])
    return Beside(found, ("ftree", "updn"), topology, [f"gpu{n}" for n in range(8)], lambda _one, _other: 3.0, {})


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_templates_hold(name: str):
    assert check(PLANS[name]()) == []


def test_what_is_made_of_a_plan_holds():
    assert check(rails(), beside(rails())) == []


def link_of(plan: Plan, name: str, port: int) -> int:
    return next(number for number, link in enumerate(plan.links) if (name, port) in link.ends)


def switch(plan: Plan, key: str, **changes: object) -> None:
    plan.switches[key] = replace(plan.switches[key], **changes)


def hca(plan: Plan, name: str, **changes: object) -> None:
    plan.hcas[name] = replace(plan.hcas[name], **changes)


def cable(plan: Plan, name: str, port: int, **changes: object) -> None:
    number = link_of(plan, name, port)
    plan.links[number] = replace(plan.links[number], **changes)


def swap(plan: Plan, one: str, other: str) -> None:
    """Exchange the leaves of two HCAs."""
    first, second = link_of(plan, one, 1), link_of(plan, other, 1)
    a, b = plan.links[first], plan.links[second]
    plan.links[first], plan.links[second] = replace(a, a=other), replace(b, a=one)


def rename(plan: Plan, old: str, new: str) -> None:
    """Rename a switch."""
    plan.switches = {new if name == old else name: replace(one, name=new) if name == old else one
                     for name, one in plan.switches.items()}  # fmt: skip
    plan.links = [
        replace(link, a=new if link.a == old else link.a, b=new if link.b == old else link.b) for link in plan.links
    ]


def rename_host(plan: Plan, old: str, new: str) -> None:
    for name in [name for name, one in plan.hcas.items() if one.host == old]:
        changed = replace(plan.hcas.pop(name), host=new)
        plan.add(changed)
        plan.links = [replace(link, a=changed.name if link.a == name else link.a) for link in plan.links]


def drop(plan: Plan, *ends: tuple[str, int]) -> None:
    plan.links = [link for link in plan.links if not set(link.ends) & set(ends)]


# What is wrong: rule, plan, mutation, place of the first problem, part of its text.
Mutation = Callable[[Plan], object]
BROKEN: dict[str, tuple[str, Callable[[], Plan], Mutation, str, str]] = {
    "unknown end": ("P1", rails, lambda p: p.links.append(Link("leaf-u0-r0", 12, "gone", 3, "leaf-spine")),
        "rack r0, leaf-u0-r0 port 12", "its cable goes to gone port 3, which is not in the plan"),
    "port that is not there": ("P1", rails, lambda p: cable(p, "leaf-u0-r0", 5, b_port=17),
        "rack r0, leaf-u0-r0 port 17",
        "there is no port 17, and the cable to rack r0, oss-leaf-u0-r0 mlx5_0 is to be in it; allowed: 1 to 16"),
    "port 0": ("P1", rails, lambda p: cable(p, "leaf-u0-r0", 5, b_port=0), "rack r0, leaf-u0-r0 port 0",
        "allowed: 1 to 16"),
    "second port of an HCA": ("P1", rails, lambda p: cable(p, "gpu5 mlx5_1", 1, a_port=2),
        "rack r2, gpu5 mlx5_1 port 2", "a plan knows one port of an HCA: name the second one as an HCA of its own"),
    "third port of an HCA": ("P1", rails, lambda p: cable(p, "gpu5 mlx5_1", 1, a_port=3),
        "rack r2, gpu5 mlx5_1 port 3", "allowed: 1 to 1"),
    "two cables in a port": ("P1", rails, lambda p: cable(p, "leaf-u0-r0", 5, b_port=1),
        "rack r0, leaf-u0-r0 port 1",
        "two cables are planned in it: to rack r0, gpu0 mlx5_0 and to rack r0, oss-leaf-u0-r0 mlx5_0"),
    "cable to itself": ("P1", rails, lambda p: p.links.append(Link("s1", 14, "s1", 14, "local")),
        "rack net, s1 port 14", "to itself"),
    "cages not filled": ("P1", rails, lambda p: switch(p, "s1", lanes=3), "rack net, s1",
        "16 ports do not fill cages of 3"),
    "names in two cases": ("P2", rails, lambda p: rename(p, "s1", "S2"), "rack net, s2",
        "switch s2 has the name of switch S2"),
    "switch called as a host": ("P2", rails, lambda p: rename(p, "s1", "gpu3"), "rack r1, gpu3",
        "host gpu3 has the name of switch gpu3"),
    "name that is a number": ("P2", rails, lambda p: rename(p, "s1", "001"), "rack net, 001", "call it such as sw-001"),
    "name that is yes": ("P2", rails, lambda p: rename(p, "s1", "on"), "rack net, on",
        "is read as a number or as yes or no"),
    "name with brackets": ("P2", rails, lambda p: rename(p, "s1", "s[1]"), "rack net, s[1]",
        "cannot stand in a hostlist"),
    "name too long": ("P2", rails, lambda p: rename(p, "s1", "s" * 65), f"rack net, {'s' * 65}",
        "has more than 64 bytes"),
    "NodeDescription too long": ("P2", tree, lambda p: rename_host(p, "gpu3", "g" * 60),
        f"rack r1, {'g' * 60} mlx5_0", "more than 64 bytes"),
    "GUID that is none": ("P2", rails, lambda p: switch(p, "s1", guid="0xz"), "rack net, s1",
        "its node GUID '0xz' is none"),
    "GUID of zeros": ("P2", rails, lambda p: hca(p, "gpu6 mlx5_1", port_guid="0"), "rack r3, gpu6 mlx5_1",
        "its port GUID '0' is none"),
    "GUID twice": ("P2", rails, lambda p: switch(p, "s1", guid="0x" + p.switches["s2"].guid.upper()),
        "rack net, s2", "of rack net, s1"),
    "port GUID twice": ("P2", rails, lambda p: hca(p, "gpu6 mlx5_1", port_guid=p.hcas["gpu5 mlx5_1"].port_guid),
        "rack r3, gpu6 mlx5_1", "of rack r2, gpu5 mlx5_1"),
    "HCA without a cable": ("P3", rails, lambda p: drop(p, ("oss-leaf-u0-r0 mlx5_0", 1)),
        "rack r0, oss-leaf-u0-r0 mlx5_0", "no cable goes to it"),
    "two uplinks forgotten": ("P3", tree, lambda p: [setattr(p, "oversubscription", 2), drop(p, ("leaf-r0", 13), ("leaf-r0", 15))],
        "rack r0, leaf-r0",
        "2 cables go up from it, and 4 from others of its tier: 14 cables above tier 1, and 16 are to be"),
    "oversubscribed": ("P4", rails, lambda p: setattr(p, "oversubscription", 1),
        "rack r0, leaf-u0-r0", "5 cables from below and 4 up are 1.25 to 1, and 1 to 1 is allowed"),
    "uneven uplinks": ("P4", rails, lambda p: cable(p, "leaf-u0-r1", 13, b="s2", b_port=12), "rack r0, leaf-u0-r1",
        "1 cables go to s1, and 3 to others"),
    "uplink left out": ("P4", rails, lambda p: cable(p, "leaf-u0-r1", 13, missing=True), "rack r0, leaf-u0-r1",
        "1 more is left out on purpose"),
    "cable from leaf to leaf": ("P5", rails, lambda p: p.links.append(Link("leaf-u0-r0", 12, "leaf-u0-r1", 12, "local")),
        "rack r0, leaf-u0-r0 port 12", "a cable to rack r0, leaf-u0-r1 port 12, of the same tier 1"),
    "HCA on a spine": ("P5", rails, lambda p: cable(p, "oss-leaf-u1-r1 mlx5_0", 1, b="s1", b_port=14),
        "rack r0, oss-leaf-u1-r1 mlx5_0", "is on rack net, s1 of tier 2: ftree takes HCAs on leaves only"),
    "no way to a root": ("P5", rails, lambda p: [cable(p, "leaf-u0-r0", n, b="s2", b_port=n) for n in (13, 14)],
        "rack r0, leaf-u0-r0", "no way up to s1 (1 of 2 at the top)"),
    "cable from leaf to core": ("P5", tree, lambda p: [cable(p, "leaf-r0", n, b="c1", b_port=n - 2) for n in (15, 16)],
        "rack r0, leaf-r0", "a cable to rack net, c1: from tier 1 to tier 3"),
    "joined planes": ("P5", PLANS["rail-only"], lambda p: [cable(p, "leaf-u0-r0", n, b="s2", b_port=n) for n in (13, 14)],
        "rack r0, leaf-u0-r0 port 13", "a cable from plane rail0 to s2 port 13 of plane rail1"),
    "swapped rails": ("P6", rails, lambda p: swap(p, "gpu2 mlx5_0", "gpu2 mlx5_1"),
        "rack r1, gpu2 mlx5_1", "is of rail 1, and its cable goes to rack r0, leaf-u0-r0 port 3 of rail 0"),
    "swapped units": ("P6", rails, lambda p: swap(p, "gpu2 mlx5_0", "gpu5 mlx5_0"),
        "rack r2, gpu5 mlx5_0", "is of unit u1, and its cable goes to rack r0, leaf-u0-r0 port 3 of unit u0"),
    "rail not there": ("P6", rails, lambda p: [drop(p, ("gpu4 mlx5_1", 1)), p.hcas.pop("gpu4 mlx5_1")],
        "rack r2, gpu4", "has no HCA on rail 1"),
    "rail twice": ("P6", rails, lambda p: [p.add(Hca("gpu4",
        "mlx5_2", 1, rack="r2", group="u1")), p.join("gpu4 mlx5_2", "leaf-u1-r1", "host"),
        setattr(p, "oversubscription", 2)], "rack r2, gpu4", "has 2 HCAs on rail 1: mlx5_1, mlx5_2"),
    "routers not joined": ("P9", fly, lambda p: drop(p, ("leaf-r0", 16)), "rack r0, leaf-r0",
        "0 cables to rack r1, leaf-r1 of its group u0, and 1 between"),
    "routers joined twice": ("P9", fly, lambda p: p.join("leaf-r0", "leaf-r1", "local"), "rack r0, leaf-r0",
        "2 cables to rack r1, leaf-r1"),
    "groups not joined": ("P9", fly, lambda p: setattr(p, "links", [one for one in p.links if one.kind != "global" or one.b != "leaf-r3"]),
        "groups u0 and u1", "1 cables join them, and 2 join others"),
    "pkey out of range": ("P10", rails, lambda p: p.partitions.append(Partition("x", 0x8001, {"gpu1": "full"})),
        "partitions", "pkey 0x8001"),
    "member of no plan": ("P10", rails, lambda p: p.partitions.append(Partition("x", 3, {"gpu99": "full"})),
        "partitions", "gpu99 is no host"),
    "domain too small": ("P12", rails, lambda p: p.domains.append(Domain("n", ("oss-leaf-u0-r0",), "r9", 18)),
        "rack r9, n", "1 hosts, and 18 are to be"),
    "domain over two racks": ("P12", rails, lambda p: p.domains.__setitem__(1, replace(p.domains[1], hosts=("gpu2",
        "oss-leaf-u0-r0"))),
        "rack r1, nvl1", "oss-leaf-u0-r0 in rack r0: NVLink does not leave a rack"),
    "host in two domains": ("P12", rails, lambda p: p.domains.append(Domain("n", ("gpu6", "gpu7"), "r3", 2)),
        "rack r3, n", "gpu6 is in the NVLink domain nvl3"),
    "domain of unknown hosts": ("P12", rails, lambda p: p.domains.append(Domain("n", ("x", "y"), "r9", 2)),
        "rack r9, n", "x is no host of the plan"),
    "clique twice": ("P12", rails, lambda p: p.domains.__setitem__(1, replace(p.domains[1], uuid="u0")),
        "rack r1, nvl1", "clique u0.0 of nvl0"),
    "domains out of order": ("P12", rails, lambda p: p.domains.reverse(), "rack r2, nvl2",
        "comes after nvl3 of rack r3"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plan_breaks_its_rule_and_no_other(name: str):
    rule, make, mutate, where, text = BROKEN[name]
    plan = make()
    assert check(plan) == []
    mutate(plan)
    problems = check(plan)
    assert {one.rule for one in problems} == {rule}, problems
    assert problems[0].where == where
    assert text in problems[0].text
    assert problems[0].severity == ("warning" if "left out" in name else "error")


def test_switch_that_is_known_as_another():
    plan = rails()
    switch(plan, "s1", name="s9")
    problems = [str(one) for one in check(plan) if one.rule == "P2"]
    assert problems == ["rack net, s1: is in the plan as s1 and calls itself s9 [P2]"]


def lines(text: str, change: Callable[[list[str]], list[str]]) -> str:
    return "\n".join(change(text.rstrip("\n").split("\n"))) + "\n"


def host_major(rows: list[str]) -> list[str]:
    return rows[:1] + sorted(rows[1:], key=lambda row: row.split("# ")[1])


def node_guid(rows: list[str], plan: Plan) -> list[str]:
    return [*rows[:-1], f"0x{plan.hcas[rows[-1].split('# ')[1]].guid}"]


PLAN = rails()
LEAF, SPINE, OSS = (
    PLAN.switches["leaf-u0-r0"].guid,
    PLAN.switches["s1"].guid,
    PLAN.hcas["oss-leaf-u0-r0 mlx5_0"].port_guid,
)
# What is wrong with a file: rule, file, change, place, part of the text.
FILES: dict[str, tuple[str, str, Callable[[str], str], str, str]] = {
    "root dropped": ("P7", "root_guid.conf", lambda t: lines(t, lambda rows: rows[:-1]),
        "root_guid.conf", "1 of 2 switches of the top tier are not in it: rack net, s2; no way goes through them"),
    "roots of the wrong tier": ("P7", "root_guid.conf", lambda t: t + f"0x{LEAF}\n", "root_guid.conf line 4",
        "rack r0, leaf-u0-r0, which is not of the top tier"),
    "unknown root": ("P7", "root_guid.conf", lambda t: t + "0x1234\n", "root_guid.conf line 4",
        "is nothing in the plan"),
    "roots without 0x": ("P7", "root_guid.conf", lambda t: t.replace("0x", ""), "root_guid.conf line 2",
        "is no GUID; allowed: 0x and"),
    "host by host": ("P8", "guid_routing_order.conf", lambda t: lines(t, host_major),
        "guid_routing_order.conf line 4", "comes back to leaf-u0-r0, so the order is not leaf by leaf"),
    "HCA not in the order": ("P8", "guid_routing_order.conf", lambda t: lines(t, lambda rows: rows[:-1]),
        "guid_routing_order.conf", "1 of 20 HCAs are not in it: rack r0, oss-leaf-u1-r1 mlx5_0"),
    "node GUID in cn": ("P8", "cn_guid.conf", lambda t: lines(t, lambda rows: node_guid(rows, PLAN)),
        "cn_guid.conf line 17", "is rack r3, gpu7 mlx5_1, its node GUID; the port GUID is to be here"),
    "storage in cn": ("P8", "cn_guid.conf", lambda t: t + f"0x{OSS}\n",
        "cn_guid.conf line 18",
        "is rack r0, oss-leaf-u0-r0 mlx5_0, which does not belong to compute HCAs of this plane"),
    "switch in io": ("P8", "io_guid.conf", lambda t: t + f"0x{SPINE}\n", "io_guid.conf line 6",
        "is rack net, s1, a switch"),
    "unknown GUID in io": ("P8", "io_guid.conf", lambda t: t + "0x99\n", "io_guid.conf line 6",
        "0x0000000000000099 is nothing in the plan"),
    "GUID twice": ("P8", "cn_guid.conf", lambda t: t + t.split("\n")[1], "cn_guid.conf line 18",
        "is in line 2 already"),
    "partition misread": ("P10", "partitions.conf", lambda t: t.replace("=limited", "=limite"),
        "partitions.conf line 3", "OpenSM takes it for limited"),
    "partition of others": ("P10", "partitions.conf", lambda t: t.replace("=0x0001", "=0x0003"),
        "rack r0, gpu0 mlx5_0", "gives it the P_Keys 0x8003 0xffff, and the plan has 0x8001 0xffff"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_file_breaks_its_rule_and_no_other(name: str):
    rule, file, change, where, text = FILES[name]
    good = beside(PLAN)
    changed = replace(good, files={"": {**good.files[""], file: change(good.files[""][file])}})
    problems = check(PLAN, changed)
    assert {one.rule for one in problems} == {rule}, problems
    assert any(one.where == where and text in one.text for one in problems), problems


def topology(change: Callable[[slurm_topology.Topology], object], plan: Plan = PLAN) -> list[Problem]:
    good = beside(plan)
    assert good.topology is not None
    change(good.topology)
    return check(plan, good)


def test_node_in_two_leaves():
    def change(found: slurm_topology.Topology) -> None:
        found.switches[1] = replace(found.switches[1], nodes=(*found.switches[1].nodes, "gpu0"))

    assert [str(one) for one in topology(change)] == ["gpu0: is in 2 of Slurm's leaves: u0, u1 [P11]"]


def test_node_in_no_leaf():
    def change(found: slurm_topology.Topology) -> None:
        found.switches[1] = replace(found.switches[1], nodes=found.switches[1].nodes[1:])

    assert [str(one) for one in topology(change)] == [
        "gpu4: is a node of slurm.conf, and in no leaf of the topology [P11]"
    ]
    problems = check(PLAN, Beside(nodes=["gpu0", "cpu1"]))
    assert [str(one) for one in problems] == ["cpu1: is a node of slurm.conf, and has no HCA in the plan [P11]"]


def test_node_in_two_blocks():
    blocks = {"b1": ["gpu0", "gpu1"], "b2": ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"]}
    problems = topology(lambda found: found.blocks.update(blocks))
    assert [str(one) for one in problems] == ["gpu1: is in 2 of Slurm's blocks: b1, b2 [P11]"]


def test_no_common_root():
    problems = topology(lambda found: found.switches.pop())
    assert [one.rule for one in problems] == ["P11"]
    assert "u0, u1: cables join what is below them, and Slurm has no common switch" in str(problems[0])


def test_one_root_of_fabrics_that_no_cable_joins():
    plan = rails()
    plan.links = [link for link in plan.links if not link.a.startswith("leaf-u1")]
    problems = [one for one in topology(lambda _found: None, plan) if one.rule == "P11"]
    assert problems == []
    good = beside(rails())
    problems = [one for one in check(plan, good) if one.rule == "P11"]
    assert "Slurm would place jobs across gpu0, gpu4, which no cable joins" in str(problems[0])


@pytest.mark.parametrize(("sizes", "text"), [((2, 6), "6 is not 2, 4, 8, ... times 2"), ((4, 2), "do not rise")])
def test_block_sizes(sizes: tuple[int, ...], text: str):
    problems = topology(lambda found: setattr(found, "sizes", sizes))
    assert {one.rule for one in problems} == {"P12"}
    assert any(text in one.text for one in problems)
    assert topology(lambda found: setattr(found, "sizes", (18, 36, 72))) == []


def test_engines_of_a_dragonfly():
    assert check(fly(), Beside(engines=("nue", "dfsssp"))) == []
    assert [one.text for one in check(fly(), Beside(engines=("nue", "minhop")))] == [
        "routing engine minhop can block a dragonfly for ever; allowed: nue, dfsssp, lash"
    ]


def test_storage_leaf_with_fewer_uplinks_is_told_and_no_error():
    plan = rails()
    plan.add(Switch("leaf-oss", 16, 1, rack="r9"))
    for number in range(3):
        plan.add(Hca(f"oss{number}", "mlx5_0", purpose=STORAGE))
        plan.join(f"oss{number} mlx5_0", "leaf-oss", "host")
    plan.join("leaf-oss", "s1", "leaf-spine")
    plan.join("leaf-oss", "s2", "leaf-spine")
    assert [(str(one), one.severity) for one in check(plan)] == [
        ("rack r9, leaf-oss: 3 cables from below and 2 up are 1.50 to 1, and 1.25 to 1 is allowed [P4]", "warning")
    ]
    plan.hcas["oss2 mlx5_0"] = replace(plan.hcas["oss2 mlx5_0"], purpose="compute")
    assert [one.severity for one in check(plan)] == ["error"]


def test_lengths_and_parts():
    plan = rails()
    plan.links = [replace(link, length=5.0, part="A") for link in plan.links]
    cable(plan, "gpu2 mlx5_0", 1, length=2.0)
    problems = check(plan, Beside(distance=lambda one, other: 1.0 if one == other else 3.0, parts={"A": 35, "B": 1}))
    assert [str(one) for one in problems] == [
        "rack r1, gpu2 mlx5_0: its cable to rack r0, leaf-u0-r0 port 3 is 2 m, and 3 m are needed [P3]",
        "part A: 35 on the list, and 36 cables are planned [P3]",
        "part B: 1 on the list, and 0 cables are planned [P3]",
    ]
    assert [one.severity for one in problems] == ["error", "error", "warning"]


def test_all_problems_come_at_once_and_errors_first():
    plan = rails()
    cable(plan, "leaf-u0-r1", 13, missing=True)
    rename(plan, "s1", "on")
    swap(plan, "gpu2 mlx5_0", "gpu2 mlx5_1")
    plan.domains.reverse()
    found = [(one.rule, one.severity) for one in check(plan)]
    assert sorted({rule for rule, _severity in found}) == ["P12", "P2", "P4", "P6"]
    assert [severity for _rule, severity in found] == sorted(severity for _rule, severity in found)


def test_things_of_one_name_before_they_are_a_plan():
    things = [Switch("s1", 4, 1, rack="a"), Switch("s2", 4, 1), Switch("s1", 4, 2, rack="b"), Hca("s1", "x")]
    assert [str(one) for one in repeated(things)] == ["s1: 2 switches or HCAs have this name: in rack a, rack b [P2]"]


def test_every_rule_has_a_plan_or_a_file_that_breaks_it():
    broken = {case[0] for case in BROKEN.values()} | {case[0] for case in FILES.values()}
    assert set(RULES) == broken | {"P11"}


@pytest.mark.simulation
def test_a_large_plan_is_checked_in_little_time():
    """4,096 HCAs; 16,384 take 0.7 s."""
    shape = Shape(ports=64, uplinks=32, spines=[f"s{n}" for n in range(128)], cores=[f"c{n}" for n in range(64)])
    plan = rail_optimised(hosts(512, 32, 8), shape)
    start = time.process_time()
    assert check(plan) == []
    assert time.process_time() - start < 2
