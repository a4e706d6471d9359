"""What is allowed of routes: on a regular plan nothing but the limits; on others what their cables make necessary, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.ideal_routes import Ideal
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.route_quality import Metrics, Shift
from tests.unit.fabric.cases import CASES
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.gate import SMALL, left_out, tiers

REGULAR = ("rail_full", "rail_only_spines", "oversubscribed", "nvlink_racks", "one_leaf", "two_fabrics")


def loaded(plan: Plan, load: int, odd: dict[str, int] | None = None) -> Metrics:
    """All links between switches with one load each way, but odd ones."""
    loads = {}
    for link in plan.links:
        if link.kind != "host" and not link.missing:
            ends = (f"{link.a} port {link.a_port}", f"{link.b} port {link.b_port}")
            loads |= {" to ".join(ends): load, " to ".join(ends[::-1]): load}
    loads |= odd or {}
    mean = sum(loads.values()) / len(loads)
    most = max(loads, key=loads.__getitem__)
    idle = [name for name, one in loads.items() if not one]
    return Metrics(16, 8, len(loads), 0, [], loads[most] / mean, most, idle, {"leaf": Shift(1)}, [], loads)


@pytest.mark.parametrize("name", REGULAR)
def test_a_regular_plan_has_no_allowances(name: str):
    plan = CASES[name].plan()
    assert [Ideal(plan, plane).irregular() for plane in plan.planes] == [[]] * len(plan.planes)


def test_pods_enough_leave_the_limit_of_three_tiers_as_it_is():
    assert Ideal(tiers(4, 2, 4, 4), "").irregular() == []
    assert Ideal(tiers(3, 1, 4, 4), "").irregular() == []


@pytest.mark.parametrize(("load", "count"), [(12, 0), (13, 1), (0, 2)])
def test_on_a_regular_plan_a_link_that_is_heavy_or_idle_is_told(load: int, count: int):
    wrong = Ideal(SMALL, "").judged(loaded(SMALL, 12, {"leaf-u0-r0 port 61 to s1 port 1": load}))
    assert len(wrong) == count
    if wrong:
        check_messages(f"routes: one of 32 links carries {load}, and the others 12", wrong)


def test_on_a_regular_plan_a_shift_may_be_the_oversubscription_and_no_more():
    metrics = loaded(SMALL, 12)
    metrics.shifts["leaf"] = Shift(2, "a link", 4)
    check_messages("routes: a shift", Ideal(SMALL, "").judged(metrics))
    assert Ideal(replace(SMALL, oversubscription=2), "").judged(metrics) == []


def test_what_the_plan_leaves_out_allows_one_flow_more_for_each_hca_that_it_moves():
    plan = left_out(SMALL, 0)
    metrics = loaded(plan, 12, {"leaf-u0-r0 port 62 to s2 port 1": 24})
    for worst, fine in ((2, True), (3, False)):
        metrics.shifts["leaf"] = Shift(worst)
        assert (Ideal(plan, "").judged(metrics) == []) is fine
    # A link of another leaf: a way to each of 12 HCAs for each of its 4, and the one that is moved.
    assert Ideal(plan, "").excess({"leaf-u1-r0 port 61 to s1 port 3": 4 * (3 + 1)}) == ([], [])
    assert Ideal(plan, "").excess({"leaf-u1-r0 port 61 to s1 port 3": 4 * (3 + 1) + 1})[0]


@pytest.mark.parametrize(("load", "count"), [(16, 0), (17, 1), (0, 1)])
def test_on_an_irregular_plan_a_link_that_is_heavy_or_idle_without_need_is_told(load: int, count: int):
    metrics = loaded(left_out(SMALL, 0), 12, {"leaf-u1-r0 port 61 to s1 port 3": load})
    wrong = Ideal(left_out(SMALL, 0), "").judged(metrics)
    assert len(wrong) == count
    if wrong:
        check_messages(f"routes: one of 30 links carries {load}, and the others 12", wrong)


def test_a_link_is_idle_where_the_plan_leaves_out_an_hca_of_its_leaf_also_beside_an_uplink_that_is_left_out():
    plan = left_out(SMALL, 0)
    hca = next(link for link in plan.links if link.kind == "host" and link.b == "leaf-u0-r0")
    both = replace(plan, links=[replace(link, missing=link.missing or link is hca) for link in plan.links])
    down, up = "s4 port 1 to leaf-u0-r0 port 64", "leaf-u0-r0 port 64 to s4 port 1"
    assert Ideal(both, "").judged(loaded(both, 12, {down: 0})) == []
    # Three HCAs want three links, and all other leaves have as many as ever.
    for wanted in ({down: 0, "s3 port 1 to leaf-u0-r0 port 63": 0}, {up: 0}, {"s4 port 2 to leaf-u0-r1 port 64": 0}):
        assert Ideal(both, "").judged(loaded(both, 12, wanted))
    # Without one of the two it is red.
    assert Ideal(plan, "").judged(loaded(plan, 12, {down: 0}))


def test_below_cores_a_way_that_is_moved_may_leave_one_link_idle_and_moves_twice():
    plan = left_out(tiers(4, 2, 4, 4), -1)
    first, second = "l0 port 13 to s0 port 1", "l1 port 13 to s0 port 2"
    assert Ideal(plan, "").judged(loaded(plan, 12, {first: 0})) == []
    assert Ideal(plan, "").judged(loaded(plan, 12, {first: 0, second: 0}))
    metrics = loaded(plan, 12)
    for worst, fine in ((3, True), (4, False)):
        metrics.shifts["leaf"] = Shift(worst)
        assert (Ideal(plan, "").judged(metrics) == []) is fine


@pytest.mark.parametrize(
    "name",
    ["rail_partial", "compute_storage", "three_level", "mixed_depth", "cores_by_rail", "names", "dragonfly"],
)
def test_why_no_engine_can_load_all_links_alike(name: str):
    reasons = Ideal(CASES[name].plan(), "").irregular()
    assert len(reasons) == 1
    check_messages(f"irregular: {name}", reasons)


def test_uneven_cables_are_named():
    links = [replace(link, b="s1") if (link.a, link.b) == ("leaf-u0-r0", "s2") else link for link in SMALL.links]
    check_messages("irregular: uneven cables", Ideal(replace(SMALL, links=links), "").irregular())


@pytest.mark.parametrize("out", [(0,), (0, 1), (0, 5)])
def test_cables_that_are_left_out_are_named(out: tuple[int, ...]):
    reasons = Ideal(left_out(SMALL, *out), "").irregular()
    assert len(reasons) >= 1
    check_messages(f"irregular: uplinks {out} left out", reasons)


def test_leaves_with_too_few_uplinks_are_named():
    links = [link for link in SMALL.links if (link.a, link.b) not in {("leaf-u0-r0", "s3"), ("leaf-u0-r0", "s4")}]
    check_messages("irregular: too few uplinks", Ideal(replace(SMALL, links=links), "").short())
