"""The least load of the busiest link that cables allow, and why links cannot all carry the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.ideal_routes import Ideal
from tests.unit.fabric.cases import CASES
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.gate import SMALL, left_out, tiers

REGULAR = ("rail_full", "rail_only_spines", "oversubscribed", "nvlink_racks", "one_leaf", "two_fabrics")
# By hand: HCAs of a part, times all others, over the cables out of it.
BOUNDS: dict[str, tuple[Callable[[], Plan], int]] = {
    "a leaf sends to 12 others over 4 cables, 3 flows of each of its 4 HCAs": (lambda: SMALL, 12),
    "over 3 cables one has 4 of the 12 others": (lambda: left_out(SMALL, 0), 16),
    "over 2 cables each has 6": (lambda: left_out(SMALL, 0, 1), 24),
    "120 others over 8 cables": (lambda: tiers(4, 4, 8, 16), 120),
    "two flows to an uplink, of 8 others": (CASES["oversubscribed"].plan, 16),
    "a group of 4 sends to 8 over 2 global cables": (CASES["dragonfly"].plan, 16),
    "nothing goes up": (CASES["one_leaf"].plan, 0),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_no_routes_can_load_the_busiest_link_less(name: str):
    make, flows = BOUNDS[name]
    assert Ideal(make(), "").bound() == flows


def test_a_pod_with_fewer_cables_to_the_cores_bounds_the_load():
    plan = tiers(4, 2, 4, 4)
    first = {"s0", "s1", "s2", "s3"}
    ups = [number for number, link in enumerate(plan.links) if link.kind == "spine-core" and link.a in first]
    # Half of the 8 cables of the first pod, which has 8 of 32 HCAs: 8 times 24 flows over 4 cables.
    out = set(ups[::2])
    cut = replace(plan, links=[replace(link, missing=n in out) for n, link in enumerate(plan.links)])
    assert (Ideal(plan, "").bound(), Ideal(cut, "").bound()) == (28, 48)


@pytest.mark.parametrize("name", REGULAR)
def test_a_regular_plan_has_no_allowances(name: str):
    plan = CASES[name].plan()
    assert [Ideal(plan, plane).irregular() for plane in plan.planes] == [[]] * len(plan.planes)


def test_pods_enough_leave_the_limit_of_three_tiers_as_it_is():
    assert Ideal(tiers(4, 2, 4, 4), "").irregular() == []
    assert Ideal(tiers(3, 1, 4, 4), "").irregular() == []


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
