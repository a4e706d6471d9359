"""Slurm's topology files: the hard cases of fabric.md, versions, names; slurmctld is asked where it is installed."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import yaml as pyyaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.plan_of_discovery import HOST, plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    leaf_spine,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import discovery_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology import slurm_topology
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_names import safe
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_topology import (
    Topology,
    TopologyError,
    blocks,
    conf,
    shown,
    tree,
)
from tests.unit.fabric import cases
from tests.unit.fabric.cases import CASES, Case, discovered
from tests.unit.fabric.messages import check_messages

SLURM_CONF = """\
ClusterName=test
SlurmctldHost=c1(10.0.0.1)
AuthType=auth/none
SelectType=select/cons_tres
StateSaveLocation=/nonexistent/state
{options}
NodeName={nodes} NodeAddr=127.0.0.1 Port=[{ports}] CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES
"""
SHOWN = re.compile(r"SwitchName=(\S+) Level=(\d+) LinkSpeed=\d+ (?:Nodes=(\S*))?(?: Switches=(\S*))?")


def as_tree(topology: Topology) -> dict[str, str]:
    return {
        switch.name: fold(switch.nodes) if switch.nodes else f"+{fold(switch.switches)}" for switch in topology.switches
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_hard_case(case: Case):
    topology = tree(case.plan())
    assert as_tree(topology) == case.tree
    assert topology.param == case.param
    assert [one.where for one in topology.findings] == list(case.found)
    if topology.findings:
        check_messages(f"Slurm's tree: {next(name for name in CASES if CASES[name] is case)}", topology.findings)


@pytest.mark.parametrize("case", cases.INFINIBAND.values(), ids=cases.INFINIBAND)
def test_hard_case_as_it_is_discovered(case: Case):
    plan, findings = discovered(case)
    topology = tree(plan)
    leaves = {tuple(sorted(one.nodes)) for one in topology.switches if one.nodes}
    wanted = case.seen or case.tree
    assert leaves == {tuple(sorted(expand(nodes))) for nodes in wanted.values() if nodes[0] != "+"}
    assert as_tree(topology) == wanted
    assert "aggregation" in {one.kind for one in findings}


def test_unnamed_hca_of_a_rail_changes_nothing_and_is_told():
    plan = cases.rails()
    hca = plan.hcas.pop("gpu3 mlx5_1")
    unnamed = replace(hca, host="MT4129", device="ConnectX7   Mellanox Technologies")
    plan.add(unnamed)
    plan.links = [replace(link, a=unnamed.name) if link.a == hca.name else link for link in plan.links]
    found, findings = discovered(Case(lambda: plan, {}))
    assert as_tree(tree(found)) == cases.RAILS_SEEN
    unnamed_ones = [one for one in findings if one.kind == "unnamed"]
    assert [one.where for one in unnamed_ones] == ["leaf-su00-r1 port 4"]
    check_messages("discovered topology: an HCA without a name", unnamed_ones)


def test_a_plan_with_slurms_nodes_is_told_what_lacks():
    topology = tree(cases.rails(), nodes=["gpu0", "gpu1", "gpu7", "cpu1"])
    assert as_tree(topology) == {"su00": "gpu[0-1]", "top": "+su00"}
    assert [(one.severity, one.where) for one in topology.findings] == [("error", "cpu1,gpu7")]


NAMES = {
    "gpu0 mlx5_0": "gpu0.example.com mlx5_0",
    "gpu1 mlx5_0": "gpu1",
    "gpu2 mlx5_0": "gpu2 (HCA-1) mlx5_0",
    "gpu3 mlx5_0": "o'brien mlx5_0",
}


@pytest.mark.parametrize(("host", "nodes"), [(HOST, "gpu[0-2]"), (r"(?P<host>[a-z0-9']+).*", "gpu[0-2],o'brien")])
def test_names_no_device_domain_parentheses_and_quote(host: str, nodes: str):
    discovery = discovery_of(leaf_spine(cases.hosts(4), FabricShape(spines=["s"])))
    for node in discovery.nodes.values():
        node.description = NAMES.get(node.description, node.description)
    plan, findings = plan_of({"": discovery}, host=host)
    assert as_tree(tree(plan)) == {"leaf-r0": nodes, "top": "+leaf-r0"}
    told = [one.where for one in findings if one.kind == "unnamed" and "o'brien" in one.found]
    assert told == (["leaf-r0 port 4"] if host == HOST else [])


def test_many_plans_have_roots_of_their_own_and_each_node_once():
    compute, storage = cases.rails(), replace(cases.two_fabrics(), name="storage")
    topology = tree([replace(compute, name="compute"), storage])
    nodes = [node for switch in topology.switches for node in switch.nodes]
    assert sorted(nodes) == sorted(set(nodes)) == [*(f"cpu{n}" for n in range(4)), *(f"gpu{n}" for n in range(4))]
    assert [one.name for one in topology.switches if not _parents(topology, one.name)] == ["top-compute", "top-storage"]


def _parents(topology: Topology, name: str) -> list[str]:
    return [one.name for one in topology.switches if name in one.switches]


def test_tiers_are_one_switch_for_each_group_and_never_one_for_each_spine():
    plan = cases.three_level()
    assert len(plan.switches) == 4 + 4 + 2
    topology = tree(plan)
    assert [one.stands_for for one in topology.switches if one.switches] == [
        ("p0s0", "p0s1"), ("p1s0", "p1s1"), ("c0", "c1")
    ]  # fmt: skip
    assert [one.level for one in topology.switches] == [0, 0, 0, 0, 1, 1, 2]


def test_order_of_discovery_changes_nothing():
    text = conf(tree(cases.damaged()), "24.11")
    for seed in range(5):
        plan = cases.damaged()
        mixed = random.Random(seed)
        mixed.shuffle(plan.links)
        for table in ("switches", "hcas"):
            names = list(getattr(plan, table))
            mixed.shuffle(names)
            setattr(plan, table, {name: getattr(plan, table)[name] for name in names})
        assert _lines(conf(tree(plan), "24.11")) == _lines(text)


def _lines(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.parametrize(
    "name", ["001", "1e3", "0x1f", "0o17", "on", "Y", "t", "null", "~", "1_000", ".5", "-", "leaf[1]", "a b", "", "é",
             "1:30", "2026-08-01", "inf", ".nan", "no", "x" * 80, "=", "<<"],
)  # fmt: skip
def test_a_safe_name_is_text_everywhere(name: str):
    plain = safe(name)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,63}", plain)
    assert pyyaml.safe_load(plain) == plain
    assert safe(plain) == plain


def test_switches_whose_names_become_the_same_stay_apart_and_are_told():
    plan = cases.leaf_spine(
        [
            WiredHost(f"n{n}", [WiredNic("m", 0)], "r", leaf=leaf)
            for n, leaf in enumerate(["a[1]", "a-1", "A-1", "001"])
        ],
        FabricShape(spines=["on"]),
    )
    topology = tree(plan)
    names = [switch.name for switch in topology.switches]
    assert len({name.lower() for name in names}) == len(names) == 5
    assert {one.where for one in topology.findings} >= {"a[1]", "001"}


DOMAINS = {f"nvl{n}": [f"n{18 * n + m:03}" for m in range(18)] for n in range(4)}


def test_blocks_of_nvlink_domains():
    topology = blocks([], "24.11", domains=DOMAINS)
    assert conf(topology, "24.11") == (
        "BlockName=nvl0 Nodes=n[000-017]\nBlockName=nvl1 Nodes=n[018-035]\nBlockName=nvl2 Nodes=n[036-053]\n"
        "BlockName=nvl3 Nodes=n[054-071]\nBlockSizes=18,36,72\n"
    )
    assert topology.options == {"TopologyPlugin": "topology/block"}


def test_blocks_of_a_fabric_are_its_leaves_in_physical_order():
    topology = blocks(cases.damaged(), "24.11")
    assert {name: fold(nodes) for name, nodes in topology.blocks.items()} == cases.FOUR
    assert list(topology.blocks) == sorted(topology.blocks)


TREE = tree(cases.rails())


REFUSED: dict[str, Callable[[], object]] = {
    "topology.yaml of an old release": lambda: slurm_topology.yaml({"a": TREE}, "24.11"),
    "blocks of an old release": lambda: conf(blocks([], "22.05", domains=DOMAINS), "22.05"),
    "sizes that do not double": lambda: blocks([], "24.11", domains=DOMAINS, sizes=[18, 54]),
    "sizes that do not rise": lambda: blocks([], "26.05", domains=DOMAINS, sizes=[36, 18]),
    "a node in two blocks": lambda: blocks([], "25.11", domains={"a": ["n1"], "b": ["n1"]}),
    "a small block of an old release": lambda: blocks([], "24.11", domains={**DOMAINS, "small": ["x1"]}, sizes=[18]),
    "no node": lambda: blocks([], "24.11", domains={"a": []}),
    "size of 0": lambda: blocks([], "24.11", domains=DOMAINS, sizes=[0]),
    "release that is none": lambda: conf(TREE, "slurm-24"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_version_does_not_take_is_refused_with_what_is_allowed(name: str):
    with pytest.raises(TopologyError) as error:
        REFUSED[name]()
    check_messages(f"Slurm's topology: {name}", error.value)


def test_from_25_05_on_a_block_may_be_small():
    topology = blocks([], "25.05", domains={**DOMAINS, "small": ["x1"]})
    assert list(topology.sizes) == [18, 36, 72]
    assert blocks([], "24.11", domains={**DOMAINS, "small": ["x1"]}).sizes[0] == 1


@pytest.mark.parametrize("version", ["25.05", "26.05.5"])
def test_yaml_says_what_conf_says(version: str):
    for case in CASES.values():
        topology = tree(case.plan())
        text = slurm_topology.yaml({"default": topology, "2": topology}, version)
        assert text == slurm_topology.yaml({"default": tree(case.plan()), "2": topology}, version)
        read = pyyaml.safe_load(text)
        assert [(one["topology"], one["cluster_default"]) for one in read] == [("default", True), ("sw-2", False)]
        switches = read[0]["tree"]["switches"]
        assert all(set(one) in ({"switch", "nodes"}, {"switch", "children"}) for one in switches)
        assert (
            {one["switch"]: one["nodes"] if "nodes" in one else f"+{one['children']}" for one in switches}
            == as_tree(topology)
            == case.tree
        )
        assert f"SwitchName={topology.switches[-1].name} " in conf(topology, version)


def test_yaml_of_blocks():
    read = pyyaml.safe_load(slurm_topology.yaml({"nvl": blocks([], "25.05", domains=DOMAINS)}, "25.05"))
    assert read[0]["block"]["block_sizes"] == [18, 36, 72]
    assert read[0]["block"]["blocks"][1] == {"block": "nvl1", "nodes": "n[018-035]"}


def test_a_node_that_yaml_reads_as_no_text():
    def one(name: str) -> Topology:
        return tree(leaf_spine([WiredHost(name, [WiredNic("m", 0)], "r")], FabricShape(spines=["s"])))

    assert (
        pyyaml.safe_load(slurm_topology.yaml({"a": one("1e3")}, "25.05"))[0]["tree"]["switches"][0]["nodes"] == "1e[3]"
    )
    with pytest.raises(TopologyError) as error:
        slurm_topology.yaml({"a": one("on")}, "25.05")
    check_messages("Slurm's topology: a node called on", error.value)
    assert '"on"' in slurm_topology.yaml({"a": one("on")}, "26.05")


def ask(topology: Topology, version: str) -> config_trial.Result:
    nodes = [node for switch in topology.switches for node in switch.nodes]
    options = "\n".join(f"{key}={value}" for key, value in topology.options.items())
    text = SLURM_CONF.format(options=options, nodes=fold(nodes, False), ports=f"7001-{7000 + len(nodes)}")
    return answer(text, conf(topology, version))


@cache
def answer(slurm_conf: str, topology_conf: str) -> config_trial.Result:
    """Ask slurmctld once where several cases come to the same files."""
    return config_trial.run({"slurm.conf": slurm_conf, "topology.conf": topology_conf})


# Of the cases that are no trap for other tools, make test asks.
COMMON = ("one_leaf", "oversubscribed", "roce", "cores_by_rail", "dragonfly_plus", "nvlink_racks", "damaged")


@pytest.mark.tools("slurmctld", "scontrol")
@pytest.mark.parametrize(
    ("name", "live"),
    [
        *(pytest.param(name, False, marks=pytest.mark.simulation if name in COMMON else ()) for name in CASES),
        ("names", True),
        ("rail_unnamed", True),
    ],
)
def test_slurmctld_takes_it_and_shows_the_plan(name: str, live: bool):
    # All the others as they are discovered, too, are asked of newer releases in test_slurm_releases.py.
    topology = tree(discovered(CASES[name])[0] if live else CASES[name].plan())
    result = ask(topology, "22.05")
    assert (result.tested, result.accepted, result.fatal) == (True, True, []), result.log
    assert result.errors == []
    # Of several roots, Slurm says that no job can span them: that is so, and nowhere else.
    assert ("no switch can reach all nodes" in result.log) is (name == "two_fabrics")
    found = {}
    for line in result.topology:
        match = SHOWN.match(line)
        assert match, line
        found[match[1]] = (int(match[2]), set(expand(match[3] or "")), set(expand(match[4] or "")))
    assert found == {
        switch: (level, set(expand(nodes)), set(expand(below)))
        for switch, (level, nodes, below) in shown(topology).items()
    }
