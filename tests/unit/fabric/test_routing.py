"""Routes that OpenSM made for small fabrics (data/opensm, dumped by 3.3.23 on ibsim), and tables made by hand with known answers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.dumps import (
    DumpError,
    Node,
    Subnet,
    ca_order,
    order_of,
    read,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.loops import find_loop
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.routing import Shift, judge, leaf_order, measure

DATA = Path(__file__).parent / "data/opensm"


def dumped(name: str, tables: str = "opensm.fdbs") -> Subnet:
    return read((DATA / name / "opensm-subnet.lst").read_text(), (DATA / name / tables).read_text())


def built(leaves: int, spines: int, hosts: int, up: object = None) -> Subnet:
    """A tree: leaf L has LIDs and ports 1..hosts of its HCAs, then a port for each spine; `up(leaf, LID)` chooses a spine."""
    subnet = Subnet()
    choose = up if callable(up) else lambda _leaf, lid: lid % spines
    first = leaves * hosts
    for leaf in range(leaves):
        subnet.nodes[first + leaf] = Node(f"leaf{leaf}", f"{first + leaf:016x}", first + leaf, True, 64)
        for port in range(1, hosts + 1):
            lid = leaf * hosts + port - 1 or 9999
            subnet.nodes[lid] = Node(f"g{leaf}-{port}", f"{lid:016x}", lid, False)
            subnet.cables[lid, 1], subnet.cables[first + leaf, port] = (first + leaf, port), (lid, 1)
    for spine in range(spines):
        lid = first + leaves + spine
        subnet.nodes[lid] = Node(f"spine{spine}", f"{lid:016x}", lid, True, 64)
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
    assert {name: (one.worst, one.mean, one.above_one) for name, one in found.shifts.items()} == {
        "leaf": (1, 1.0, 0),
        "ca": (1, 1.0, 0),
    }
    assert judge(found, tiers=2) == []


def test_half_of_the_roots_doubles_the_load_and_logs_nothing():
    """One of two spines carries all: 12 flows on each of 8 links and none on 8; two HCAs of a leaf share a link in all shifts but two.

    In shifts by 1 and 7 only one HCA of each leaf leaves it.
    """
    found = measure(dumped("half"))
    assert found.imbalance == 2.0
    assert len(found.idle) == 8
    assert all("s1" in name for name in found.idle)
    assert set(found.loads.values()) == {0, 12}
    assert (found.shifts["leaf"].worst, found.shifts["leaf"].above_one) == (2, 5)
    assert found.shifts["leaf"].mean == pytest.approx(12 / 7)
    text = "\n".join(judge(found, tiers=2))
    assert "8 of 16 directed links carry nothing: " in text
    assert "the busiest link has 2.00 times the mean load, and at most 1.01 is allowed: " in text
    assert "puts 2 flows on one link, and 1 would do: " in text
    assert judge(found, tiers=2, oversubscription=2)[2:] == []


def test_leaves_as_roots_cut_leaves_off():
    found = measure(dumped("cut"))
    # 8 HCAs, each without the 6 of other leaves.
    assert found.unreachable == 48
    assert len(found.idle) == 16
    assert found.examples[0].endswith(" to g0 mlx5_0 on leaf-r0: no way on at leaf-r2")
    assert "48 pairs of HCAs cannot reach each other: from leaf-r2 to g0 mlx5_0" in judge(found, tiers=2)[0]


def test_credit_loop_of_a_dragonfly_is_a_circle_of_cables():
    found = measure(dumped("dfly"))
    assert len(found.loop) == 4
    ends = [name.split(" to ") for name in found.loop]
    for (_one, to), (start, _other) in zip(ends, ends[1:] + ends[:1], strict=True):
        assert to.split()[0] == start.split()[0]
    assert "in a circle, so packets can block for ever" in judge(found, tiers=2)[-1]


def test_all_ways_over_one_spine_by_hand():
    """3 leaves of 4, 4 spines, all over spine 2: 3 * 8 flows up, as many down, over 6 of 24 links."""
    found = measure(built(3, 4, 4, lambda _leaf, _lid: 2))
    assert found.imbalance == 4.0
    assert sorted(set(found.loads.values())) == [0, 32]
    assert len(found.idle) == 24 - 6
    assert found.shifts["leaf"] == Shift(
        4, pytest.approx((2 * (1 + 2 + 3) + 5 * 4) / 11), 9, found.shifts["leaf"].link, 4
    )


def brute_force(subnet: Subnet, order: list[int | None]) -> tuple[int, float, int]:
    leaf_of = {lid: far[0] for (lid, _port), far in subnet.cables.items() if not subnet.nodes[lid].is_switch}
    worst = []
    for by in range(1, len(order)):
        flows: dict[tuple[int, int], int] = {}
        for at, source in enumerate(order):
            target = order[(at + by) % len(order)]
            if source is None or target is None:
                continue
            lid = leaf_of[source]
            while subnet.cables[end := (lid, subnet.tables[lid][target])][0] != target:
                flows[end] = flows.get(end, 0) + 1
                lid = subnet.cables[end][0]
        worst.append(max(flows.values(), default=0))
    return max(worst), sum(worst) / len(worst), sum(value > 1 for value in worst)


@pytest.mark.parametrize("seed", range(6))
def test_shifts_are_those_of_every_pair_walked(seed: int):
    dice = random.Random(seed)
    subnet = built(4, 3, 5, lambda _leaf, _lid: dice.randrange(3))
    order = [*leaf_order(subnet), None, None]
    if seed % 2:
        dice.shuffle(order)
    found = measure(subnet, orders={"other": order}).shifts["other"]
    worst, mean, above = brute_force(subnet, order)
    assert (found.worst, found.above_one) == (worst, above)
    assert found.mean == pytest.approx(mean)


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
    assert (found.unreachable, found.examples) == (2, ["from leaf0 to g1-1 on leaf1: no way on at spine0"])
    subnet.tables[6][2] = 1
    assert measure(subnet).examples == ["from leaf0 to g1-1 on leaf1: the way goes in a circle at spine0"]
    subnet.tables[6][2], subnet.tables[5][2] = 2, 2
    found = measure(subnet)
    assert found.unreachable == 2 + 1
    assert "from leaf1 to g1-1 on leaf1: no way on at leaf1" in found.examples


def test_loops():
    assert find_loop([]) == []
    assert find_loop([[1, 2], [3], [3], []]) == []
    assert find_loop([[1], [2], [1]]) == [1, 2]
    assert find_loop([[0]]) == [0]
    # Deeper than Python's stack.
    assert find_loop([[n + 1] for n in range(5000)] + [[]]) == []
    assert len(find_loop([[n + 1] for n in range(4999)] + [[0]])) == 5000


def test_order_by_names_of_a_plan():
    subnet = dumped("two")
    assert order_of(subnet, ["g1 mlx5_0", "gone mlx5_0", "g0 mlx5_0"]) == [0xB, None, 1]


END = "SystemGUID:1 NodeGUID:{0} PortGUID:{0} VenID:0 DevID:0 Rev:0 {{{1}}} LID:{2} PN:{3} }}"
ODD = (
    "{ CA Ports:01 " + END.format("a" * 16, "g } { LID:1 {x", "0001", "01") + " { SW Ports:41 "
    + END.format("b" * 16, "MF0;s{1}:MQM9700/U1", "0002", "1F") + " PHY=4x LOG=ACT SPD=50\n"
)  # fmt: skip
TABLE = f"dump_ucast_routes: Switch 0x{'b' * 16}\nLID    : Port : Hops : Optimal\n0x0001 : 031  : 01   : yes\n"


def test_names_with_braces_and_ports_in_hexadecimal():
    subnet = read(ODD, TABLE)
    assert subnet.nodes[1].name == "g } { LID:1 {x"
    assert subnet.nodes[2] == Node("MF0;s{1}:MQM9700/U1", "b" * 16, 2, True, 65)
    assert subnet.cables == {(1, 1): (2, 31), (2, 31): (1, 1)}
    assert subnet.tables == {2: {1: 31}}
    assert measure(subnet).unreachable == 0


@pytest.mark.parametrize(
    ("subnet", "tables", "message"),
    [
        ("", TABLE, "has no cable: OpenSM found nothing, or had not ended"),
        (ODD + ODD[:70], TABLE, "line 2 is no cable, so the file is cut short"),
        (ODD + ODD.replace("a" * 16, "c" * 16), TABLE, "line 2: LID 1 is .* it is of two runs"),
        (ODD, "", "no forwarding tables"),
        (ODD, "SUBNET UP", "no forwarding tables: .*'SUBNET UP'"),
        (ODD, TABLE.replace("b" * 16, "d" * 16), "switch d{16} is not in opensm-subnet.lst"),
        (ODD, TABLE + "0x0002 : 0", "line 4 names no port"),
        (ODD, TABLE + "0x0002 : ²²²", "line 4 names no port"),
        (ODD, TABLE + "0x00g2 : 001", "line 4 names no LID"),
        (ODD.replace("Ports:01", "Ports:0yes"), TABLE, "line 1 is no cable"),
        (ODD.replace("PN:01", "PN:Switch"), TABLE, "line 1 is no cable"),
        (ODD + ODD.replace("PN:01", "PN:02"), TABLE, "line 2: a second cable at MF0;.* port 31"),
        (ODD.replace("CA Ports", "SW Ports"), TABLE, "none of g } .*cut short"),
    ],
)
def test_dumps_that_are_no_whole_dumps(subnet: str, tables: str, message: str):
    with pytest.raises(DumpError, match=message):
        read(subnet, tables)


def test_port_255_is_no_port():
    assert read(ODD, TABLE.replace("031", "255")).tables == {2: {}}


@pytest.mark.parametrize("line", ["0x0007 : 000  : 00   : yes", "Name\tgpu1", "0xFFFF0\tDUMMY"])
def test_order_that_is_no_order(line: str):
    text = f"0x0001\tgpu1 mlx5_0\n{line}\n"
    with pytest.raises(DumpError, match=r"ca-order\.dump: line 2 names no LID"):
        ca_order(text)
