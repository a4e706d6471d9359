"""A cluster with nodes in NVLink domains and others: from Slurm 25.05 on each partition has the topology that fits its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.planned_topologies import topologies
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import live_expectations, render
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.topology.nvlink_site import BLOCKS, MIXED, make_site

PARTITIONS = (
    "  train: {nodes: all}\n",
    "  train: {nodes: all}\n  nvl: {nodes: 'profile:gb200', default: true}\n  cpu: {nodes: 'profile:cpu'}\n"
    "  own: {nodes: all, options: {topology: block}}\n",
)
OWN = "SwitchName=all Nodes=n[01-72],cpu[1-2]\n"


def site(directory: Path, version: str, *edits: tuple[str, str]) -> Cluster:
    return make_site(directory, ("fabric:", f'slurm: {{version: "{version}"}}\nfabric:'), *edits)


def told(slurm_conf: str) -> dict[str, str]:
    """Return the topology of each partition of a slurm.conf."""
    lines = [line.split() for line in slurm_conf.splitlines() if line.startswith("PartitionName=")]
    return {
        line[0].partition("=")[2]: next(
            (word.partition("=")[2] for word in line if word.lower().startswith("topology=")), ""
        )
        for line in lines
    }


@pytest.mark.parametrize("version", ["25.05", "26.05"])
def test_each_partition_has_the_topology_of_its_nodes(tmp_path: Path, version: str):
    files = render.slurm_files(site(tmp_path, version, MIXED, PARTITIONS))
    assert told(files["slurm.conf"]) == {"train": "tree", "nvl": "block", "cpu": "tree", "own": "block"}
    first, second = yaml.safe_load(files["topology.yaml"])
    assert (first["topology"], first["cluster_default"], sorted(first)) == (
        "tree",
        True,
        ["cluster_default", "topology", "tree"],
    )
    assert (second["topology"], second["cluster_default"]) == ("block", False)
    assert [(one["block"], one["nodes"]) for one in second["block"]["blocks"]] == BLOCKS
    assert "SwitchName=su1-r0 Nodes=cpu[1-2],n[01-72]\n" in files["topology.conf"]


def test_a_partition_with_both_kinds_is_named(tmp_path: Path):
    cluster = site(tmp_path, "25.05", MIXED, PARTITIONS)
    found = [
        one for one in topologies(cluster, plan_of(cluster), "25.05").findings if one.where.startswith("partition")
    ]
    # `own` states its topology itself.
    assert [(one.where, one.severity) for one in found] == [("partition train", "warning")]
    check_messages("blocks: a partition with nodes in NVLink domains and others", found)


@pytest.mark.parametrize(
    ("version", "edits"),
    [("25.05", ()), ("24.11", (MIXED,)), ("24.11", ()), ("25.05", (MIXED, ("nvlink_domain: 18,\n", "\n")))],
)
def test_where_all_have_one_topology_no_partition_names_it(
    tmp_path: Path, version: str, edits: tuple[tuple[str, str], ...]
):
    cluster = site(tmp_path, version, *edits)
    files = render.slurm_files(cluster)
    assert "topology.yaml" not in files
    assert told(files["slurm.conf"]) == {"train": ""}
    assert "topologies" not in render.expected(cluster)


def test_verify_reads_both_topologies_and_that_of_each_partition(tmp_path: Path):
    cluster = site(tmp_path, "25.05", MIXED, PARTITIONS)
    expected = render.expected(cluster)
    assert {one["level"] for one in expected["topology"].values()} == {"0", "1"}
    assert expected["topologies"] == {
        "block": {name: {"level": "block", "nodes": nodes, "switches": ""} for name, nodes in BLOCKS}
    }
    wanted = {
        name: [row["want"] for row in rows if row["option"] == "Topology"]
        for name, rows in live_expectations.partitions(cluster).items()
    }
    assert wanted == {"train": ["tree"], "nvl": ["block"], "cpu": ["tree"], "own": ["block"]}


def test_a_topology_of_the_site_is_the_only_one(tmp_path: Path):
    cluster = site(tmp_path, "25.05", MIXED, (PARTITIONS[0], PARTITIONS[1].partition("  own")[0]))
    files = render.slurm_files(cluster, topology_conf=OWN)
    assert "topology.yaml" not in files
    assert set(told(files["slurm.conf"]).values()) == {""}
    assert "topologies" not in render.expected(cluster, OWN)
    rows = [row for one in live_expectations.partitions(cluster, OWN).values() for row in one]
    assert "Topology" not in [row["option"] for row in rows]
