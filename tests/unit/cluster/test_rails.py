"""Addresses of NICs mirror those of the management network; what cannot be is a mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.rails import addresses
from tests.kit import sentences

from .conftest import Bench

SENTENCES = Path(__file__).parent / "sentences.txt"

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
    ("text", "where", "values"),
    [
        ("cidr: 10.9.0.0/29, rails: 0", "networks.fabric.rails", ["gpu04", "10.0.0.14", " 14 ", "10.9.0.0/29 has 8", " /28 "]),
        ("cidr: 10.9.0.0/28, rails: 0-1", "networks.fabric.rails", [" /27 "]),
        ("cidr: 10.9.0.0/24, rails: 0-2", "networks.fabric.rails", ["rail 2.", " 0, 1."]),
        ("cidr: 10.9.0.0/24, rails: 0, start: 10.9.0.5", "networks.fabric.start", ["`management`"]),
        ("cidr: 10.9.0.0/24, rails: 0, gateway: 10.9.0.12", "networks.fabric.rails", ["gpu02", "10.9.0.12", "rail 0", "fabric"]),
        ("cidr: 10.9.0.0/24, rails: none", "networks.fabric.rails", ["'none'"]),
        ("cidr: 10.9.0.0/24, rails: 0}\n  b: {cidr: 10.9.1.0/24, rails: 0-1", "networks.b.rails", ["rail 0", "'fabric'"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_a_mistake(bench: Bench, text: str, where: str, values: list[str]) -> None:
    (mistake,) = bench.error(rails(text)).mistakes
    assert mistake.where == where
    assert [value for value in values if value not in mistake.message] == []
    sentences.check(SENTENCES, f"rails: {text}".replace("\n", " "), [mistake.message])


def test_rails_reach_the_rails_that_have_a_gateway_too_and_the_stated_networks(bench: Bench) -> None:
    text = (
        "cidr: 10.9.0.0/24, rails: 0, gateway: 10.9.0.1, routes: [10.48.0.0/16]}\n  other: "
        "{cidr: 10.9.1.0/24, rails: 1, gateway: 10.9.1.1}\n  plain: {cidr: 10.9.2.0/24, gateway: 10.9.2.1"
    )
    networks = bench.load(rails(text)).networks
    assert {name: network.routes for name, network in networks.items() if network.routes} == {
        "fabric": ("10.9.1.0/24", "10.48.0.0/16"),
        "other": ("10.9.0.0/24",),
    }


def test_all_mistakes_in_routes_are_reported_at_once(bench: Bench) -> None:
    text = (
        "cidr: 10.9.0.0/24, rails: 0, gateway: 10.9.0.255, routes: [10.9.0.128/25, 10.48.0.1/16, 10.48.0.0, 10.0.0.0/8]}\n"
        "  other: {cidr: 10.9.1.0/24, rails: 1, routes: [10.49.0.0/16]}\n"
        "  plain: {cidr: 10.9.2.0/24, gateway: 10.9.2.1, routes: [10.50.0.0/16]"
    )
    mistakes = bench.error(rails(text)).mistakes
    wanted = [
        "fabric.gateway", *(f"fabric.routes[{index}]" for index in range(4)), "other.routes", "plain.routes",
    ]  # fmt: skip
    assert sorted(one.where for one in mistakes) == sorted(f"networks.{one}" for one in wanted)
    sentences.check(SENTENCES, "routes of rails", [f"{one.where}: {one.message}" for one in mistakes])


def test_management_has_no_rails(bench: Bench) -> None:
    (mistake,) = bench.error(("    start: 10.0.0.11", "    rails: 0")).mistakes
    assert mistake.where == "networks.management.rails"
    sentences.check(SENTENCES, "rails of management", [mistake.message])


@pytest.mark.parametrize(
    ("one", "other", "where", "said"),
    [
        ("0000:3b:00.0", "0000:3b:00.0", "profiles.gpu8.nics", "0000:3b:00.0"),
        ("3b:00.0", "0000:5e:00.0", "profiles.gpu8.nics[0].pci", "'3b:00.0'"),
        ("0000:3B:00.0", "0000:5e:00.0", "profiles.gpu8.nics[0].pci", "'0000:3b:00.0'?"),
    ],
)
def test_pci_addresses_are_whole_and_of_one_nic(bench: Bench, one: str, other: str, where: str, said: str) -> None:
    edits = [(f"rail: {rail}\n", f"rail: {rail}\n        pci: '{place}'\n") for rail, place in ((0, one), (1, other))]
    (mistake,) = bench.error(*edits).mistakes
    assert mistake.where == where
    assert said in mistake.message
    sentences.check(SENTENCES, f"PCI addresses {one} and {other}", [mistake.message])


def test_a_profile_that_cannot_be_read_is_the_only_mistake(bench: Bench) -> None:
    error = bench.error(rails("cidr: 10.9.0.0/23, rails: 0-1"), ("  gpu8:", "  gpu-8:"))
    assert [mistake.where for mistake in error.mistakes if mistake.where.startswith("networks")] == []


NIC = "        rail: 1\n"


def storage(network: str, nic: str = "network: storage") -> tuple[tuple[str, str], tuple[str, str]]:
    """Have a third NIC of the GPU nodes, and a network for it."""
    return (NETS, f"{NETS}  storage: {{{network}}}\n"), (NIC, f"{NIC}      - {{name: mlx5_8, {nic}}}\n")


def test_a_nic_without_a_rail_has_its_address_in_its_own_network(bench: Bench) -> None:
    edits = storage("cidr: 10.60.0.0/16, gateway: 10.60.0.1")
    assert of(bench, "gpu02", *edits) == ["mlx5_8 10.60.0.12/16 storage"]
    cluster = bench.load(*edits)
    assert cluster.networks["storage"].routes == ()


@pytest.mark.parametrize(
    ("network", "nic", "values"),
    [
        ("cidr: 10.60.0.0/16", "network: storrage", ["'storrage'", "'storage'"]),
        ("cidr: 10.60.0.0/16", "network: management", ["management", "mlx5_8"]),
        ("cidr: 10.60.0.0/16, rails: 0-1", "network: storage", ["storage", "rails", "mlx5_8"]),
        ("cidr: 10.60.0.0/29", "network: storage", ["gpu01", "10.60.0.11", "10.60.0.0/29"]),
        ("cidr: 10.60.0.0/16, gateway: 10.60.0.13", "network: storage", ["gpu03", "10.60.0.13", "gateway"]),
        ("cidr: 10.60.0.0/16", "network: storage, rail: 2", ["'mlx5_8'", "rail 2", "`network`"]),
        (
            "cidr: 10.60.0.0/16",
            "network: storage}\n      - {name: mlx5_9, network: storage",
            ["two NICs", "'storage'"],
        ),
    ],
)
def test_a_network_that_a_nic_cannot_have_is_a_mistake(bench: Bench, network: str, nic: str, values: list[str]) -> None:
    mistakes = bench.error(*storage(network, nic)).mistakes
    mistake = mistakes[0]
    assert mistake.where == "profiles.gpu8.nics"
    assert [value for value in values if value not in mistake.message] == []
    sentences.check(SENTENCES, f"network of a NIC: {network}, {nic}".replace("\n", " "), [mistake.message])
