"""Worlds to be discovered: a plan of two units, and what is done to its cables and names."""

from __future__ import annotations

import random
from collections.abc import Callable

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import (
    Comparison,
    comparison,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_only,
    rail_optimised,
)
from tests.unit.fabric.compare.faulty import FACTORY, World

NICS = [WiredNic(f"mlx5_{n}", n) for n in range(2)]


def plan(lanes: int = 1, hosts: int = 8) -> Plan:
    """Two units of two rails with four hosts each, below two spines with two cables from each leaf."""
    shape = FabricShape(ports=16, speed="HDR", spines=["sp1", "sp2"], uplinks=4, spine_rack="s1", lanes=lanes)
    return rail_optimised([WiredHost(f"gpu{n}", NICS, f"b{n // 4}", f"{n // 4}") for n in range(hosts)], shape)


def world(of: Plan | None = None) -> World:
    return World(of or plan(), random.Random(0))


def compared(w: World) -> Comparison:
    return comparison(w.plan, w.discoveries())


def places(w: World) -> list[tuple[str, str]]:
    """Return kind and place of each finding."""
    return [(one.kind, one.where) for one in compared(w).findings]


def messages(w: World) -> list[str]:
    return [f"{one.severity} {one.kind}: {one}" for one in compared(w).findings]


def recable(w: World, *cables: tuple[tuple[str, int], tuple[str, int]]) -> None:
    for cable in cables:
        w.cut(*cable)
    for one, other in cables:
        w.join(one, other)


def slowed(w: World, speed: str = "EDR", width: str = "4x", faster: int = 0) -> None:
    """Let all links, but the last few, run at a speed."""
    links = list(w.plan.present)
    for link in links[: len(links) - faster]:
        w.join(*link.ends, width=width, speed=speed)


def planes(spines: int = 2) -> Plan:
    shape = FabricShape(ports=16, speed="HDR", spines=[f"sp{n}" for n in range(spines)], uplinks=4)
    return rail_only([WiredHost(f"gpu{n}", NICS, f"b{n // 4}", f"{n // 4}") for n in range(8)], shape)


def unname(w: World, which: Callable[[str], bool], name: str = FACTORY) -> None:
    w.rename.update((node, name) for node in w.nodes if which(node))
