"""Fabrics in which names and places of adapters lie, and the judge of what is recorded of them.

`FabricOfImpostors` knows which card is in which host. Its faults leave cards unnamed, number devices in another way, cross cables, exchange
hosts and switches, replace cards and move them. The judge wants no GUID of a card with another host, whatever was told of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import record_after
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import (
    Comparison,
    comparison,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import generated_guid
from tests.unit.fabric.compare import faulty
from tests.unit.fabric.compare.faulty import FACTORY, World

NAMELESS = (FACTORY, "", "localhost mlx5_0", "ubuntu HCA-2", "MT4129 ConnectX7")


@dataclass
class FabricOfImpostors:
    """A fabric with its plan and record. `owner`: GUID -> host that has the card, and its device by the order of its slots."""

    world: World
    old: guid_record.Record
    owner: dict[str, tuple[str, str]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.world.plan

    def compared(self) -> tuple[Comparison, guid_record.Record]:
        """Return the comparison, and the record after it."""
        result = comparison(self.plan, self.world.discoveries())
        return result, record_after(self.plan, result, self.old)


def judged(fabric: FabricOfImpostors) -> list[str]:
    """Return what is recorded for a wrong host or switch. An entry that was on record before, and is untouched, is no new guess."""
    wrong = []
    _result, record = fabric.compared()
    for name, guids in record.items():
        if fabric.old.get(name) == guids:
            continue
        host, device = fabric.owner.get(guids["node"], ("no node of this fabric", ""))
        hca = fabric.plan.hcas.get(name)
        if (hca.host if hca else name) != host:
            wrong.append(f"{name} has {guids['node']}, which is in {host} {device}")
        elif hca and guids.get("port", "") not in ("", f"{int(guids['node'], 16) + 1:016x}"):
            wrong.append(f"{name} has the port {guids['port']}")
    return wrong


def faults_of(rng: random.Random, plan: Plan, old: guid_record.Record, count: int) -> FabricOfImpostors:
    """Return a fabric with faults that may touch each other."""
    fabric = FabricOfImpostors(World(plan, rng), old)
    while len(fabric.told) < count:
        fault = rng.choice(FAULTS)
        fabric.told += [fault.__name__] * bool(fault(fabric, len(fabric.told)))
    if rng.random() < 0.2:
        fabric.told += ["same_name"] * same_name(fabric)
    w = fabric.world
    for name, node in w.nodes.items():
        hca = plan.hcas.get(name)
        fabric.owner[w.guid(name, node.guid)] = (hca.host, hca.device) if hca else (name, "")
    return fabric


def _some(f: FabricOfImpostors, most: int = 3) -> list[str]:
    names = list(f.plan.hcas)
    return f.world.rng.sample(names, f.world.rng.randint(1, most))


def unnamed(f: FabricOfImpostors, _number: int) -> bool:
    """Leave cards without a name, one to three or a tenth of all."""
    names = _some(f, f.world.rng.choice((1, 3, max(4, len(f.plan.hcas) // 10))))
    f.world.rename.update((name, f.world.rng.choice(NAMELESS)) for name in names)
    return True


def unnamed_and_crossed(f: FabricOfImpostors, _number: int) -> bool:
    """Cross the cables of an unnamed card and another one of the same leaf, which may be unnamed as well."""
    w = f.world
    one = w.rng.choice(list(f.plan.hcas))
    leaf = f.plan.leaf_of()
    others = [name for name in f.plan.hcas if name != one and leaf[name][0] == leaf[one][0]]
    if not others or not _cross(w, one, w.rng.choice(others)):
        return False
    w.rename[one] = w.rng.choice(NAMELESS)
    if w.rng.random() < 0.3:
        w.rename[others[0]] = FACTORY
    return True


def _cross(w: World, *names: str) -> bool:
    """Put the cable of each card into the port of the next one."""
    ends = [next(iter(w.nodes[name].cables.values()), None) for name in names]
    guids = {node.guid: name for name, node in w.nodes.items()}
    if None in ends:
        return False
    ports = [(guids[end.guid], end.port) for end in ends if end]
    w.cut(*((name, 1) for name in names))
    for name, port in zip(names, [*ports[1:], ports[0]], strict=True):
        w.join((name, 1), port)
    return True


def crossed(f: FabricOfImpostors, _number: int) -> bool:
    """Cross the cables of two or three cards."""
    names = f.world.rng.sample(list(f.plan.hcas), f.world.rng.choice((2, 2, 3)))
    return _cross(f.world, *names)


def other_devices(f: FabricOfImpostors, _number: int) -> bool:
    """Let all hosts, or most, number their devices in another way: HCA-1 for mlx5_0, or numbers that are shifted."""
    w, first = f.world, f.world.rng.choice((0, 1))
    shift = w.rng.choice((2, 1, 10))
    way = w.rng.choice((lambda n: f"HCA-{n + first}", lambda n: f"mlx5_{n + shift}", lambda n: f"ibp{n}s0"))
    share = w.rng.choice((1.0, 0.9, 0.5))
    but = {host for host in _hosts(f) if w.rng.random() > share}
    for name, hca in f.plan.hcas.items():
        if hca.host not in but:
            w.rename.setdefault(name, f"{hca.host} {way(int(hca.device[-1]))}")
    return True


def _hosts(f: FabricOfImpostors) -> list[str]:
    return list(dict.fromkeys(hca.host for hca in f.plan.hcas.values()))


def _cards(f: FabricOfImpostors, host: str) -> list[str]:
    return [name for name, hca in f.plan.hcas.items() if hca.host == host]


def lost_card(f: FabricOfImpostors, _number: int) -> bool:
    """Take a card out of a host: the devices behind it have the numbers before theirs."""
    names = _cards(f, f.world.rng.choice(_hosts(f)))
    gone = f.world.rng.randrange(len(names))
    f.world.cut((names[gone], 1))
    f.world.rename.update(zip(names[gone + 1 :], names[gone:], strict=False))
    return True


def exchanged_hosts(f: FabricOfImpostors, _number: int) -> bool:
    """Exchange all cables of two hosts, or their names: the machine is the one that it says it is."""
    one, other = f.world.rng.sample(_hosts(f), 2)
    return all(_cross(f.world, *pair) for pair in zip(_cards(f, one), _cards(f, other), strict=True))


def exchanged_switches(f: FabricOfImpostors, _number: int) -> bool:
    return faulty.exchanged_switches(f.world)


def unnamed_switch(f: FabricOfImpostors, _number: int) -> bool:
    f.world.rename[f.world.rng.choice(list(f.plan.switches))] = "Quantum Mellanox Technologies"
    return True


def replaced(f: FabricOfImpostors, number: int) -> bool:
    """Replace cards; some of the new ones have no name yet."""
    for name in _some(f):
        f.world.new_guid[name] = generated_guid(f"new {number} {name}")
        if f.world.rng.random() < 0.4:
            f.world.rename[name] = f.world.rng.choice(NAMELESS)
    return True


def moved(f: FabricOfImpostors, number: int) -> bool:
    """Put a card into the slot of another host's card, whose host has none there then, or a new one."""
    w = f.world
    here, there = w.rng.sample(list(f.plan.hcas), 2)
    w.new_guid[there] = w.guid(here, w.nodes[here].guid)
    if w.rng.random() < 0.5:
        w.rename[there] = w.rng.choice(NAMELESS)
    w.new_guid[here] = generated_guid(f"moved {number} {here}")
    if w.rng.random() < 0.5:
        w.cut((here, 1))
    return True


def stranger(f: FabricOfImpostors, number: int) -> bool:
    """Plug an unnamed card that is no host's of the plan into the port of a card that is dead."""
    w = f.world
    name = w.rng.choice(list(f.plan.hcas))
    cable = next(iter(w.nodes[name].cables.values()), None)
    if not cable:
        return False
    port = (next(other for other, node in w.nodes.items() if node.guid == cable.guid), cable.port)
    w.cut((name, 1))
    w.add(f"stranger {number}", CA, 1)
    w.rename[f"stranger {number}"] = w.rng.choice(NAMELESS)
    w.join((f"stranger {number}", 1), port)
    return True


def dead(f: FabricOfImpostors, _number: int) -> bool:
    f.world.cut(*((name, 1) for name in _some(f)))
    return True


def other_case(f: FabricOfImpostors, _number: int) -> bool:
    """Write the names of some hosts in capitals, or with a domain."""
    for name in _some(f):
        host, _blank, device = f.world.rename.get(name, name).partition(" ")
        f.world.rename[name] = f"{f.world.rng.choice((host.upper(), host + '.example.org'))} {device}"
    return True


def same_name(f: FabricOfImpostors) -> bool:
    """Let a card have the name of another one, as with a cloned image. The last fault: a name that only one card has is believed."""
    names = [name for name in f.plan.hcas if f.world.nodes[name].cables]
    if len(names) < 2:
        return False
    one, other = f.world.rng.sample(names, 2)
    f.world.rename[one] = f.world.rename.get(other, other)
    return True


FAULTS: tuple[Callable[[FabricOfImpostors, int], bool], ...] = (
    unnamed, unnamed, unnamed_and_crossed, unnamed_and_crossed, crossed, other_devices, other_devices, lost_card, exchanged_hosts,
    exchanged_switches, unnamed_switch, replaced, moved, stranger, dead, other_case,
)  # fmt: skip


def without_guids(plan: Plan) -> Plan:
    """Return a plan without GUIDs, as before the first record."""
    return replace(
        plan,
        switches={name: replace(one, guid="") for name, one in plan.switches.items()},
        hcas={name: replace(one, guid="", port_guid="") for name, one in plan.hcas.items()},
    )
