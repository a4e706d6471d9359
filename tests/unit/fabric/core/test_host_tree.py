"""Fabrics as trees of hosts: what holds of every tree, whatever is broken, and what is told of what no tree can hold."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Hca, Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.host_tree import Branch, DisjointSets, roots
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import FabricShape, dragonfly
from tests.unit.fabric import cases
from tests.unit.fabric.messages import check_messages


def outline(branch: Branch) -> object:
    """Return hosts of leaves, and of others the outlines below."""
    return sorted(branch.hosts) if branch.hosts else sorted((outline(one) for one in branch.below), key=str)


def tree_of(plan: Plan) -> list[object]:
    return sorted((outline(root) for root in roots(plan)[0]), key=str)


def every(branch: Branch) -> list[Branch]:
    return [branch, *(one for below in branch.below for one in every(below))]


PLANS: dict[str, Callable[[], Plan]] = {
    **{name: cases.CASES[name].plan for name in ("damaged", "three_level", "rail_only_spines", "dragonfly")},
    "cores_by_rail": cases.cores_by_rail,
    "dragonfly_plus": cases.dragonfly_plus,
}


@pytest.mark.parametrize("name", PLANS)
def test_whatever_is_pulled_or_moved_each_host_is_in_one_leaf_of_a_tree(name: str):
    for seed in range(40):
        mixed = random.Random(seed)
        plan = PLANS[name]()
        share = mixed.choice((0.05, 0.3, 0.8))
        plan.links = [link for link in plan.links if mixed.random() > share]
        for _moved in range(mixed.randrange(4)):
            one, other = mixed.randrange(len(plan.links)), mixed.randrange(len(plan.links))
            low, high = plan.links[one], plan.links[other]
            plan.links[one], plan.links[other] = replace(low, a=high.a), replace(high, a=low.a)
        found, findings = roots(plan)
        branches = [branch for root in found for branch in every(root)]
        assert len({id(branch) for branch in branches}) == len(branches)
        assert all(bool(branch.hosts) != bool(branch.below) for branch in branches)
        held = [host for branch in branches for host in branch.hosts]
        cabled = {plan.hcas[link.a].host for link in plan.links if link.a in plan.hcas}
        assert sorted(held) == sorted(cabled)
        lost = {one.where for one in findings if "connected to no switch" in one.found}
        assert lost == {hca.host for hca in plan.hcas.values()} - cabled


@pytest.mark.parametrize("name", PLANS)
def test_one_cable_pulled_changes_no_tree(name: str):
    whole = tree_of(PLANS[name]())
    plan = PLANS[name]()
    several = {host for host in plan.hcas if sum(hca.host == plan.hcas[host].host for hca in plan.hcas.values()) > 1}
    links = list(plan.links)
    for number, link in enumerate(links):
        if link.kind == "host" and link.a not in several:
            continue
        plan.links = links[:number] + links[number + 1 :]
        assert tree_of(plan) == whole, link


# With two rails, a host of which one is elsewhere is as much there as here: only uplinks are swapped.
@pytest.mark.parametrize(
    ("name", "kinds"), [("damaged", ("host", "leaf-spine")), ("cores_by_rail", ("leaf-spine", "spine-core"))]
)
def test_two_cables_swapped_change_no_tree(name: str, kinds: tuple[str, ...]):
    whole = tree_of(PLANS[name]())
    for seed in range(60):
        plan = PLANS[name]()
        mixed = random.Random(seed)
        kind = mixed.choice(kinds)
        one, other = mixed.sample([n for n, link in enumerate(plan.links) if link.kind == kind], 2)
        low, high = plan.links[one], plan.links[other]
        plan.links[one], plan.links[other] = replace(low, a=high.a), replace(high, a=low.a)
        assert tree_of(plan) == whole, (low, high)


def units(*groups: range) -> list[object]:
    return sorted((sorted(f"gpu{n}" for n in group) for group in groups), key=str)


def test_rails_with_spines_of_their_own_are_one_pod_of_leaves():
    plan = cases.cores_by_rail()
    assert tree_of(plan) == [units(*(range(k, k + 4) for k in (0, 4, 8, 12)))]
    assert len(plan.switches) == 8 + 8 + 2


def test_groups_of_leaves_and_spines_are_switches_of_a_dragonfly():
    plan = dragonfly(
        [replace(host, leaf=f"l{n // 2}") for n, host in enumerate(cases.hosts(8, 1, 4, "g"))],
        FabricShape(ports=16, spines=["s0", "s1", "s2", "s3"], uplinks=4),
    )
    found, findings = roots(plan)
    assert findings == []
    assert [sorted(group.switches) for group in found[0].below] == [["l0", "l1", "s0", "s1"], ["l2", "l3", "s2", "s3"]]
    assert tree_of(plan) == [[units(range(2), range(2, 4)), units(range(4, 6), range(6, 8))]]


def test_a_group_of_one_leaf_with_spines_is_that_leaf():
    assert tree_of(cases.dragonfly_plus()) == [units(*(range(k, k + 4) for k in (0, 4, 8)))]


def test_a_host_without_a_cable_is_named():
    plan = cases.rails()
    plan.add(Hca("gpu7", "mlx5_0", rack="r9"))
    found, findings = roots(plan)
    assert list(found[0].all_hosts) == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert [(one.kind, one.where) for one in findings] == [("topology", "gpu7")]
    check_messages("tree: a host without a cable", findings)


@pytest.mark.parametrize("moved", ["mlx5_1", ""])
def test_a_host_whose_rails_are_in_two_units(moved: str):
    plan = cases.rails(8, 4)
    for number, link in enumerate(plan.links):
        if moved and link.a == f"gpu2 {moved}":
            plan.links[number] = replace(link, b="leaf-su01-r1", b_port=16)
    found, findings = roots(plan)
    assert tree_of(plan) == [[[f"gpu{n}" for n in range(4)], [f"gpu{n}" for n in range(4, 8)]]]
    assert [one.severity for one in findings] == (["error"] if moved else [])
    assert len(found) == 1
    if moved:
        check_messages("tree: a host whose rails are in two units", findings)


def test_a_few_uplinks_to_another_pod_are_told_and_change_nothing():
    plan = cases.three_level()
    crossed = next(n for n, link in enumerate(plan.links) if link.a == "l0" and link.b == "p0s0")
    plan.links[crossed] = replace(plan.links[crossed], b="p1s0", b_port=15)
    assert tree_of(plan) == tree_of(cases.three_level())
    assert {one.severity for one in roots(plan)[1]} <= {"warning", "notice"}
    check_messages("tree: a few uplinks to another pod", roots(plan)[1])


def test_storage_and_management_are_in_no_tree():
    plan = cases.storage_ufm()
    found, findings = roots(plan)
    assert sorted(found[0].all_hosts) == [f"gpu{n}" for n in range(8)]
    assert findings == []
    assert not any("leaf-oss" in branch.switches for branch in every(found[0]))


def test_only_the_nodes_that_are_wanted():
    found, findings = roots(cases.rails(8, 4), ["gpu6", "gpu1", "cpu0"])
    assert [branch.hosts for branch in every(found[0]) if branch.hosts] == [["gpu1"], ["gpu6"]]
    assert findings == []


def test_sets_of_things_that_are_one():
    union = DisjointSets()
    for one, other in ((1, 2), (3, 4), (2, 4), (6, 6)):
        union.join(one, other)
    assert union.sets(range(1, 7)) == [[1, 2, 3, 4], [5], [6]]
