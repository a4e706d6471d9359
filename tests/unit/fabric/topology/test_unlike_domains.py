"""NVLink domains with fewer or more nodes than others: Slurm keeps a job of one domain in it, and a warning names the others."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import domains_of, plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.planned_topologies import topologies
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render
from tests.kit.fabric_files import artefacts
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.topology.nvlink_site import ALL_RACKS, BLOCKS, make_site

WHOLE = '  n[1-3]: {leaf: su1, nodes: "n[01-54]", profile: gb200}\n'
SHORT = '  n4: {leaf: su1, nodes: "n[55-58]", profile: gb200, nvlink_domain: 4}\n'
OF_PROFILE = ("nvlink_domain: 18,\n", "\n")
ONE_SHORT = (ALL_RACKS, WHOLE + SHORT)
TWO_SHORT = (ALL_RACKS, WHOLE + SHORT + SHORT.replace("n4", "n5").replace("55-58", "59-62"))


def findings(cluster, version: str) -> list[Finding]:
    return [one for one in topologies(cluster, plan_of(cluster), version).findings if one.where != "tree"]


@pytest.mark.parametrize("version", ["24.05", "24.11"])
def test_before_25_05_a_short_domain_is_in_no_block_and_is_named(tmp_path: Path, version: str):
    cluster = make_site(tmp_path, ONE_SHORT)
    text = artefacts(cluster, version)["slurm/topology.conf"]
    # Slurm counts the blocks of a job by the first size: with 4 nodes, a job of 6 may be in two domains.
    assert "BlockSizes=18,36\n" in text
    assert [line.split()[0] for line in text.splitlines() if line.startswith("BlockName")] == [
        f"BlockName={name}" for name, _nodes in BLOCKS[:3]
    ]
    assert "n55" not in text
    (warning,) = findings(cluster, version)
    assert (warning.where, warning.severity) == ("rack n4", "warning")
    assert "n[55-58]" in warning.found + warning.difference
    assert "25.05" in warning.remedy
    check_messages(f"blocks: a short domain, Slurm {version}", [warning])


def test_what_is_deployed_and_read_back_has_no_short_block(tmp_path: Path):
    cluster = make_site(tmp_path, ONE_SHORT, ("fabric:", 'slurm: {version: "24.11"}\nfabric:'))
    files = render.slurm_files(cluster)
    assert "TopologyPlugin=topology/block\n" in files["slurm.conf"]
    assert "BlockSizes=18,36\n" in files["topology.conf"]
    assert list(render.expected(cluster)["topology"]) == ["n1", "n2", "n3"]
    assert "topology.yaml" not in files


def test_several_short_domains_are_named_one_by_one(tmp_path: Path):
    found = findings(make_site(tmp_path, TWO_SHORT), "24.11")
    assert [one.where for one in found] == ["rack n4", "rack n5"]
    check_messages("blocks: two short domains, Slurm 24.11", found)


@pytest.mark.parametrize("version", ["25.05", "26.05"])
def test_from_25_05_on_a_short_domain_is_a_block(tmp_path: Path, version: str):
    cluster = make_site(tmp_path, ONE_SHORT)
    files = artefacts(cluster, version)
    assert "BlockName=n4 Nodes=n[55-58]\nBlockSizes=18,36\n" in files["slurm/topology.conf"]
    (block, _tree) = yaml.safe_load(files["slurm/topology.yaml"])
    assert block["block"]["blocks"][-1] == {"block": "n4", "nodes": "n[55-58]"}
    (notice,) = findings(cluster, version)
    assert (notice.where, notice.severity) == ("rack n4", "notice")
    check_messages(f"blocks: a short domain, Slurm {version}", [notice])


def test_sizes_are_of_the_whole_domains_though_most_are_short(tmp_path: Path):
    racks = '  n1: {leaf: su1, nodes: "n[01-18]", profile: gb200}\n' + "".join(
        f'  n{rack}: {{leaf: su1, nodes: "n[{18 * rack - 17}-{18 * rack - 1}]", profile: gb200, nvlink_domain: 17}}\n'
        for rack in (2, 3)
    )
    cluster = make_site(tmp_path, (ALL_RACKS, racks))
    assert [one.absent for one in domains_of(cluster)] == [0, 1, 1]
    assert "BlockSizes=18\n" in artefacts(cluster, "24.11")["slurm/topology.conf"]
    assert "BlockSizes=18\n" in artefacts(cluster, "25.05")["slurm/topology.conf"]


def test_what_most_racks_state_is_whole_where_the_profile_states_nothing(tmp_path: Path):
    stated = WHOLE.replace("profile: gb200", "profile: gb200, nvlink_domain: 18")
    cluster = make_site(tmp_path, OF_PROFILE, (ALL_RACKS, stated + SHORT))
    assert [one.absent for one in domains_of(cluster)] == [0, 0, 0, 14]
    assert "BlockSizes=18,36\n" in artefacts(cluster, "24.11")["slurm/topology.conf"]


def test_whole_domains_of_two_sizes_stay_and_jobs_that_may_be_spread_are_named(tmp_path: Path):
    small = (
        "  cpu:",
        "  small: {gpus: {model: gb300, count: 4}, sockets: 2, cores_per_socket: 72, memory_mib: 880000, nvlink_domain: 9,\n"
        "          nics: {name: mlx5_0, rail: 0}}\n  cpu:",
    )
    cluster = make_site(
        tmp_path, small, (ALL_RACKS, f'{WHOLE}  n4: {{leaf: su1, nodes: "n[55-63]", profile: small}}\n')
    )
    assert "BlockSizes=9,18,36\n" in artefacts(cluster, "24.11")["slurm/topology.conf"]
    (warning,) = findings(cluster, "24.11")
    assert warning.severity == "warning"
    check_messages("blocks: whole domains of two sizes, Slurm 24.11", [warning])
    # From 25.05 on the size of most is the first.
    assert "BlockSizes=18,36\n" in artefacts(cluster, "25.05")["slurm/topology.conf"]
    assert findings(cluster, "25.05") == []
