"""Routes that OpenSM made for small fabrics (data/opensm, dumped by 3.3.23 on ibsim), and tables made by hand with known answers."""

from __future__ import annotations

import random

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.opensm_dumps import (
    RoutedNode,
    Subnet,
    ca_order,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.route_quality import (
    Metrics,
    Shift,
    broken,
    leaf_order,
    measure,
    uneven,
)
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.test_opensm_dumps import DATA, dumped


def judged(found: Metrics, *, oversubscription: float = 1) -> list[str]:
    return [*uneven(found, tiers=2, oversubscription=oversubscription, order="leaf"), *broken(found, found.loop)]


def built(leaves: int, spines: int, hosts: int, up: object = None) -> Subnet:
    """A tree: leaf L has LIDs and ports 1..hosts of its HCAs, then a port for each spine; `up(leaf, LID)` chooses a spine."""
    subnet = Subnet()
    choose = up if callable(up) else lambda _leaf, lid: lid % spines
    first = leaves * hosts
    for leaf in range(leaves):
        subnet.nodes[first + leaf] = RoutedNode(f"leaf{leaf}", f"{first + leaf:016x}", first + leaf, True, 64)
        for port in range(1, hosts + 1):
            lid = leaf * hosts + port - 1 or 9999
            subnet.nodes[lid] = RoutedNode(f"g{leaf}-{port}", f"{lid:016x}", lid, False)
            subnet.cables[lid, 1], subnet.cables[first + leaf, port] = (first + leaf, port), (lid, 1)
    for spine in range(spines):
        lid = first + leaves + spine
        subnet.nodes[lid] = RoutedNode(f"spine{spine}", f"{lid:016x}", lid, True, 64)
        for leaf in range(leaves):
            one, other = (first + leaf, hosts + spine + 1), (lid, leaf + 1)
            subnet.cables[one], subnet.cables[other] = other, one
    for leaf in range(leaves):
        table = subnet.tables.setdefault(first + leaf, {})
        for target in range(leaves):
            for port in range(1, hosts + 1):
                lid = target * hosts + port - 1 or 9999
                table[lid] = port if target == leaf else hosts + choose(leaf, lid) + 1
    for spine in range(spines):
        subnet.tables[first + leaves + spine] = {
            target * hosts + port - 1 or 9999: target + 1 for target in range(leaves) for port in range(1, hosts + 1)
        }
    return subnet


@pytest.mark.parametrize("tables", ["opensm.fdbs", "opensm-lfts.dump"])
def test_ftree_on_a_whole_tree_is_perfect(tables: str):
    subnet = dumped("two", tables)
    order = ca_order((DATA / "two/opensm-ftree-ca-order.dump").read_text())
    found = measure(subnet, orders={"ca": order})
    assert (found.hcas, found.switches, found.links) == (8, 6, 16)
    assert (found.unreachable, found.imbalance, found.idle, found.loop) == (0, 1.0, [], [])
    assert {name: one.worst for name, one in found.shifts.items()} == {"leaf": 1, "ca": 1}
    assert judged(found) == []


def test_half_of_the_roots_doubles_the_load_and_logs_nothing():
    """One of two spines carries all: 12 flows on each of 8 links and none on 8; from the shift by 2 on two HCAs of a leaf share a link."""
    found = measure(dumped("half"))
    assert found.imbalance == 2.0
    assert len(found.idle) == 8
    assert all("s1" in name for name in found.idle)
    assert set(found.loads.values()) == {0, 12}
    assert (found.shifts["leaf"].worst, found.shifts["leaf"].by) == (2, 2)
    check_messages("routes: half of the roots", judged(found))
    assert judged(found, oversubscription=2)[2:] == []


def test_leaves_as_roots_cut_leaves_off():
    found = measure(dumped("cut"))
    # 8 HCAs, each without the 6 of other leaves.
    assert found.unreachable == 48
    assert len(found.idle) == 16
    check_messages("routes: leaves as roots", judged(found))


def test_credit_loop_of_a_dragonfly_is_a_circle_of_cables():
    found = measure(dumped("dfly"))
    assert len(found.loop) == 4
    ends = [name.split(" to ") for name in found.loop]
    for (_one, to), (start, _other) in zip(ends, ends[1:] + ends[:1], strict=True):
        assert to.split()[0] == start.split()[0]
    check_messages("routes: a credit loop", judged(found)[-1:])


def test_all_ways_over_one_spine_by_hand():
    """3 leaves of 4, 4 spines, all over spine 2: 3 * 8 flows up, as many down, over 6 of 24 links."""
    found = measure(built(3, 4, 4, lambda _leaf, _lid: 2))
    assert found.imbalance == 4.0
    assert sorted(set(found.loads.values())) == [0, 32]
    assert len(found.idle) == 24 - 6
    assert found.shifts["leaf"] == Shift(4, found.shifts["leaf"].link, 4)


def brute_force(subnet: Subnet, order: list[int | None]) -> list[dict[str, int]]:
    """Return for each shift, from that by 1 on, the flows of each link."""
    leaf_of = {lid: far[0] for (lid, _port), far in subnet.cables.items() if not subnet.nodes[lid].is_switch}
    shifts = []
    for by in range(1, len(order)):
        flows: dict[str, int] = {}
        for at, source in enumerate(order):
            target = order[(at + by) % len(order)]
            if source is None or target is None:
                continue
            lid = leaf_of[source]
            while subnet.cables[end := (lid, subnet.tables[lid][target])][0] != target:
                link = f"{subnet.describe(*end)} to {subnet.describe(*subnet.cables[end])}"
                flows[link] = flows.get(link, 0) + 1
                lid = subnet.cables[end][0]
        shifts.append(flows)
    return shifts


@pytest.mark.parametrize("seed", range(6))
def test_shifts_are_those_of_every_pair_walked(seed: int):
    dice = random.Random(seed)
    subnet = built(4, 3, 5, lambda _leaf, _lid: dice.randrange(3))
    order = [*leaf_order(subnet), None, None]
    if seed % 2:
        dice.shuffle(order)
    found = measure(subnet, orders={"other": order}).shifts["other"]
    shifts = brute_force(subnet, order)
    assert found.worst == max(max(flows.values(), default=0) for flows in shifts)
    assert shifts[found.by - 1][found.link] == found.worst


def test_only_hcas_that_count_are_counted():
    subnet = built(2, 2, 2)
    found = measure(subnet, counted={"g0-1", "g1-1"})
    assert found.hcas == 2
    # One flow in each direction, up and down.
    assert sorted(found.loads.values()) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_dead_end_wrong_port_and_circle_are_unreachable():
    subnet = built(2, 2, 2)
    # leaf0 has LID 4, leaf1 5, spines 6 and 7; g1-1 is LID 2 on port 1 of leaf 1.
    subnet.tables[6].pop(2)
    found = measure(subnet)
    assert (found.unreachable, len(found.examples)) == (2, 1)
    check_messages("routes: a dead end", found.examples)
    subnet.tables[6][2] = 1
    check_messages("routes: a circle", measure(subnet).examples)
    subnet.tables[6][2], subnet.tables[5][2] = 2, 2
    found = measure(subnet)
    assert found.unreachable == 2 + 1
    check_messages("routes: a wrong port", found.examples)
