"""NVLink domains of the cluster file: domains of the plan, and blocks for Slurm, by its release."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Domain
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import domains_of, plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import slurm_proof
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.requested_proofs import of_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.planned_topologies import topologies
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.render import expected
from tests.kit.fabric_files import artefacts
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.topology.nvlink_site import BLOCKS, MIXED, make_site

CONF = (
    "# slurm.conf: TopologyPlugin=topology/block\n"
    + "".join(f"BlockName={name} Nodes={nodes}\n" for name, nodes in BLOCKS)
    + "BlockSizes=18,36,72\n"
)


@pytest.fixture
def site(tmp_path: Path) -> Callable[..., Cluster]:
    return partial(make_site, tmp_path)


def of_yaml(text: str) -> dict[str, tuple[bool, str]]:
    return {
        one["topology"]: (one["cluster_default"], "block" if "block" in one else "tree") for one in yaml.safe_load(text)
    }


def test_blocks_are_the_topology_where_all_nodes_have_one(site):
    files = artefacts(site(), "24.11")
    assert files["slurm/topology.conf"] == CONF
    assert "slurm/topology.yaml" not in files


def test_verify_expects_the_blocks(site):
    assert expected(site())["topology"] == {
        name: {"level": "block", "nodes": nodes, "switches": ""} for name, nodes in BLOCKS
    }


def test_from_25_05_on_there_is_the_tree_beside_them(site):
    files = artefacts(site(), "25.05")
    assert files["slurm/topology.conf"] == CONF
    assert of_yaml(files["slurm/topology.yaml"]) == {"block": (True, "block"), "tree": (False, "tree")}
    (first, _tree) = yaml.safe_load(files["slurm/topology.yaml"])
    assert first["block"]["block_sizes"] == [18, 36, 72]
    assert [(one["block"], one["nodes"]) for one in first["block"]["blocks"]] == BLOCKS


def test_nodes_outside_are_in_the_tree_which_goes_first(site):
    files = artefacts(site(MIXED), "25.05")
    assert files["slurm/topology.conf"].startswith("# slurm.conf: TopologyPlugin=topology/tree\n")
    assert of_yaml(files["slurm/topology.yaml"]) == {"tree": (True, "tree"), "block": (False, "block")}
    assert "SwitchName=su1-r0 Nodes=cpu[1-2],n[01-72]\n" in files["slurm/topology.conf"]


@pytest.mark.parametrize(("version", "edits"), [("22.05", ()), ("22.05", (MIXED,)), ("24.11", (MIXED,))])
def test_where_slurm_takes_no_blocks_it_gets_the_tree_and_that_is_said(site, version, edits):
    cluster = site(*edits)
    files = artefacts(cluster, version)
    assert files["slurm/topology.conf"].startswith("# slurm.conf: TopologyPlugin=topology/tree\n")
    findings = topologies(cluster, plan_of(cluster), version).findings
    assert ("NVLink domains", "warning") in [(one.where, one.severity) for one in findings]
    assert all(one.difference in files["fabric.html"] for one in findings)
    check_messages(f"blocks: Slurm {version}{' with nodes in none' if edits else ''}", findings)
    assert of_plan(cluster, version).blocks is None


def test_domains_are_as_many_as_whole_ones_fit_into_a_rack(site):
    half = site(("nvlink_domain: 18", "nvlink_domain: 9"))
    assert domains_of(half)[:2] == [
        Domain("n1-1", tuple(f"n{n:02}" for n in range(1, 10)), "n1", 9),
        Domain("n1-2", tuple(f"n{n:02}" for n in range(10, 19)), "n1", 9),
    ]
    of_rack = site(("nvlink_domain: 18,\n", "\n"), ("profile: gb200}", "profile: gb200, nvlink_domain: 18}"), MIXED)
    assert [(one.name, len(one.hosts), one.expected) for one in domains_of(of_rack)] == [
        (f"n{n}", 18, 18) for n in range(1, 5)
    ]
    assert domains_of(site(("nvlink_domain: 18,\n", "\n"))) == []


def test_a_domain_that_is_not_whole_is_told_of_and_can_be_meant(site, tmp_path: Path):
    short = ('n[1-4]: {leaf: su1, nodes: "n[01-72]"', 'n[1-4]: {leaf: su1, nodes: "n[01-68]"')
    with pytest.raises(PlanError) as error:
        artefacts(site(short))
    assert str(error.value).endswith("[docs/fabric.md, P12]")
    check_messages("blocks: domains that are not whole", error.value, tmp_path)
    meant = artefacts(site(short, ("profile: gb200}", "profile: gb200, nvlink_domain: 17}")), "24.11")
    assert "BlockSizes=17,34,68\n" in meant["slurm/topology.conf"]


def test_racks_out_of_order_are_told_of(site, tmp_path: Path):
    racks = (
        '  n2: {leaf: su1, nodes: "n[19-36]", profile: gb200}\n  n1: {leaf: su1, nodes: "n[01-18]", profile: gb200}\n'
    )
    with pytest.raises(PlanError, match=r"\[docs/fabric.md, P12\]") as error:
        artefacts(site(('  n[1-4]: {leaf: su1, nodes: "n[01-72]", profile: gb200}\n', racks)))
    check_messages("blocks: racks out of order", error.value, tmp_path)


def test_a_plan_without_domains_has_its_tree_alone(site):
    cluster = site(("nvlink_domain: 18,\n", "\n"))
    found = topologies(cluster, plan_of(cluster), "25.05")
    assert (list(found.named), found.blocks) == (["default"], None)


@pytest.mark.parametrize(
    ("version", "lines", "found"),
    [
        ("22.05.8", [], []),
        ("24.11.5", [f"BlockName={name} BlockIndex=0 Nodes={nodes} BlockSize=18" for name, nodes in BLOCKS],
         []),
        ("24.11.5", [f"BlockName={name} BlockIndex=0 Nodes={nodes} BlockSize=18" for name, nodes in [*BLOCKS[:2], ("n3", "n[37-53]")]],
         ["topology.conf, block n3", "topology.conf, block n4"]),
    ],
)  # fmt: skip
def test_blocks_are_proved_by_a_slurmctld_that_knows_them(site, monkeypatch, version, lines, found):
    blocks = of_plan(site(), "24.11").blocks
    asked = []

    def run(files, deadline):
        asked.append(files)
        return SimpleNamespace(
            tested=True, accepted=bool(lines), version=version, topology=lines, errors=[], message=""
        )

    monkeypatch.setattr(slurm_proof.config_trial, "run", run)
    wrong, word = slurm_proof.prove_blocks(blocks.topology, blocks.shown, blocks.options)
    assert [one.where for one in wrong] == found
    check_messages(f"blocks: proved by {version}, {len(lines)} shown, {len(wrong)} wrong", [word, *wrong])
    assert "TopologyPlugin=topology/block\nNodeName=n[01-72] " in asked[0]["slurm.conf"]


@pytest.mark.parametrize(
    ("version", "edits", "plugin"),
    [
        ("24.11", (), "block"),
        ("25.05", (), "block"),
        ("22.05", (), "tree"),
        ("24.11", (MIXED,), "tree"),
        ("25.05", (MIXED,), "tree"),
    ],
)
def test_what_is_deployed_is_what_is_planned(site, version, edits, plugin):
    cluster = site(("fabric:", f'slurm: {{version: "{version}"}}\nfabric:'), *edits)
    files = render.slurm_files(cluster)
    assert f"TopologyPlugin=topology/{plugin}\n" in files["slurm.conf"]
    planned = artefacts(cluster)["slurm/topology.conf"]
    for line in files["topology.conf"].splitlines():
        assert line.startswith("#") or f"{line}\n" in planned
    assert ("BlockSizes=18,36,72" in files["topology.conf"]) is (plugin == "block")
    levels = {one["level"] for one in render.expected(cluster)["topology"].values()}
    assert levels == ({"block"} if plugin == "block" else {"0", "1"})


@pytest.mark.parametrize(
    ("version", "edits", "allowed"), [("24.11", (), "block"), ("22.05", (), "tree"), ("24.11", (MIXED,), "tree")]
)
def test_another_plugin_than_that_of_the_topology_is_a_mistake(site, version, edits, allowed):
    other = "tree" if allowed == "block" else "block"
    options = f'slurm: {{version: "{version}", options: {{TopologyPlugin: topology/{other}}}}}'
    with pytest.raises(ClusterFileError, match=rf"slurm.options.TopologyPlugin: .* Allowed: topology/{allowed}\."):
        site(("fabric:", f"{options}\nfabric:"), *edits)


def test_nodes_without_a_nic_in_the_fabric_have_a_switch_that_nothing_joins(site):
    without = ("nics: {name: mlx5_0, rail: 0}}\nracks", "nics: {name: mlx5_0}}\nracks")
    files = artefacts(site(MIXED, without), "24.11")
    assert "SwitchName=no-fabric Nodes=cpu[1-2]\n" in files["slurm/topology.conf"]
    assert "SwitchName=spine Switches=su1-r0\n" in files["slurm/topology.conf"]
    found = site(MIXED, without)
    check_messages("Slurm's tree: nodes without a NIC", topologies(found, plan_of(found), "24.11").findings)
    named = artefacts(site(MIXED, without, ("spines:", "top: no-fabric, spines:")), "24.11")
    assert "SwitchName=no-fabric-2 Nodes=cpu[1-2]\n" in named["slurm/topology.conf"]


@pytest.mark.tools("slurmctld", "scontrol")
def test_slurmctld_takes_a_switch_that_nothing_joins(site):
    tree = of_plan(site(MIXED, ("nics: {name: mlx5_0, rail: 0}}\nracks", "nics: {name: mlx5_0}}\nracks")), "22.05").tree
    assert "no-fabric" in tree.shown
    assert slurm_proof.prove_topology(tree.topology, tree.shown, tree.options) == []
