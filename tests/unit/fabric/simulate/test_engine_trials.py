"""Engines compared on one plan: what is proposed is the best of those that OpenSM can run there, and what hurts is red."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import routing_proof
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.engine_trials import (
    ENGINES,
    Trial,
    best,
    engine_in_effect,
    table,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.routing_proof import RoutingProof, prove
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import TOOLS
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.gate import SMALL, left_out, made, rails, real, texts, tiers, without

FTREE = Trial("ftree", (), 216, 2.0)
SCATTERED = Trial("updn", (("scatter_ports", "1"),), 176, 1.63)
CIRCLES = Trial("minhop", (), 100, 1.0, "makes circles of links, so packets can block for ever")


def test_the_best_is_the_one_with_the_fewest_flows_of_those_that_can_be_used():
    assert best([FTREE, SCATTERED, CIRCLES]) == SCATTERED
    assert best([CIRCLES]) is None
    assert best([]) is None


def test_the_table_has_each_engine_once_and_says_why_one_cannot_be_used():
    found = [SCATTERED, FTREE, replace(SCATTERED, options=()), CIRCLES]
    check_messages("trials: a table of engines", list(table(found)))
    check_messages("trials: variables of the role", [SCATTERED.variables, FTREE.variables])


def test_the_engine_in_effect_is_that_of_the_last_tables():
    log = "x ucast_mgr_process: ftree tables configured on all switches\ny ucast_mgr_process: updn tables configured on all switches\n"
    assert (engine_in_effect(log), engine_in_effect("SUBNET UP")) == ("updn", "")


# Three tiers with SHARP: HCAs, and how the plan is made.
SHARP: dict[str, Callable[[], Plan]] = {
    "64": lambda: tiers(4, 4, 4, 8),
    "128": lambda: tiers(4, 4, 8, 16),
    "1024": lambda: tiers(4, 16, 16, 32, ports=32),
}


def judged_with_sharp(name: str) -> RoutingProof:
    """Return the proof of what the product proposes for a plan with aggregation nodes; what hurts by default must be red."""
    plan = replace(SHARP[name](), sharp=True)
    found = prove(plan, "", made(plan), seconds=600)
    assert found.metrics is not None
    if found.metrics.imbalance <= 1.2:
        assert texts(found) == ""
        return found
    proposed = best(found.trials)
    assert proposed is not None
    assert "times the mean" in texts(found, routing_proof.ROUTES), texts(found)
    assert proposed.variables in texts(found, routing_proof.ROUTES)
    again = prove(plan, "", made(plan, proposed.engine, options=proposed.options), seconds=600, compare=False)
    assert texts(again) == ""
    assert again.metrics is not None
    assert again.metrics.most == proposed.most
    assert again.metrics.imbalance <= 1.2 or proposed.most == min(one.most for one in found.trials if not one.obstacle)
    again.trials = found.trials
    return again


@real
def test_files_that_hurt_below_cores_with_aggregation_nodes_are_red_and_the_proposal_is_green():
    found = judged_with_sharp("64")
    assert found.metrics is not None
    assert found.metrics.imbalance < 1.7


@real
def test_two_tiers_route_as_well_with_aggregation_nodes():
    plan = replace(rails(32, 8, 8, 8), sharp=True)
    found = prove(plan, "", made(plan))
    assert (texts(found), found.engine, found.trials) == ("", "ftree", [])
    assert found.metrics is not None
    assert found.metrics.imbalance == pytest.approx(1, abs=0.01)


@pytest.mark.nightly
@pytest.mark.tools(*TOOLS)
@pytest.mark.parametrize("name", SHARP)
def test_what_is_proposed_for_three_tiers_with_aggregation_nodes_is_the_best_of_all(name: str):
    found = judged_with_sharp(name)
    print(f"{name} HCAs in three tiers with aggregation nodes: {found.summary}", *table(found.trials), sep="\n  ")


# 256 HCAs in two and three tiers.
PLANS: dict[str, Callable[[], Plan]] = {
    "two tiers": lambda: rails(32, 8, 8, 8),
    "three tiers": lambda: tiers(4, 8, 8, 16, ports=32),
}


def cut(plan: Plan, cables: int, seed: int) -> Plan:
    """Leave out uplinks by chance."""
    uplinks = [link for link in plan.links if link.kind != "host"]
    return without(plan, random.Random(seed).sample(uplinks, cables))


def check_verdict(plan: Plan) -> str:
    """Judge the verdict by a proof of each engine alone; return the summary."""
    found = prove(plan, "", made(plan))
    assert found.metrics is not None
    chosen, engine = found.metrics.most, found.engine
    if "times the mean" in texts(found, routing_proof.ROUTES):
        named = best(found.trials)
        assert named is not None
        assert named.variables in texts(found, routing_proof.ROUTES)
        chosen, engine = named.most, named.engine
    for other in ENGINES:
        alone = prove(plan, "", made(plan, other), compare=False)
        if alone.engine != other or not alone.metrics or alone.metrics.unreachable or alone.metrics.hosts_loop:
            continue
        assert alone.metrics.most * 1.05 >= chosen, f"{other} has {alone.metrics.most} flows, and {engine} {chosen}"
    return found.summary


@real
def test_the_verdict_names_the_best_engine_of_a_plan_with_cables_left_out():
    check_verdict(cut(rails(8, 4, 4, 4), 3, 1))


@pytest.mark.nightly
@pytest.mark.tools(*TOOLS)
@pytest.mark.parametrize(
    ("name", "cables", "seed"),
    [(name, cables, seed) for name in PLANS for cables in (1, 8, 26) for seed in range(4 if cables == 1 else 3)],
)
def test_no_other_engine_is_better_than_that_of_the_verdict(name: str, cables: int, seed: int):
    print(f"{name}, {cables} cables left out, seed {seed}: {check_verdict(cut(PLANS[name](), cables, seed))}")


@real
def test_routes_as_good_as_the_cables_allow_need_no_other_engine():
    found = prove(SMALL, "", made(SMALL))
    assert (found.trials, found.bound, found.metrics and found.metrics.most) == ([], 12, 12)


@real
def test_one_cable_less_is_told_by_the_best_of_the_engines():
    plan = left_out(SMALL, 0)
    found = prove(plan, "", made(plan))
    assert found.trials
    assert {one.engine for one in found.trials} == set(ENGINES)
