"""What `ibnetdiscover` prints, with every quirk of it; the captures are written after ibnetdiscover.c, with names of nobody."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, ROUTER, SWITCH, Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_optimised,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
)

CAPTURES = Path(__file__).parent / "captures"
LEAF = "fc6a1c0300d00100"
PLAIN = (CAPTURES / "plain.txt").read_text().split("\n")
DESCRIPTION = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=64)


def read(name: str) -> Discovery:
    return parse((CAPTURES / name).read_text().split("\n"))


def test_every_line_of_the_plain_form_is_read():
    found = read("plain.txt")
    assert (found.unread, found.troubles, found.twice) == ([], [], {})
    assert found.origin == "b83fd20300a10001"
    kinds = [node.kind for node in found.nodes.values()]
    assert (kinds.count(SWITCH), kinds.count(CA), kinds.count(ROUTER)) == (3, 9, 1)
    leaf = found.nodes[LEAF]
    assert (leaf.ports, leaf.lid, leaf.system, leaf.description) == (65, 73, LEAF, "MF0;leaf-a01:MQM9700/U1")
    assert sorted(leaf.cables) == [1, 2, 3, 4, 5, 6, 7, 33, 34, 64, 65]


@pytest.mark.parametrize(
    ("port", "description", "width", "speed", "kind", "port_guid"),
    [
        (1, "gpu001 mlx5_0", "4x", "NDR", CA, "b83fd20300a10001"),
        (2, "MT4129 ConnectX7   Mellanox Technologies", "4x", "NDR", CA, "b83fd20300a10002"),
        (3, "gpu003.example.com HCA-1", "1x", "EDR", CA, "b83fd20300a10003"),
        (4, "localhost HCA-1", "4x", "???", CA, "b83fd20300a10004"),
        (5, 'o\'brien "the #1" lid 5 4xHDR', "2x", "NDR", CA, "b83fd20300a10005"),
        (6, "oss1 mlx5_0", "??", "???", CA, "9c0591030000ab02"),
        (7, "", "4x", "FDR10", CA, "000000000000001f"),
        (34, "MF0;spine-1:MQM9700/U2", "4x", "XDR", SWITCH, ""),
        (64, "router #2", "12x", "HDR", ROUTER, "0011750000aa0002"),
        (65, "Mellanox Technologies Aggregation Node", "4x", "NDR", CA, "fc6a1c0300d00108"),
    ],
)
def test_port_of_a_switch(port: int, description: str, width: str, speed: str, kind: str, port_guid: str):
    cable = read("plain.txt").nodes[LEAF].cables[port]
    assert (cable.description, cable.width, cable.speed) == (description, width, speed)
    assert (cable.kind, cable.port_guid) == (kind, port_guid)


def test_hcas_without_a_switch_between_them_and_second_ports():
    oss1 = read("plain.txt").nodes["9c0591030000ab01"]
    assert oss1.far() == {1: ("9c0591030000cd01", 1), 2: (LEAF, 6)}
    assert oss1.port_guids == {1: "9c0591030000ab01", 2: "9c0591030000ab02"}
    assert oss1.cables[1].port_guid == "9c0591030000cd01"


def test_chassis_are_told_twice_and_are_no_doubles():
    found = read("grouped.txt")
    assert (found.unread, found.twice, found.twins) == ([], {}, [])
    assert len(found.nodes) == 5
    line = found.nodes["fc6a1c0300e00200"]
    assert line.far() == {
        5: ("b83fd20300a10001", 1),
        6: ("fc6a1c0300e00300", 7),
        7: ("b83fd20300a10002", 1),
        21: ("fc6a1c0300e00100", 1),
    }
    assert found.nodes["b83fd20300a10002"].description == "gpu002 mlx5_0"


def test_two_nodes_of_one_guid_are_kept_both():
    text = (CAPTURES / "plain.txt").read_text()
    text += 'Ca\t1 "H-b83fd20300a10001"\t\t# "gpu009 mlx5_0"\n'
    found = parse(text.split("\n"))
    number = text.count("\n")
    assert found.twice == {"b83fd20300a10001": [43, number]}
    assert [node.description for node in found.twins] == ["gpu009 mlx5_0"]
    assert found.nodes["b83fd20300a10001"].description == "gpu001 mlx5_0"


def test_node_that_is_told_twice_with_another_rate_is_not_told_twice_alike():
    text = (CAPTURES / "grouped.txt").read_text()
    lines = text.split("\n")
    again = [number for number, line in enumerate(lines) if '"gpu001 mlx5_0" lid' in line][-1]
    lines[again] = lines[again].replace("4xHDR", "1xHDR")
    found = parse(lines)
    rates = [cable.width for node in (*found.nodes.values(), *found.twins) for cable in node.cables.values()]
    assert "1x" in rates


@pytest.mark.parametrize("cut", range(1, 4200, 97))
def test_nothing_of_a_cut_off_output_is_dropped_in_silence(cut: int):
    text = (CAPTURES / "plain.txt").read_text()[:cut]
    found = parse(text.split("\n"))
    last = text.split("\n")[-1]
    assert [line for _, line in found.unread] in ([], [last])
    ports = sum(line.startswith("[") for line in text.split("\n"))
    unread_ports = sum(line.startswith("[") for _, line in found.unread)
    assert sum(len(node.cables) for node in found.nodes.values()) == ports - unread_ports


def test_complaints_on_stderr_are_kept_apart():
    lines = [
        "ibwarn: [4711] mad_rpc: _do_madrpc failed; dport (DR path slid 0; dlid 0; 0,1,33)",
        "src/query_smp.c:196; umad (DR path slid 0; dlid 0; 0,1,33 Attr 0x11:0) bad status 110; Connection timed out",
        *(CAPTURES / "plain.txt").read_text().split("\n"),
    ]
    found = parse(lines)
    assert [number for number, _ in found.troubles] == [1, 2]
    assert found.unread == []


@pytest.mark.parametrize(
    "line",
    [
        '[1]\t"S-fc6a1c0300d00200"[1]\t\t# "x" lid 74',
        "CA  21  1 0x0002c9 4x HDR - SW  20  4 0x0002c9 ( 'a' - 'b' )",
        'Ca\t1 "H-1"\t\t# "gpu1 mlx5_0" base port 0',
        'Switch\t40 "S-2"\t\t# "leaf" lid 4',
        "nonsense",
    ],
)
def test_what_fits_no_form_is_kept_with_its_number(line: str):
    assert parse(["", line, ""]).unread == [(2, line)]


def test_port_that_is_told_twice_is_not_taken_twice():
    lines = ['Switch\t40 "S-2"\t\t# "leaf" base port 0 lid 4 lmc 0', *['[1]\t"S-3"[1]\t\t# "x" lid 5 4xHDR'] * 2]
    found = parse(lines)
    assert found.unread == [(3, lines[2])]
    assert list(found.nodes["0000000000000002"].cables) == [1]


@given(DESCRIPTION, DESCRIPTION, st.booleans())
@settings(max_examples=80, deadline=None)
def test_any_description_comes_back(one: str, other: str, full: bool):
    plan = rail_optimised([WiredHost("g1", [WiredNic("mlx5_0", 0)])], FabricShape(spines=["s"], uplinks=1, speed="HDR"))
    discovery = discovery_of(plan)
    for node in discovery.nodes.values():
        node.description = one if node.kind == SWITCH else other
        for cable in node.cables.values():
            cable.description = one if cable.kind == SWITCH else other
    found = parse(ibnetdiscover_text(discovery, full=full).split("\n"))
    assert found.unread == []
    for node in found.nodes.values():
        node.line = 0
    assert found.nodes == discovery.nodes


@given(st.lists(st.one_of(st.text(max_size=40), st.sampled_from(PLAIN)), max_size=30))
@settings(max_examples=80, deadline=None)
def test_no_text_makes_it_fail_and_no_line_is_lost(lines: list[str]):
    found = parse(lines)
    kept = {number for number, _ in (*found.unread, *found.troubles)}
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#") and line not in PLAIN:
            assert number in kept


def test_port_below_no_node_is_not_read():
    port = '[1]\t"S-3"[1]\t\t# "x" lid 5 4xHDR'
    header = 'Switch\t40 "S-2"\t\t# "leaf" base port 0 lid 4 lmc 0'
    found = parse([port, header, "", port, header + " and more", port])
    assert [number for number, _ in found.unread] == [1, 4, 5, 6]
    # Without blank lines, as in a file that a tool has tidied up, the lines before a node end the one above it.
    found = parse([header, "vendid=0x2c9", header + " and more", port])
    assert [number for number, _ in found.unread] == [3, 4]


@pytest.mark.simulation
def test_4096_hcas_are_read_in_a_moment():
    nics = [WiredNic(f"mlx5_{n}", n) for n in range(8)]
    hosts = [WiredHost(f"gpu{n:04}", nics, unit=f"su{n // 32}") for n in range(512)]
    plan = rail_optimised(hosts, FabricShape(ports=256, uplinks=32, speed="HDR", spines=[f"s{n}" for n in range(16)]))
    lines = ibnetdiscover_text(discovery_of(plan)).split("\n")
    start = time.process_time()
    found = parse(lines)
    # 0.1 to 0.2 s on two cores; 16,384 HCAs take about 0.8 s.
    assert time.process_time() - start < 1.5
    assert len(found.nodes) == 4096 + 128 + 16
