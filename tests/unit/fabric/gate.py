"""What the tests of the gate share: plans of which real OpenSM makes routes, and its findings as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import opensm
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Link, Partition, Plan, SubnetManager
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.opensm_options import Choices
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.proof import Proof
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.simulation import TOOLS, simulated_plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import (
    Host,
    Nic,
    Shape,
    rail_optimised,
    three_tier,
)

Files = dict[str, str]


def real(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that routes with OpenSM: make test runs it, and make test-fast does not."""
    marked: Callable[..., None] = pytest.mark.simulation(pytest.mark.tools(*TOOLS)(test))
    return marked


slurm = pytest.mark.tools("slurmctld", "scontrol")


def rails(hosts: int, rails: int, per_unit: int, spines: int) -> Plan:
    """Rail-optimised units, as many uplinks as hosts on a leaf, and two tenants."""
    nics = [Nic(f"mlx5_{rail}", rail) for rail in range(rails)]
    listed = [Host(f"gpu{n}", nics, f"r{n // per_unit}", f"u{n // per_unit}") for n in range(hosts)]
    names = [f"s{n}" for n in range(1, spines + 1)]
    plan = rail_optimised(listed, Shape(ports=64, speed="HDR", spines=names, uplinks=per_unit, spine_rack="net"))
    half = hosts // 2
    plan.partitions = [
        Partition("red", 1, {f"gpu{n}": "full" for n in range(half)}),
        Partition("blue", 2, {f"gpu{n}": "full" for n in range(half, hosts)}),
    ]
    plan.managers = [SubnetManager("gpu0 mlx5_0", 15)]
    return simulated_plan(plan)


def tiers(pods: int, leaves: int, each: int, cores: int) -> Plan:
    """Three tiers: as many spines in a pod as HCAs on a leaf."""
    count = pods * leaves * each
    listed = [
        Host(f"gpu{n}", [Nic("mlx5_0")], f"r{n // each}", f"p{n // each // leaves}", f"l{n // each}")
        for n in range(count)
    ]
    spines, top = [f"s{n}" for n in range(pods * each)], [f"c{n}" for n in range(cores)]
    plan = three_tier(listed, Shape(ports=16, speed="HDR", spines=spines, cores=top, uplinks=each, spine_rack="net"))
    plan.managers = [SubnetManager("gpu0 mlx5_0", 15)]
    return simulated_plan(plan)


def left_out(plan: Plan, *numbers: int) -> Plan:
    """Leave out uplinks on purpose, as fabric.missing does."""
    uplinks = [link for link in plan.links if link.kind != "host"]
    return without(plan, [uplinks[number] for number in numbers])


def without(plan: Plan, out: Iterable[Link]) -> Plan:
    """Leave out cables on purpose; the first HCA that has one is the subnet manager's."""
    links = [replace(link, missing=link in list(out)) for link in plan.links]
    first = next(link.a for link in links if link.a in plan.hcas and not link.missing)
    return replace(plan, links=links, managers=[SubnetManager(first, 15)])


def drawn(plan: Plan, seed: int) -> Plan:
    """Leave out one to four cables, of hosts and uplinks, by chance; half of them at one leaf, where they meet."""
    rng = random.Random(seed)
    leaf = rng.choice(sorted({link.b for link in plan.links if link.kind == "host"}))
    count = 1 + seed % 4
    mine = [link for link in plan.links if leaf in (link.a, link.b)]
    return without(plan, [*rng.sample(mine, (count + 1) // 2), *rng.sample(plan.links, count // 2)])


SMALL = rails(hosts=8, rails=2, per_unit=4, spines=4)


def made(plan: Plan, *engines: str) -> Files:
    return opensm.files(plan, plan.managers[0], Choices(engines=engines))


def texts(found: Proof, *kinds: str) -> str:
    return "\n".join(f"{one.kind}: {one}" for one in found.findings if not kinds or one.kind in kinds)


def root_dropped(files: Files) -> None:
    files[opensm.ROOTS] = "\n".join(files[opensm.ROOTS].split("\n")[:-2]) + "\n"
