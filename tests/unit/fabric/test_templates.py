"""The shapes of fabrics, against NVIDIA's published tables and by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import by_switch
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    TEMPLATES,
    Host,
    Nic,
    Shape,
    TemplateError,
    rail_optimised,
)


def hosts(count: int, unit: int, rails: int = 8) -> list[Host]:
    nics = [Nic(f"mlx5_{rail}", rail) for rail in range(rails)]
    return [Host(f"gpu{n + 1:04}", nics, rack=f"r{n // 4 + 1:03}", unit=f"su{n // unit + 1}") for n in range(count)]


@pytest.mark.parametrize(
    ("units", "leaves", "spines", "cores", "cables"),
    [
        (2, 16, 8, 0, (512, 512, 0)),
        (4, 32, 16, 0, (1024, 1024, 0)),
        (8, 64, 32, 0, (2048, 2048, 0)),
        (16, 128, 128, 64, (4096, 4096, 4096)),
        (32, 256, 256, 128, (8192, 8192, 8192)),
        (64, 512, 512, 256, (16384, 16384, 16384)),
    ],
)
def test_superpod_of_b200(units: int, leaves: int, spines: int, cores: int, cables: tuple[int, int, int]):
    shape = Shape(
        ports=64, uplinks=32, spines=[f"spine{n}" for n in range(spines)], cores=[f"core{n}" for n in range(cores)]
    )
    plan = rail_optimised(hosts(32 * units, 32), shape)
    tiers = Counter(switch.tier for switch in plan.switches.values())
    kinds = Counter(link.kind for link in plan.links)
    assert (tiers[1], tiers[2], tiers[3]) == (leaves, spines, cores)
    assert (kinds["host"], kinds["leaf-spine"], kinds["spine-core"]) == cables
    for name, ports in by_switch(plan.links).items():
        if name in plan.switches:
            assert sorted(ports) == list(range(1, len(ports) + 1))
            assert len(ports) <= 64


def test_numbers_that_make_no_fabric_are_named():
    with pytest.raises(
        TemplateError, match="32 uplinks of a leaf cannot be split evenly over 5 spines; allowed: a multiple of 5"
    ):
        rail_optimised(hosts(32, 32), Shape(uplinks=32, spines=[f"s{n}" for n in range(5)]))
    assert set(TEMPLATES) == {"leaf-spine", "rail-optimised", "three-tier", "rail-only", "dragonfly"}
