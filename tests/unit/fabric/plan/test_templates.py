"""The shapes of fabrics, against NVIDIA's published tables and by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import by_switch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    TEMPLATES,
    FabricShape,
    TemplateError,
    WiredHost,
    WiredNic,
    rail_optimised,
)


def hosts(count: int, unit: int, rails: int = 8) -> list[WiredHost]:
    nics = [WiredNic(f"mlx5_{rail}", rail) for rail in range(rails)]
    return [
        WiredHost(f"gpu{n + 1:04}", nics, rack=f"r{n // 4 + 1:03}", unit=f"su{n // unit + 1}") for n in range(count)
    ]


# A scalable unit's hosts, ports of a switch and uplinks of a leaf -> units -> leaves, spines, cores; cables of hosts, to spines, to cores.
Row = tuple[int, int, int, tuple[int, int, int]]
B200: dict[int, Row] = {
    2: (16, 8, 0, (512, 512, 0)),
    4: (32, 16, 0, (1024, 1024, 0)),
    8: (64, 32, 0, (2048, 2048, 0)),
    16: (128, 128, 64, (4096, 4096, 4096)),
    32: (256, 256, 128, (8192, 8192, 8192)),
    64: (512, 512, 256, (16384, 16384, 16384)),
}
# The published table has a row of 18 units, too, which contradicts itself: 1,296 hosts have 10,368 GPUs, and it says 9,216.
B300: dict[int, Row] = {1: (8, 4, 0, (576, 576, 0)), 2: (16, 8, 0, (1152, 1152, 0))}
# Seconds, in make test.
LARGE = pytest.mark.simulation


@pytest.mark.parametrize(
    ("unit", "ports", "units", "row"),
    [
        *(pytest.param(32, 64, units, row, marks=LARGE if units > 16 else ()) for units, row in B200.items()),
        *((72, 144, units, row) for units, row in B300.items()),
    ],
    ids=[*(f"B200-{units}" for units in B200), *(f"B300-{units}" for units in B300)],
)
def test_superpod_as_nvidia_publishes_it(unit: int, ports: int, units: int, row: Row):
    leaves, spines, cores, cables = row
    shape = FabricShape(
        ports=ports,
        uplinks=unit,
        spines=[f"spine{n}" for n in range(spines)],
        cores=[f"core{n}" for n in range(cores)],
    )
    plan = rail_optimised(hosts(unit * units, unit), shape)
    tiers = Counter(switch.tier for switch in plan.switches.values())
    kinds = Counter(link.kind for link in plan.links)
    assert (tiers[1], tiers[2], tiers[3], sum(tiers.values())) == (leaves, spines, cores, leaves + spines + cores)
    assert (kinds["host"], kinds["leaf-spine"], kinds["spine-core"], sum(kinds.values())) == (*cables, sum(cables))
    for name, ends in by_switch(plan.links).items():
        if name in plan.switches:
            # One to one, without a port to spare: every switch of these tables is full.
            assert sorted(ends) == list(range(1, ports + 1))


def test_numbers_that_make_no_fabric_are_named():
    with pytest.raises(
        TemplateError, match="32 uplinks of a leaf cannot be split evenly over 5 spines; allowed: a multiple of 5"
    ):
        rail_optimised(hosts(32, 32), FabricShape(uplinks=32, spines=[f"s{n}" for n in range(5)]))
    assert set(TEMPLATES) == {"leaf-spine", "rail-optimised", "three-tier", "rail-only", "dragonfly"}
