"""The fabrics on which other generators of Slurm topologies fail, and what the right answer is for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, DiscoveredNode, Discovery
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.plan_of_discovery import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    STORAGE,
    Domain,
    Hca,
    Plan,
    Switch,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    dragonfly,
    leaf_spine,
    rail_only,
    rail_optimised,
    three_tier,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import connect, discovery_of


def hosts(count: int, rails: int = 1, each: int = 1000, units: str = "su0") -> list[WiredHost]:
    """Return hosts with so many HCAs, `each` of them in a rack and unit."""
    nics = [WiredNic(f"mlx5_{rail}", rail) for rail in range(rails)]
    return [WiredHost(f"gpu{n}", nics, f"r{n // each}", f"{units}{n // each}") for n in range(count)]


def standing(plan: Plan) -> Plan:
    """Put leaves of which no rack is known into that of their first host, as a cluster file would state it."""
    for link in plan.links:
        leaf = plan.switches.get(link.b)
        if leaf and not leaf.rack and link.a in plan.hcas:
            plan.switches[leaf.name] = replace(leaf, rack=plan.hcas[link.a].rack)
    return plan


def rails(count: int = 4, each: int = 1000, spines: Sequence[str] = ("spine0", "spine1")) -> Plan:
    return rail_optimised(hosts(count, 2, each), FabricShape(ports=16, spines=spines, uplinks=4))


def without(plan: Plan, *ends: tuple[str, int]) -> Plan:
    """Return a plan without some cables, as one that was discovered has them: not there at all."""
    plan.links = [link for link in plan.links if not set(link.ends) & set(ends)]
    return plan


def rail_partial() -> Plan:
    return without(rails(), ("gpu3 mlx5_1", 1))


def rail_partial_planned() -> Plan:
    plan = rails()
    plan.links = [replace(link, missing=link.a == "gpu3 mlx5_1") for link in plan.links]
    return plan


def planes() -> Plan:
    shape = FabricShape(ports=16, spines=["s0", "s1", "s2", "s3"], uplinks=2, oversubscription=2)
    return rail_only(hosts(8, 2, 4), shape)


def compute_storage(purpose: str = STORAGE) -> Plan:
    nics = [WiredNic("mlx5_0", 0)]
    plan = leaf_spine(
        [WiredHost(name, nics, rack) for name, rack in zip("abcd", "1122", strict=True)], FabricShape(spines=["s"])
    )
    plan.add(Switch("sw-storage", 64, 1))
    for host in "abcd":
        plan.add(Hca(host, "mlx5_1", purpose=purpose))
        plan.join(f"{host} mlx5_1", "sw-storage", "host")
    plan.join("sw-storage", "s", "leaf-spine")
    return plan


def storage_ufm() -> Plan:
    plan = leaf_spine(hosts(8, 1, 4), FabricShape(spines=["spine0", "spine1"], uplinks=4))
    plan.add(Switch("leaf-oss", 64, 1))
    for host, leaf in (("oss0", "leaf-oss"), ("oss1", "leaf-oss"), ("ufm01", "spine0")):
        plan.add(Hca(host, "mlx5_0", purpose=STORAGE))
        plan.join(f"{host} mlx5_0", leaf, "host")
    for spine in ("spine0", "spine1"):
        plan.join("leaf-oss", spine, "leaf-spine")
    return plan


def three_level() -> Plan:
    shape = FabricShape(ports=16, spines=["p0s0", "p0s1", "p1s0", "p1s1"], cores=["c0", "c1"], uplinks=4)
    return three_tier([replace(host, leaf=f"l{n // 2}") for n, host in enumerate(hosts(8, 1, 4, "pod"))], shape)


def three_groups() -> Plan:
    found = [replace(host, leaf=f"g{n // 4}-r{n // 2 % 2}") for n, host in enumerate(hosts(12, 1, 4, "g"))]
    return dragonfly(found, FabricShape(ports=16))


def mixed_depth() -> Plan:
    plan = leaf_spine(hosts(8, 1, 4), FabricShape(spines=["spine0", "spine1"], uplinks=4))
    plan.add(Hca("gpu9", "mlx5_0"))
    plan.join("gpu9 mlx5_0", "spine0", "host")
    return plan


def miswire() -> Plan:
    plan = without(leaf_spine(hosts(12, 1, 4), FabricShape(spines=["spine0", "spine1"], uplinks=4)), ("leaf-r2", 61))
    plan.join("leaf-r2", "leaf-r0", "leaf-spine")
    return plan


def dual_port() -> Plan:
    plan = leaf_spine(hosts(4), FabricShape(spines=["spine0", "spine1"], uplinks=4))
    plan.add(Switch("leaf-r0b", 64, 1))
    for host in range(4):
        plan.used[f"gpu{host} mlx5_0"] = 1
        plan.join(f"gpu{host} mlx5_0", "leaf-r0b", "host")
    for spine in ("spine0", "spine1"):
        plan.join("leaf-r0b", spine, "leaf-spine")
    return plan


def ring() -> Plan:
    plan = Plan("ring", "ring")
    for number in range(5):
        plan.add(Switch(f"sw{number}", 16, 1), Hca(f"n{number}", "mlx5_0"))
        plan.join(f"n{number} mlx5_0", f"sw{number}", "host")
    for number in range(5):
        plan.join(f"sw{number}", f"sw{(number + 1) % 5}", "local")
    return plan


def two_fabrics() -> Plan:
    plan = leaf_spine(hosts(4, 1, 2), FabricShape(spines=["a"], uplinks=2))
    other = leaf_spine(
        [WiredHost(f"cpu{n}", [WiredNic("mlx5_0", 0)], f"q{n // 2}") for n in range(4)], FabricShape(spines=["b"])
    )
    plan.add(*other.switches.values(), *other.hcas.values())
    plan.links += other.links
    return plan


def named() -> Plan:
    """Return hosts of which one has a name that is none of Slurm's hostlists."""
    nics = [WiredNic("mlx5_0")]
    return leaf_spine(
        [WiredHost(name, nics, "r0") for name in ("gpu0", "gpu1", "gpu2", "o'brien")], FabricShape(spines=["s"])
    )


def oversubscribed() -> Plan:
    return leaf_spine(hosts(16, 1, 8), FabricShape(ports=16, spines=["s0", "s1"], uplinks=4, oversubscription=2))


def roce() -> Plan:
    nics = [WiredNic(f"enp{n}s0f0", n) for n in range(2)]
    shape = FabricShape(
        technology="ethernet", speed="400G", width="", ports=32, spines=["sw-agg1", "sw-agg2"], uplinks=8
    )
    return leaf_spine([WiredHost(f"gpu{n}", nics, f"r{n // 4}", leaf=f"tor{n // 4}") for n in range(8)], shape)


def cores_by_rail() -> Plan:
    """Return four units of two rails; each rail has spines of its own, and only cores join the rails."""
    shape = FabricShape(ports=16, spines=[f"s{n}" for n in range(8)], cores=["c0", "c1"], uplinks=4)
    return rail_optimised(hosts(16, 2, 4), shape)


def dragonfly_plus() -> Plan:
    return dragonfly(hosts(12, 1, 4, "g"), FabricShape(ports=16, spines=[f"s{n}" for n in range(6)], uplinks=4))


def nvlink_racks() -> Plan:
    """Return four racks of 18 hosts, each an NVLink domain, and a leaf for each rack and rail."""
    nics = [WiredNic(f"mlx5_{rail}", rail) for rail in range(4)]
    listed = [WiredHost(f"n{n:03}", nics, f"r{n // 18}", f"nvl{n // 18}") for n in range(72)]
    plan = rail_optimised(listed, FabricShape(ports=64, spines=[f"s{n}" for n in range(6)], uplinks=18))
    plan.domains = [Domain(f"nvl{k}", tuple(f"n{n:03}" for n in range(18 * k, 18 * k + 18))) for k in range(4)]
    return plan


def one_leaf() -> Plan:
    plan = Plan("small", "leaf-spine")
    plan.add(Switch("sw", 8, 1), Hca("n1", "mlx5_0"), Hca("n2", "mlx5_0"))
    for host in ("n1", "n2"):
        plan.join(f"{host} mlx5_0", "sw", "host")
    return plan


def damaged() -> Plan:
    """Return four units of four rails, two hosts with rails 2 and 3 swapped, and every ninth uplink absent: as a real one was."""
    plan = rail_optimised(hosts(32, 4, 8), FabricShape(ports=32, spines=[f"spine{n}" for n in range(4)], uplinks=8))
    far = {link.a: number for number, link in enumerate(plan.links) if link.kind == "host"}
    for host in ("gpu9", "gpu17"):
        one, other = far[f"{host} mlx5_2"], far[f"{host} mlx5_3"]
        low, high = plan.links[one], plan.links[other]
        plan.links[one], plan.links[other] = replace(low, a=high.a), replace(high, a=low.a)
    plan.links = [link for n, link in enumerate(plan.links) if link.kind == "host" or n % 9]
    return plan


@dataclass
class Case:
    """A plan, and the tree: Slurm's switch -> hostlist of nodes, or of switches after a `+`; `found` is the place of each finding."""

    plan: Callable[[], Plan]
    tree: dict[str, str]
    found: Sequence[str] = ()
    param: str = ""
    # Of the same fabric as it is discovered, where that differs: nothing tells what storage is but a pattern.
    storage: str = ""
    group: str = ""
    # The tree when discovered: names of units are not known, so leaves give theirs.
    seen: dict[str, str] | None = None
    # How HCAs say their names, where it is not as planned.
    told: dict[str, str] = field(default_factory=dict)


RAILS = {"su00": "gpu[0-3]", "top": "+su00"}
RAILS_SEEN = {"leaf-su00-r0": "gpu[0-3]", "top": "+leaf-su00-r0"}
POD = {"leaf-r0": "gpu[0-3]", "leaf-r1": "gpu[4-7]", "top": "+leaf-r[0-1]"}
FOUR = {f"su0{n}": f"gpu[{8 * n}-{8 * n + 7}]" for n in range(4)}

CASES = {
    "rail_full": Case(rails, RAILS, seen=RAILS_SEEN),
    "rail_partial": Case(rail_partial, RAILS, seen=RAILS_SEEN),
    "rail_partial_planned": Case(rail_partial_planned, RAILS, seen=RAILS_SEEN),
    "rail_unnamed": Case(
        rails, RAILS, seen=RAILS_SEEN, told={"gpu3 mlx5_1": "MT4129 ConnectX7   Mellanox Technologies"}
    ),
    "rail_only_spines": Case(
        planes,
        {"su00": "gpu[0-3]", "su01": "gpu[4-7]", "top": "+su[00-01]"},
        seen={"leaf-su00-r0": "gpu[0-3]", "leaf-su01-r0": "gpu[4-7]", "top": "+leaf-su[00-01]-r0"},
    ),
    "compute_storage": Case(
        compute_storage, {"leaf-1": "a,b", "leaf-2": "c,d", "top": "+leaf-[1-2]"}, storage="mlx5_1"
    ),
    "compute_storage_untagged": Case(
        lambda: compute_storage("compute"),
        {"leaf-1": "a,b", "leaf-2": "c,d", "top": "+leaf-[1-2]"},
        ["sw-storage"],
    ),
    "storage_ufm": Case(storage_ufm, POD, storage="^(oss|ufm)"),
    "three_level": Case(
        three_level,
        {
            "l0": "gpu[0-1]",
            "l1": "gpu[2-3]",
            "l2": "gpu[4-5]",
            "l3": "gpu[6-7]",
            "pod0": "+l[0-1]",
            "pod1": "+l[2-3]",
            "top": "+pod[0-1]",
        },
        seen={
            "l0": "gpu[0-1]",
            "l1": "gpu[2-3]",
            "l2": "gpu[4-5]",
            "l3": "gpu[6-7]",
            "p0s0": "+l[0-1]",
            "p1s0": "+l[2-3]",
            "top": "+p[0-1]s0",
        },
    ),
    "dragonfly": Case(
        three_groups,
        {
            **{f"g{n // 2}-r{n % 2}": f"gpu[{2 * n}-{2 * n + 1}]" for n in range(6)},
            **{f"g{n}": f"+g{n}-r[0-1]" for n in range(3)},
            "top": "+g[0-2]",
        },
        param="dragonfly",
        group="^g[0-9]+",
    ),
    "mixed_depth": Case(
        mixed_depth,
        {**POD, "spine0": "gpu9", "top": "+leaf-r[0-1],spine0"},
        ["spine0"],
    ),
    "names": Case(
        named,
        {"leaf-r0": "gpu[0-2],o'brien", "top": "+leaf-r0"},
        seen={"leaf-r0": "gpu[0-2]", "top": "+leaf-r0"},
        told={
            "gpu0 mlx5_0": "gpu0.example.com mlx5_0",
            "gpu1 mlx5_0": "gpu1",
            "gpu2 mlx5_0": "gpu2 (HCA-1) mlx5_0",
        },
    ),
    "miswire_leaf_leaf": Case(
        miswire,
        {"leaf-r0": "gpu[0-3]", "leaf-r1": "gpu[4-7]", "leaf-r2": "gpu[8-11]", "top": "+leaf-r[0-2]"},
    ),
    "dual_port": Case(dual_port, {"leaf-r0": "gpu[0-3]", "top": "+leaf-r0"}),
    "ring5": Case(ring, {**{f"sw{n}": f"n{n}" for n in range(5)}, "top": "+sw[0-4]"}),
    "damaged": Case(
        damaged,
        {**FOUR, "top": "+su[00-03]"},
        seen={
            **{f"leaf-{name}-r0": nodes for name, nodes in FOUR.items()},
            "top": "+leaf-su[00-03]-r0",
        },
    ),
    "two_fabrics": Case(
        two_fabrics,
        {
            "leaf-r0": "gpu[0-1]",
            "leaf-r1": "gpu[2-3]",
            "leaf-q0": "cpu[0-1]",
            "leaf-q1": "cpu[2-3]",
            "top-a": "+leaf-r[0-1]",
            "top-b": "+leaf-q[0-1]",
        },
    ),
    "one_leaf": Case(one_leaf, {"sw": "n[1-2]"}),
    "oversubscribed": Case(oversubscribed, {"leaf-r0": "gpu[0-7]", "leaf-r1": "gpu[8-15]", "top": "+leaf-r[0-1]"}),
    "roce": Case(roce, {"tor0": "gpu[0-3]", "tor1": "gpu[4-7]", "top": "+tor[0-1]"}),
    "cores_by_rail": Case(
        cores_by_rail,
        {**{f"su0{n}": f"gpu[{4 * n}-{4 * n + 3}]" for n in range(4)}, "top": "+su[00-03]"},
        seen={
            **{f"leaf-su0{n}-r0": f"gpu[{4 * n}-{4 * n + 3}]" for n in range(4)},
            "top": "+leaf-su[00-03]-r0",
        },
    ),
    "dragonfly_plus": Case(
        dragonfly_plus,
        {**{f"leaf-r{n}": f"gpu[{4 * n}-{4 * n + 3}]" for n in range(3)}, "top": "+leaf-r[0-2]"},
        param="dragonfly",
    ),
    "nvlink_racks": Case(
        nvlink_racks,
        {**{f"nvl{n}": f"n[{18 * n:03}-{18 * n + 17:03}]" for n in range(4)}, "top": "+nvl[0-3]"},
        seen={
            **{f"leaf-nvl{n}-r0": f"n[{18 * n:03}-{18 * n + 17:03}]" for n in range(4)},
            "top": "+leaf-nvl[0-3]-r0",
        },
    ),
}
# LLDP finds Ethernet, and ibnetdiscover all else.
INFINIBAND = {name: case for name, case in CASES.items() if name != "roce"}


def discovered(case: Case) -> tuple[Plan, list[Finding]]:
    """Return the case as a plan made of its discovery, with SHARP's node on every switch, and the findings."""
    plan = case.plan()
    found = {plane: discovery_of(plan, plane) for plane in plan.planes}
    for discovery in found.values():
        aggregation(discovery)
        for node in discovery.nodes.values():
            node.description = case.told.get(node.description, node.description)
    made, findings = plan_of(found, storage=case.storage, group=case.group)
    return made, findings


def aggregation(discovery: Discovery) -> None:
    """Add the node that SHARP has at the last port of every switch."""
    for number, switch in enumerate(discovery.switches):
        node = DiscoveredNode(f"a0{number:014x}", CA, 1, "Mellanox Technologies Aggregation Node", 0)
        discovery.nodes[node.guid] = node
        connect(node, 1, switch, switch.ports + 1, "4x", "HDR")
