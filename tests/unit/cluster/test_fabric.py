"""What the cluster file says of the fabric, read: leaves, NICs of hosts, ports, InfiniBand's partitions, NVLink domains."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import HostNic, Tenant
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

HOST = "    address: 10.0.0.10\n"


@pytest.mark.parametrize(
    ("leaf", "leaves"),
    [
        ("su1", ["su1"] * 4),
        ("su[1-2]", ["su1", "su1", "su2", "su2"]),
        ("su[1-4]", ["su1", "su2", "su3", "su4"]),
    ],
)
def test_racks_are_split_evenly_over_leaves(bench, leaf: str, leaves: list[str]):
    racks = ("  b[1-2]:\n    nodes: cpu[01-04]\n", f"  b[1-4]:\n    nodes: cpu[01-04]\n    leaf: {leaf}\n")
    cluster = bench.load(racks)
    assert [cluster.racks[f"b{number}"].leaf for number in range(1, 5)] == leaves


def test_a_nic_of_a_host_says_where_it_plugs_in_or_nothing(bench):
    nics = "[{name: mlx5_0}, {name: mlx5_1, rail: 1, purpose: storage, leaf: leaf-r1, port: 9}]"
    cluster = bench.load((HOST, f"{HOST}    nics: {nics}\n"))
    assert cluster.hosts["ctl1"].nics == (
        HostNic("mlx5_0", None, "management", None, None),
        HostNic("mlx5_1", 1, "storage", "leaf-r1", 9),
    )


def test_ports_are_hostlists(bench):
    fabric = bench.load(
        ("  rails: 2", "  rails: 2\n  missing: 'leaf-r1:3'\n  spare: ['s1:1', 'leaf-a[1-2]:[63-64]']")
    ).fabric
    assert fabric.missing == ((0, "leaf-r1", 3),)
    assert fabric.spare == (
        (0, "s1", 1), (1, "leaf-a1", 63), (1, "leaf-a1", 64), (1, "leaf-a2", 63), (1, "leaf-a2", 64),
    )  # fmt: skip


def test_mistakes_of_where_switches_stand_come_out_together_with_their_lines(bench):
    racks = """  rails: 2
  switch_racks:
    spine1: r1
    spine[1-2]: r1
    leaf[1-3]: "r[1-2]"
    leaf[4-5]: q[1-2]
    "lea/f": r1
"""
    error = bench.error(("  rails: 2\n", racks), ("  r1:\n", "  r2: {}\n  r1:\n"))
    values = {
        "spine[1-2]": ["spine1 "],
        "leaf[1-3]": ["3 switches", "2 racks"],
        "leaf[4-5]": ["rack 'q1'", "r2, r1, b1, b2", "`q1: {}`"],
        "lea/f": ["'lea/f'"],
    }
    assert [one.where.removeprefix("fabric.switch_racks.") for one in error.mistakes] == list(values)
    for one, row in zip(error.mistakes, values.values(), strict=True):
        assert [value for value in row if value not in one.message] == []
    sentences.check(SENTENCES, "where switches stand", [one.message for one in error.mistakes])
    lines = bench.path.read_text().split("\n")
    assert [lines[one.line - 1].strip()[:4] for one in error.mistakes] == ["spin", "leaf", "leaf", '"lea']


def test_racks_of_switches_are_not_told_of_where_racks_cannot_be_read(bench):
    error = bench.error(("  rails: 2\n", "  rails: 2\n  switch_racks: {spine1: q1}\n"), ("  r1:\n", "  r[1:\n"))
    assert not [one for one in error.mistakes if "switch_racks" in one.where]


def test_members_of_a_partition_are_who_has_adapters(bench):
    tenants = """  rails: 2
  partitions:
    every: {pkey: 0x7ffe, members: all, membership: limited}
    red:
      pkey: 16
      ipoib: false
      members: ["partition:gpu", {nodes: ctl1, membership: both}]
    blue: {pkey: 0x0011, members: {nodes: "gpu[03-04]", membership: limited}}
"""
    cluster = bench.load((HOST, f"{HOST}    nics: {{name: mlx5_0}}\n"), ("  rails: 2\n", tenants))
    gpus = [f"gpu0{number}" for number in range(1, 5)]
    assert cluster.fabric.partitions == (
        Tenant("every", 0x7FFE, dict.fromkeys(gpus, "limited"), True),
        Tenant("red", 0x10, {**dict.fromkeys(gpus, "full"), "ctl1": "both"}, False),
        Tenant("blue", 0x11, dict.fromkeys(["gpu03", "gpu04"], "limited"), True),
    )


def test_what_is_wrong_with_racks_is_not_told_of_members(bench):
    error = bench.error(
        ("nodes: gpu[01-04]", "nodes: gpu[01-04"),
        ("  rails: 2", "  rails: 2\n  partitions: {red: {pkey: 1, members: gpu01}}"),
    )
    assert [mistake.where for mistake in error.mistakes] == ["racks.r1.nodes"]


def test_mistakes_of_partitions_come_out_together_with_their_lines(bench):
    tenants = """  rails: 2
  partitions:
    red:
      pkey: 0x7fff
      members: gpu09
    blue:
      pkey: 0x10
      members: [gpu01]
    green:
      pkey: 0x10
      members: [gpu02, cpu01]
"""
    error = bench.error(("  rails: 2\n", tenants))
    lines = bench.path.read_text().split("\n")
    assert [(mistake.where, lines[mistake.line - 1].strip()) for mistake in error.mistakes] == [
        ("fabric.partitions.red.pkey", "pkey: 0x7fff"),
        ("fabric.partitions.red.members", "members: gpu09"),
        ("fabric.partitions.green.pkey", "pkey: 0x10"),
        ("fabric.partitions.green.members[1]", "members: [gpu02, cpu01]"),
    ]


def test_nvlink_domains_are_of_profiles_and_racks(bench):
    cluster = bench.load(
        ("    features: [hbm3]", "    features: [hbm3]\n    nvlink_domain: 18"),
        ("    profile: gpu8\n", "    profile: gpu8\n    nvlink_domain: 4\n"),
    )
    assert (cluster.profiles["gpu8"].nvlink_domain, cluster.profiles["cpu"].nvlink_domain) == (18, None)
    assert (cluster.racks["r1"].nvlink_domain, cluster.racks["b1"].nvlink_domain) == (4, None)


def test_an_nvlink_domain_without_a_fabric_is_a_mistake(bench):
    error = bench.error(
        ("    features: [hbm3]", "    nvlink_domain: 18"), ("fabric:\n  spines: [spine1, spine2]\n  rails: 2\n", "")
    )
    (mistake,) = error.mistakes
    assert mistake.where == "profiles.gpu8.nvlink_domain"
    assert "`fabric`" in mistake.message
    sentences.check(SENTENCES, "NVLink domain without a fabric", [mistake.message])


def test_what_a_rack_says_of_nvlink_is_of_its_nodes_with_gpus(bench):
    nodes = (
        "    nodes: gpu[01-04]\n",
        "    nodes: [{names: 'gpu[01-04]'}, {names: 'x[1-2]', profile: cpu}]\n    nvlink_domain: 4\n",
    )
    cluster = bench.load(nodes)
    assert [node.nvlink_domain for node in cluster.nodes if node.rack.name == "r1"] == [4, 4, 4, 4, None, None]
    assert (cluster.has_domains, cluster.has_blocks) == (True, False)
    assert not bench.load().has_domains
