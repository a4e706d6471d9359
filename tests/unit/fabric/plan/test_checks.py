"""The invariants P1 to P12: plans that hold, and for each rule plans that break it and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    STORAGE,
    Domain,
    Hca,
    Link,
    Plan,
    PlanProblem,
    SubnetManager,
    Switch,
    TenantPartition,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checks import RULES, check, check_topology
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    dragonfly,
    leaf_spine,
    rail_only,
    rail_optimised,
    three_tier,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology import slurm_topology
from tests.unit.fabric.cases import standing
from tests.unit.fabric.messages import check_messages


def hosts(count: int, each: int, nics: int = 2) -> list[WiredHost]:
    """Hosts in racks of 2 and units of `each`."""
    rails = [WiredNic(f"mlx5_{rail}", rail) for rail in range(nics)]
    return [WiredHost(f"gpu{n}", rails, f"r{n // 2}", f"u{n // each}") for n in range(count)]


def rails() -> Plan:
    """Return 4 leaves of 4 HCAs and a storage HCA, 4 uplinks each to 2 spines; leaves take 5 to 4."""
    shape = FabricShape(ports=16, spines=["s1", "s2"], uplinks=4, oversubscription=1.25, spine_rack="net")
    plan = standing(rail_optimised(hosts(8, 4), shape))
    for leaf in [name for name, switch in plan.switches.items() if switch.tier == 1]:
        hca = Hca(f"oss-{leaf}", "mlx5_0", purpose=STORAGE, rack="r0")
        plan.add(hca)
        plan.join(hca.name, leaf, "host")
    plan.domains = [Domain(f"nvl{n}", (f"gpu{2 * n}", f"gpu{2 * n + 1}"), f"r{n}", 2, f"u{n}", "0") for n in range(4)]
    plan = with_guids(plan)
    plan.partitions = [TenantPartition("red", 1, {"gpu0": "full"}), TenantPartition("blue", 2, {"gpu1": "limited"})]
    plan.managers = [SubnetManager("gpu0 mlx5_0", 9)]
    return plan


def tree() -> Plan:
    spines, cores = ["s1", "s2", "s3", "s4"], ["c1", "c2"]
    return three_tier(hosts(8, 4), FabricShape(ports=16, spines=spines, cores=cores, uplinks=4, spine_rack="net"))


def fly() -> Plan:
    return dragonfly(hosts(18, 6, 1), FabricShape(ports=16, global_links=2))


PLANS: dict[str, Callable[[], Plan]] = {
    "leaf-spine": lambda: leaf_spine(hosts(8, 4), FabricShape(ports=16, spines=["s1", "s2"])),
    "rail-optimised": rails,
    "three-tier": tree,
    "rails below cores": lambda: rail_optimised(
        hosts(16, 4),
        FabricShape(ports=8, uplinks=4, spines=[f"s{n}" for n in range(8)], cores=["c1", "c2", "c3", "c4"]),
    ),
    "rail-only": lambda: standing(rail_only(hosts(8, 4), FabricShape(ports=16, spines=["s1", "s2"]))),
    "rail-only without spines": lambda: rail_only(hosts(4, 4), FabricShape(ports=16)),
    "dragonfly": fly,
    "dragonfly+": lambda: dragonfly(
        hosts(12, 4, 1), FabricShape(ports=16, spines=[f"s{n}" for n in range(6)], uplinks=2)
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_templates_hold(name: str):
    assert check(PLANS[name]()) == []


def test_the_topology_of_a_plan_holds():
    assert check_topology(rails(), slurm_topology.tree(rails(), nodes=NODES), NODES) == []


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


# What is wrong: rule, plan, mutation, place of the first problem.
Mutation = Callable[[Plan], object]
BROKEN: dict[str, tuple[str, Callable[[], Plan], Mutation, str]] = {
    "unknown end": ("P1", rails, lambda p: p.links.append(Link("leaf-u0-r0", 12, "gone", 3, "leaf-spine")),
        "rack r0, leaf-u0-r0 port 12"),
    "port that is not there": ("P1", rails, lambda p: cable(p, "leaf-u0-r0", 5, b_port=17),
        "rack r0, leaf-u0-r0 port 17"),
    "port 0": ("P1", rails, lambda p: cable(p, "leaf-u0-r0", 5, b_port=0), "rack r0, leaf-u0-r0 port 0"),
    "second port of an HCA": ("P1", rails, lambda p: cable(p, "gpu5 mlx5_1", 1, a_port=2),
        "rack r2, gpu5 mlx5_1 port 2"),
    "third port of an HCA": ("P1", rails, lambda p: cable(p, "gpu5 mlx5_1", 1, a_port=3),
        "rack r2, gpu5 mlx5_1 port 3"),
    "two cables in a port": ("P1", rails, lambda p: cable(p, "leaf-u0-r0", 5, b_port=1),
        "rack r0, leaf-u0-r0 port 1"),
    "cable to itself": ("P1", rails, lambda p: p.links.append(Link("s1", 14, "s1", 14, "local")),
        "rack net, s1 port 14"),
    "cages not filled": ("P1", rails, lambda p: switch(p, "s1", lanes=3), "rack net, s1"),
    "names in two cases": ("P2", rails, lambda p: rename(p, "s1", "S2"), "rack net, s2"),
    "switch called as a host": ("P2", rails, lambda p: rename(p, "s1", "gpu3"), "rack r1, gpu3"),
    "name that is a number": ("P2", rails, lambda p: rename(p, "s1", "001"), "rack net, 001"),
    "name that is yes": ("P2", rails, lambda p: rename(p, "s1", "on"), "rack net, on"),
    "name with brackets": ("P2", rails, lambda p: rename(p, "s1", "s[1]"), "rack net, s[1]"),
    "name too long": ("P2", rails, lambda p: rename(p, "s1", "s" * 65), f"rack net, {'s' * 65}"),
    "NodeDescription too long": ("P2", tree, lambda p: rename_host(p, "gpu3", "g" * 60),
        f"rack r1, {'g' * 60} mlx5_0"),
    "GUID that is none": ("P2", rails, lambda p: switch(p, "s1", guid="0xz"), "rack net, s1"),
    "GUID of zeros": ("P2", rails, lambda p: hca(p, "gpu6 mlx5_1", port_guid="0"), "rack r3, gpu6 mlx5_1"),
    "GUID twice": ("P2", rails, lambda p: switch(p, "s1", guid="0x" + p.switches["s2"].guid.upper()),
        "rack net, s2"),
    "port GUID twice": ("P2", rails, lambda p: hca(p, "gpu6 mlx5_1", port_guid=p.hcas["gpu5 mlx5_1"].port_guid),
        "rack r3, gpu6 mlx5_1"),
    "HCA without a cable": ("P3", rails, lambda p: drop(p, ("oss-leaf-u0-r0 mlx5_0", 1)),
        "rack r0, oss-leaf-u0-r0 mlx5_0"),
    "two uplinks forgotten": ("P3", tree, lambda p: [setattr(p, "oversubscription", 2), drop(p, ("leaf-r0", 13), ("leaf-r0", 15))],
        "rack r0, leaf-r0"),
    "oversubscribed": ("P4", rails, lambda p: setattr(p, "oversubscription", 1),
        "rack r0, leaf-u0-r0"),
    "uneven uplinks": ("P4", rails, lambda p: cable(p, "leaf-u0-r1", 13, b="s2", b_port=12), "rack r0, leaf-u0-r1"),
    "uplink left out": ("P4", rails, lambda p: cable(p, "leaf-u0-r1", 13, missing=True), "rack r0, leaf-u0-r1"),
    "cable from leaf to leaf": ("P5", rails, lambda p: p.links.append(Link("leaf-u0-r0", 12, "leaf-u0-r1", 12, "local")),
        "rack r0, leaf-u0-r0 port 12"),
    "HCA on a spine": ("P5", rails, lambda p: cable(p, "oss-leaf-u1-r1 mlx5_0", 1, b="s1", b_port=14),
        "rack r0, oss-leaf-u1-r1 mlx5_0"),
    "no way to a root": ("P5", rails, lambda p: [cable(p, "leaf-u0-r0", n, b="s2", b_port=n) for n in (13, 14)],
        "rack r0, leaf-u0-r0"),
    "cable from leaf to core": ("P5", tree, lambda p: [cable(p, "leaf-r0", n, b="c1", b_port=n - 2) for n in (15, 16)],
        "rack r0, leaf-r0"),
    "joined planes": ("P5", PLANS["rail-only"], lambda p: [cable(p, "leaf-u0-r0", n, b="s2", b_port=n) for n in (13, 14)],
        "rack r0, leaf-u0-r0 port 13"),
    "swapped rails": ("P6", rails, lambda p: swap(p, "gpu2 mlx5_0", "gpu2 mlx5_1"),
        "rack r1, gpu2 mlx5_1"),
    "swapped units": ("P6", rails, lambda p: swap(p, "gpu2 mlx5_0", "gpu5 mlx5_0"),
        "rack r2, gpu5 mlx5_0"),
    "rail not there": ("P6", rails, lambda p: [drop(p, ("gpu4 mlx5_1", 1)), p.hcas.pop("gpu4 mlx5_1")],
        "rack r2, gpu4"),
    "rail twice": ("P6", rails, lambda p: [p.add(Hca("gpu4",
        "mlx5_2", 1, rack="r2", group="u1")), p.join("gpu4 mlx5_2", "leaf-u1-r1", "host"),
        setattr(p, "oversubscription", 2)], "rack r2, gpu4"),
    "routers not joined": ("P9", fly, lambda p: drop(p, ("leaf-r0", 16)), "rack r0, leaf-r0"),
    "routers joined twice": ("P9", fly, lambda p: p.join("leaf-r0", "leaf-r1", "local"), "rack r0, leaf-r0"),
    "groups not joined": ("P9", fly, lambda p: setattr(p, "links", [one for one in p.links if one.kind != "global" or one.b != "leaf-r3"]),
        "groups u0 and u1"),
    "pkey out of range": ("P10", rails, lambda p: p.partitions.append(TenantPartition("x", 0x8001, {"gpu1": "full"})),
        "partitions"),
    "member of no plan": ("P10", rails, lambda p: p.partitions.append(TenantPartition("x", 3, {"gpu99": "full"})),
        "partitions"),
    "domain too small": ("P12", rails, lambda p: p.domains.append(Domain("n", ("oss-leaf-u0-r0",), "r9", 18)),
        "rack r9, n"),
    "domain over two racks": ("P12", rails, lambda p: p.domains.__setitem__(1, replace(p.domains[1], hosts=("gpu2",
        "oss-leaf-u0-r0"))),
        "rack r1, nvl1"),
    "host in two domains": ("P12", rails, lambda p: p.domains.append(Domain("n", ("gpu6", "gpu7"), "r3", 2)),
        "rack r3, n"),
    "domain of unknown hosts": ("P12", rails, lambda p: p.domains.append(Domain("n", ("x", "y"), "r9", 2)),
        "rack r9, n"),
    "clique twice": ("P12", rails, lambda p: p.domains.__setitem__(1, replace(p.domains[1], uuid="u0")),
        "rack r1, nvl1"),
    "domains out of order": ("P12", rails, lambda p: p.domains.reverse(), "rack r2, nvl2"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plan_breaks_its_rule_and_no_other(name: str):
    rule, make, mutate, where = BROKEN[name]
    plan = make()
    assert check(plan) == []
    mutate(plan)
    problems = check(plan)
    assert {one.rule for one in problems} == {rule}, problems
    assert problems[0].where == where
    assert problems[0].severity == ("warning" if "left out" in name else "error")
    check_messages(f"plan: {name}", problems)


def test_switch_that_is_known_as_another():
    plan = rails()
    switch(plan, "s1", name="s9")
    problems = [one for one in check(plan) if one.rule == "P2"]
    assert [one.where for one in problems] == ["rack net, s1"]
    check_messages("plan: switch that is known as another", problems)


PLAN = rails()
NODES = [f"gpu{n}" for n in range(8)]


def topology(change: Callable[[slurm_topology.Topology], object], plan: Plan = PLAN) -> list[PlanProblem]:
    found = slurm_topology.tree(PLAN, nodes=NODES)
    change(found)
    return check_topology(plan, found, NODES)


def assert_one(problems: list[PlanProblem], rule: str, where: str, case: str) -> None:
    assert [(one.rule, one.where) for one in problems] == [(rule, where)]
    check_messages(case, problems)


def test_node_in_two_leaves():
    def change(found: slurm_topology.Topology) -> None:
        found.switches[1] = replace(found.switches[1], nodes=(*found.switches[1].nodes, "gpu0"))

    assert_one(topology(change), "P11", "gpu0", "Slurm's topology: node in two leaves")


def test_node_in_no_leaf():
    def change(found: slurm_topology.Topology) -> None:
        found.switches[1] = replace(found.switches[1], nodes=found.switches[1].nodes[1:])

    assert_one(topology(change), "P11", "gpu4", "Slurm's topology: node in no leaf")


def test_node_in_two_blocks():
    blocks = {"b1": ["gpu0", "gpu1"], "b2": ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"]}
    problems = topology(lambda found: found.blocks.update(blocks))
    assert_one(problems, "P11", "gpu1", "Slurm's topology: node in two blocks")


def test_no_common_root():
    problems = topology(lambda found: found.switches.pop())
    assert_one(problems, "P11", "u0, u1", "Slurm's topology: no common root")


def test_one_root_of_fabrics_that_no_cable_joins():
    plan = rails()
    plan.links = [link for link in plan.links if not link.a.startswith("leaf-u1")]
    apart = slurm_topology.tree(plan, nodes=NODES)
    assert check_topology(plan, apart, NODES) == []
    problems = topology(lambda _found: None, plan)
    assert_one(problems, "P11", "top", "Slurm's topology: one root of two fabrics")


@pytest.mark.parametrize("sizes", [(2, 6), (4, 2)])
def test_block_sizes(sizes: tuple[int, ...]):
    problems = topology(lambda found: setattr(found, "sizes", sizes))
    assert {(one.rule, one.where) for one in problems} == {("P12", "BlockSizes")}
    check_messages(f"Slurm's topology: blocks of {sizes}", problems)
    assert topology(lambda found: setattr(found, "sizes", (18, 36, 72))) == []


def test_storage_leaf_with_fewer_uplinks_is_told_and_no_error():
    plan = rails()
    plan.add(Switch("leaf-oss", 16, 1, rack="r9"))
    for number in range(3):
        plan.add(Hca(f"oss{number}", "mlx5_0", purpose=STORAGE))
        plan.join(f"oss{number} mlx5_0", "leaf-oss", "host")
    plan.join("leaf-oss", "s1", "leaf-spine")
    plan.join("leaf-oss", "s2", "leaf-spine")
    problems = check(plan)
    assert [(one.rule, one.where, one.severity) for one in problems] == [("P4", "rack r9, leaf-oss", "warning")]
    check_messages("plan: storage leaf with fewer uplinks", problems)
    plan.hcas["oss2 mlx5_0"] = replace(plan.hcas["oss2 mlx5_0"], purpose="compute")
    assert [one.severity for one in check(plan)] == ["error"]


def test_all_problems_come_at_once_and_errors_first():
    plan = rails()
    cable(plan, "leaf-u0-r1", 13, missing=True)
    rename(plan, "s1", "on")
    swap(plan, "gpu2 mlx5_0", "gpu2 mlx5_1")
    plan.domains.reverse()
    found = [(one.rule, one.severity) for one in check(plan)]
    assert sorted({rule for rule, _severity in found}) == ["P12", "P2", "P4", "P6"]
    assert [severity for _rule, severity in found] == sorted(severity for _rule, severity in found)


def test_every_rule_has_a_plan_that_breaks_it():
    assert set(RULES) == {case[0] for case in BROKEN.values()} | {"P11"}


@pytest.mark.simulation
def test_a_large_plan_is_checked_in_little_time():
    """4,096 HCAs; 16,384 take 0.7 s."""
    shape = FabricShape(ports=64, uplinks=32, spines=[f"s{n}" for n in range(128)], cores=[f"c{n}" for n in range(64)])
    plan = rail_optimised(hosts(512, 32, 8), shape)
    start = time.process_time()
    assert check(plan) == []
    assert time.process_time() - start < 2
