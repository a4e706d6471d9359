"""What the tests of the gate share: plans of which real OpenSM makes routes, and its findings as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    Link,
    Plan,
    SubnetManager,
    TenantPartition,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import opensm_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_options import Choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_optimised,
    three_tier,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.engine_trials import best
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.routing_proof import (
    ROUTES,
    RoutingProof,
    prove,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import (
    TOOLS,
    simulated_plan,
)
from tests.kit.fabric_files import judged

Files = dict[str, str]


def real(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that routes with OpenSM: make test runs it, and make test-fast does not."""
    marked: Callable[..., None] = pytest.mark.simulation(pytest.mark.tools(*TOOLS)(test))
    return marked


slurm = pytest.mark.tools("slurmctld", "scontrol")


def rails(hosts: int, rails: int, per_unit: int, spines: int) -> Plan:
    """Rail-optimised units, as many uplinks as hosts on a leaf, and two tenants."""
    nics = [WiredNic(f"mlx5_{rail}", rail) for rail in range(rails)]
    listed = [WiredHost(f"gpu{n}", nics, f"r{n // per_unit}", f"u{n // per_unit}") for n in range(hosts)]
    names = [f"s{n}" for n in range(1, spines + 1)]
    plan = rail_optimised(listed, FabricShape(ports=64, speed="HDR", spines=names, uplinks=per_unit, spine_rack="net"))
    half = hosts // 2
    plan.partitions = [
        TenantPartition("red", 1, {f"gpu{n}": "full" for n in range(half)}),
        TenantPartition("blue", 2, {f"gpu{n}": "full" for n in range(half, hosts)}),
    ]
    plan.managers = [SubnetManager("gpu0 mlx5_0", 15)]
    return simulated_plan(plan)


def tiers(pods: int, leaves: int, each: int, cores: int, ports: int = 16) -> Plan:
    """Three tiers: as many spines in a pod as HCAs on a leaf."""
    count = pods * leaves * each
    listed = [
        WiredHost(f"gpu{n}", [WiredNic("mlx5_0")], f"r{n // each}", f"p{n // each // leaves}", f"l{n // each}")
        for n in range(count)
    ]
    spines, top = [f"s{n}" for n in range(pods * each)], [f"c{n}" for n in range(cores)]
    plan = three_tier(
        listed, FabricShape(ports=ports, speed="HDR", spines=spines, cores=top, uplinks=each, spine_rack="net")
    )
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


def made(plan: Plan, *engines: str, options: Iterable[tuple[str, str]] = ()) -> Files:
    """Return OpenSM's files of a plan of one plane."""
    return judged(plan, opensm_files.files(plan, plan.managers[0], Choices(engines=engines, extra=tuple(options))))


def proved(plan: Plan, plane: str = "") -> RoutingProof:
    """Return the proof of a plan's own files; where no subnet manager is planned, its first HCA is one."""
    plan = simulated_plan(plan)
    managers = [one for one in plan.managers if plan.hcas[one.hca].plane == plane]
    first = next(iter(managers), None) or SubnetManager(opensm_files.leaf_major(plan, plane)[0].name, 15)
    return prove(plan, plane, judged(plan, opensm_files.files(plan, first), plane))


def agreed(plan: Plan) -> RoutingProof:
    """Return the proof of a plan of one plane, with the engine that the proof of its own files proposes, where it proposes one."""
    plan = simulated_plan(plan)
    found = proved(plan)
    better = best(found.trials)
    if better is None or better.variables not in texts(found, ROUTES):
        return found
    again = prove(plan, "", made(plan, better.engine, options=better.options), compare=False)
    assert again.metrics is not None
    # No engine was better in the first proof.
    assert again.metrics.most == better.most
    return again


def texts(found: RoutingProof, *kinds: str) -> str:
    return "\n".join(f"{one.kind}: {one}" for one in found.findings if not kinds or one.kind in kinds)


def root_dropped(files: Files) -> None:
    files[opensm_files.ROOTS] = "\n".join(files[opensm_files.ROOTS].split("\n")[:-2]) + "\n"
