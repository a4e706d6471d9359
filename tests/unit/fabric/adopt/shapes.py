"""Fabrics that exist: six shapes with names, ports and GUIDs at random and cards without a name, and the cluster files of their hosts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Link, Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    TEMPLATES,
    FabricShape,
    WiredHost,
    WiredNic,
)
from tests.unit.fabric.compare.faulty import FACTORY, World

# Of all cards.
UNNAMED = 0.05


def _hosts(count: int, nics: int, per_rack: int, racks_a_unit: int = 1) -> list[WiredHost]:
    devices = [WiredNic(f"mlx5_{n}", n) for n in range(nics)]
    return [
        WiredHost(f"gpu{n + 1:03}", devices, f"a{n // per_rack + 1:02}", f"u{n // per_rack // racks_a_unit + 1}")
        for n in range(count)
    ]


def _names(what: str, count: int) -> list[str]:
    return [f"{what}-{n + 1}" for n in range(count)]


def _shape(**more: object) -> FabricShape:
    return FabricShape(**{"ports": 20, "speed": "HDR", **more})  # type: ignore[arg-type]


def _leaf_spine() -> Plan:
    return TEMPLATES["leaf-spine"](_hosts(24, 2, 4), _shape(spines=_names("spine", 4), uplinks=8))


def _uneven() -> Plan:
    """Return leaves of which every second one has half of the cables up."""
    plan = _leaf_spine()
    count: dict[tuple[str, str], int] = {}
    leaves = [name for name, switch in plan.switches.items() if switch.tier == 1]
    kept: list[Link] = []
    for link in plan.links:
        pair = (link.a, link.b)
        count[pair] = count.get(pair, 0) + 1
        if link.a not in plan.switches or leaves.index(link.a) % 2 == 0 or count[pair] == 1:
            kept.append(link)
    plan.links = kept
    return plan


def _mixed() -> Plan:
    """Return switches of three models."""
    plan = _leaf_spine()
    for number, name in enumerate(plan.switches):
        tier = plan.switches[name].tier
        plan.switches[name] = replace(plan.switches[name], ports=40 if tier > 1 else 36 if number % 3 == 0 else 20)
    return plan


SHAPES: dict[str, Callable[[], Plan]] = {
    "rail-optimised": lambda: TEMPLATES["rail-optimised"](
        _hosts(16, 4, 4, 2), _shape(spines=_names("spine", 4), uplinks=8)
    ),
    "leaf-spine": _leaf_spine,
    "three-tier": lambda: TEMPLATES["three-tier"](
        _hosts(32, 1, 4, 2), _shape(spines=_names("spine", 8), cores=_names("core", 4), uplinks=4)
    ),
    "dragonfly": lambda: TEMPLATES["dragonfly"](_hosts(36, 1, 3, 3), _shape(global_links=2)),
    "uneven uplinks": _uneven,
    "mixed models": _mixed,
}


@dataclass
class Existing:
    """A fabric that exists, and a cluster file that knows its hosts alone."""

    world: World
    path: Path
    # Names of the plan in the world of cards without a name.
    unnamed: tuple[str, ...]

    def cluster(self) -> Cluster:
        """Return the cluster as its file is now."""
        return load(self.path)

    def outputs(self) -> list[ToolOutput]:
        """Return what ibnetdiscover prints of every plane, in another order each time."""
        return [ToolOutput(plane or "fabric", self.world.text(plane)) for plane in self.world.plan.planes]


def shuffled(plan: Plan, rng: random.Random) -> Plan:
    """Return a plan with other names, ports and GUIDs; hosts keep their rails and racks."""
    places = [f"IBSW-{row:02}-{column:02}" for row in range(1, 12) for column in range(1, 8)]
    switch = dict(zip(plan.switches, rng.sample(places, len(plan.switches)), strict=True))
    hosts = list(dict.fromkeys(hca.host for hca in plan.hcas.values()))
    host = dict(zip(hosts, rng.sample(hosts, len(hosts)), strict=True))
    guids = iter(rng.sample(range(0x0002C90300000000, 0x0002C903FFFFFF00, 0x100), len(plan.switches) + len(plan.hcas)))
    racks = {hca.host: (hca.rack, hca.group) for hca in plan.hcas.values()}
    made = Plan(plan.name, plan.kind, plan.technology, plan.speed, plan.width, plan.oversubscription)
    ports: dict[str, list[int]] = {}
    for name, one in plan.switches.items():
        ports[name] = rng.sample(range(1, one.ports + 1), one.ports)
        made.add(replace(one, name=switch[name], guid=f"{next(guids):016x}", rack=""))
    hca_name = {}
    for name, hca in plan.hcas.items():
        rack, group = racks[host[hca.host]]
        new = replace(hca, host=host[hca.host], rack=rack, group=group, guid=f"{next(guids):016x}")
        hca_name[name] = new.name
        made.add(new)
    for link in plan.links:
        b_port = ports[link.b][link.b_port - 1]
        if link.a in plan.switches:
            made.links.append(Link(switch[link.a], ports[link.a][link.a_port - 1], switch[link.b], b_port, link.kind))
        else:
            made.links.append(Link(hca_name[link.a], 1, switch[link.b], b_port, link.kind))
    rng.shuffle(made.links)
    return made


def cluster_text(plan: Plan) -> str:
    """Return a cluster file with the hosts and NICs of a plan, and no section `fabric`."""
    devices = dict.fromkeys((hca.device, hca.rail) for hca in plan.hcas.values())
    racks: dict[str, list[str]] = {}
    for hca in plan.hcas.values():
        names = racks.setdefault(hca.rack, [])
        if hca.host not in names:
            names.append(hca.host)
    nics = ", ".join(f"{{name: {device}, rail: {rail}}}" for device, rail in devices)
    listed = "".join(
        f'  {rack}: {{nodes: "{",".join(sorted(names))}", profile: node}}\n' for rack, names in sorted(racks.items())
    )
    return f"""plugin: bedplate.cluster.racks
site: there
cluster: there
networks: {{management: {{cidr: 10.20.0.0/22, start: 10.20.1.1}}}}
profiles:
  node: {{sockets: 2, cores_per_socket: 8, memory_mib: 64000, nics: [{nics}]}}
racks:
{listed}hosts: {{head: {{address: 10.20.0.2}}}}
services: {{controllers: head, database: head, login: head}}
partitions: {{all: {{nodes: all, default: true}}}}
slurm: {{version: "24.11"}}
"""


def existing(name: str, seed: int, directory: Path) -> Existing:
    """Return a fabric of a shape that exists, with a cluster file in a directory."""
    rng = random.Random(f"{name} {seed}")
    plan = shuffled(SHAPES[name](), rng)
    world = World(plan, rng)
    unnamed = rng.sample(list(plan.hcas), max(1, round(UNNAMED * len(plan.hcas))))
    world.rename.update((hca, rng.choice((FACTORY, "localhost HCA-1"))) for hca in unnamed)
    for switch in plan.switches:
        if rng.random() < 0.5:
            world.rename[switch] = f"MF0;{switch}:MQM8700/U1"
    path = directory / "there.bedplate.yml"
    path.write_text(cluster_text(plan))
    return Existing(world, path, tuple(unnamed))


def by_directory(directory: Path, seed: int) -> dict[str, Existing]:
    """Return a fabric of each shape, each with a cluster file in a directory of its own."""
    found = {}
    for name in SHAPES:
        own = directory / name.replace(" ", "-")
        own.mkdir()
        found[name] = existing(name, seed, own)
    return found


def ends_of(plan: Plan, names: Sequence[str]) -> set[tuple[str, int]]:
    """Return the HCAs' and the switches' ends of the cables of HCAs."""
    return {end for link in plan.links if link.a in names for end in link.ends}
