"""The planned fabric against the discovered one."""

from __future__ import annotations

from collections import Counter

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.reachability import components
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import KINDS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    TEMPLATES,
    FabricShape,
    WiredHost,
    WiredNic,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.unit.fabric.compare.faulty import matches, plant


def hosts(count: int, nics: int, per_rack: int = 4, racks_a_unit: int = 1) -> list[WiredHost]:
    devices = [WiredNic(f"mlx5_{n}", n) for n in range(nics)]
    return [
        WiredHost(f"gpu{n + 1:03}", devices, f"a{n // per_rack + 1:02}", f"u{n // per_rack // racks_a_unit + 1}")
        for n in range(count)
    ]


def names(what: str, count: int) -> list[str]:
    return [f"{what}-{n + 1}" for n in range(count)]


def shape(**more: object) -> FabricShape:
    return FabricShape(**{"ports": 20, "speed": "HDR", "spine_rack": "s01", **more})  # type: ignore[arg-type]


PLANS: dict[str, Plan] = {
    "leaf-spine": TEMPLATES["leaf-spine"](hosts(16, 2), shape(spines=names("spine", 4), uplinks=8)),
    "rail-optimised": TEMPLATES["rail-optimised"](hosts(8, 4), shape(spines=names("spine", 2), lanes=2)),
    "rails with cores": TEMPLATES["rail-optimised"](
        hosts(16, 2, 4), shape(spines=names("spine", 4), cores=names("core", 2), uplinks=4)
    ),
    "three-tier": TEMPLATES["three-tier"](
        hosts(16, 1, 4, 2), shape(spines=names("spine", 4), cores=names("core", 4), uplinks=4)
    ),
    "rail-only": TEMPLATES["rail-only"](hosts(16, 2), shape(spines=names("spine", 4), uplinks=4)),
    "planes of one leaf": TEMPLATES["rail-only"](hosts(12, 3, 12), shape()),
    "dragonfly": TEMPLATES["dragonfly"](hosts(18, 1, 2, 3), shape(global_links=2)),
    "dragonfly+": TEMPLATES["dragonfly"](hosts(16, 1, 4, 2), shape(spines=names("spine", 4), global_links=2)),
}
PLANS["with GUIDs"] = with_guids(PLANS["leaf-spine"])
PLANS["planes with GUIDs"] = with_guids(PLANS["rail-only"])


@pytest.mark.parametrize("kind", PLANS)
def test_fabric_as_planned_has_no_finding(kind: str):
    plan = PLANS[kind]
    world = plant(plan, 1, 1, (lambda _world: True,))
    found = comparison(plan, world.discoveries())
    assert found.findings == []
    assert (found.findings, len(found.ok)) == ([], len(plan.links))
    assert found.planned == len(plan.links)


PLANTED = {(kind, seed): plant(plan, seed, 1 + seed % 4) for kind, plan in PLANS.items() for seed in range(36)}


@pytest.mark.parametrize("kind", PLANS)
def test_every_planted_fault_is_told_once_and_nothing_else(kind: str):
    for seed in range(36):
        world = PLANTED[kind, seed]
        found = comparison(PLANS[kind], world.discoveries()).findings
        told = "\n".join(f"{one.kind} {one.ports}: {one}" for one in found)
        for expected in world.expected:
            assert sum(matches(expected, one) for one in found) == 1, f"{seed}: {expected} is not told once:\n{told}"
        for one in found:
            assert any(matches(expected, one) for expected in world.expected), f"{seed}: {world.expected}, but: {one}"
            assert one.where
            assert one.remedy


def test_faults_of_every_sort_are_planted():
    planted = Counter(kind for world in PLANTED.values() for kind, _ in world.expected)
    # Lines that cannot be read, and what LLDP alone reports, are in tests of their own. Renumbered devices need a host of three:
    # test_device_names.py.
    assert set(planted) == set(KINDS) - {"unread", "mtu", "unclear", "renumbered"}
    assert min(planted.values()) >= 5
    assert sum(planted.values()) > 700
    assert len(PLANTED) == 360


def test_what_reaches_each_other_has_the_same_order_in_each_run():
    leaves = [f"leaf{number}" for number in range(6)]
    cables = [(("spine", number), (leaf, 1)) for number, leaf in enumerate(leaves)]
    cables.append((("gpu1 mlx5_0", 1), ("leaf9", 1)))
    ports = {end: far for one, other in cables for end, far in ((one, other), (other, one))}
    assert components(ports) == [["spine", *reversed(leaves)], ["gpu1 mlx5_0", "leaf9"]]
