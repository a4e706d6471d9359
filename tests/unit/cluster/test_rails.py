"""Addresses of NICs mirror those of the management network; what cannot be is a mistake with its line."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.rails import addresses

from .conftest import Bench

NETS = "networks:\n"


def rails(text: str) -> tuple[str, str]:
    return (NETS, f"{NETS}  fabric: {{{text}}}\n")


def of(bench: Bench, name: str, *edits: tuple[str, str]) -> list[str]:
    cluster = bench.load(*edits)
    return [f"{nic.name} {address} {network}" for nic, address, network in addresses(cluster, cluster.node(name))]


def test_a_network_of_one_rail_has_nodes_where_management_has_them(bench: Bench) -> None:
    edit = rails("cidr: 10.9.7.0/24, rails: 1")
    assert of(bench, "gpu01", edit) == ["mlx5_1 10.9.7.11/24 fabric"]
    assert of(bench, "gpu04", edit) == ["mlx5_1 10.9.7.14/24 fabric"]


def test_rails_that_share_a_network_have_equal_parts_of_it(bench: Bench) -> None:
    assert of(bench, "gpu02", rails("cidr: 10.9.0.0/23, rails: 0-1")) == [
        "mlx5_0 10.9.0.12/23 fabric",
        "mlx5_1 10.9.1.12/23 fabric",
    ]


def test_a_node_without_such_a_nic_has_none(bench: Bench) -> None:
    cluster = bench.load(rails("cidr: 10.9.0.0/23, rails: 0-1"))
    cpu = next(node for node in cluster.nodes if node.profile.name == "cpu")
    assert list(addresses(cluster, cpu)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("cidr: 10.9.0.0/29, rails: 0", "gpu04 is 10.0.0.14, number 14 of `management`, and each rail's part of 10.9.0.0/29 has 8"),
        ("cidr: 10.9.0.0/29, rails: 0", "Allowed: a network of /28 or larger."),
        ("cidr: 10.9.0.0/28, rails: 0-1", "Allowed: a network of /27 or larger."),
        ("cidr: 10.9.0.0/24, rails: 0-2", "no profile has a NIC on rail 2. Allowed: 0, 1."),
        ("cidr: 10.9.0.0/24, rails: 0, start: 10.9.0.5", "the places of nodes are those in `management`"),
        ("cidr: 10.9.0.0/24, rails: 0, gateway: 10.9.0.12", "gpu02 would have 10.9.0.12 on rail 0, which is the gateway of fabric"),
        ("cidr: 10.9.0.0/24, rails: none", "'none' is no range of numbers"),
        ("cidr: 10.9.0.0/24, rails: 0}\n  b: {cidr: 10.9.1.0/24, rails: 0-1", "rail 0 has its addresses in the network 'fabric' already"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_mistake(bench: Bench, text: str, said: str) -> None:
    assert said in str(bench.error(rails(text)))


def test_management_has_no_rails(bench: Bench) -> None:
    assert "management has addresses of its own" in str(bench.error(("    start: 10.0.0.11", "    rails: 0")))


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("0000:3b:00.0", "0000:3b:00.0", "two NICs are at the PCI address 0000:3b:00.0"),
        ("3b:00.0", "0000:5e:00.0", "'3b:00.0' is not allowed. Allowed: domain, bus, device and function"),
        ("0000:3B:00.0", "0000:5e:00.0", "Did you mean '0000:3b:00.0'?"),
    ],
)
def test_pci_addresses_are_whole_and_of_one_nic(bench: Bench, one: str, other: str, said: str) -> None:
    edits = [(f"rail: {rail}\n", f"rail: {rail}\n        pci: '{place}'\n") for rail, place in ((0, one), (1, other))]
    assert said in str(bench.error(*edits))


def test_a_profile_that_cannot_be_read_is_the_only_mistake(bench: Bench) -> None:
    error = bench.error(rails("cidr: 10.9.0.0/23, rails: 0-1"), ("  gpu8:", "  gpu-8:"))
    assert "no profile has a NIC" not in str(error)
