"""Several clusters, and discoveries that were cut short, as the playbooks meet them in real runs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import (
    comparison_report,
    discovered_topology,
    discovery_sources,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import ibnetdiscover_text
from tests.kit.plays import play
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.pod import books, cluster, cut, keep, node, seen, told


@pytest.mark.simulation
def test_recording_a_cluster_keeps_the_record_of_another_one_in_the_same_directory(tmp_path: Path):
    directories = [tmp_path / "one", tmp_path / "two"]
    records = []
    for directory in directories:
        directory.mkdir()
        found = cluster(directory)
        (directory / "now.txt").write_text(ibnetdiscover_text(seen(found)))
        options = ["-e", f"fabric_saved={directory}/now.txt", "-e", f"fabric_directory={tmp_path}/fabric"]
        done = play(*books("fabric_compare"), "-i", found.path, *options, "-e", "fabric_record=true")
        assert done.returncode == 0, done.stdout + done.stderr
        records.append(guid_record.path_of(found.path))
    assert [path.exists() for path in records] == [True, True]


@pytest.mark.simulation
@pytest.mark.parametrize("book", ["fabric", "fabric_compare", "fabric_topology"])
def test_a_directory_inside_the_inventory_is_refused_before_anything_is_asked_or_written(tmp_path: Path, book: str):
    found = cluster(tmp_path)
    options = ["-e", f"fabric_saved={tmp_path}/none.txt", "-e", f"fabric_directory={tmp_path}/foo"]
    done = play(*books(book), "-i", found.path, *options)
    assert done.returncode == 2
    assert f"this run: fabric_directory: {tmp_path}/foo " in " ".join(done.stdout.split())
    assert "none.txt" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["pod.bedplate.yml"]


@pytest.mark.simulation
def test_a_truncated_discovery_leaves_the_topology_of_the_whole_fabric(tmp_path: Path):
    found = cluster(tmp_path)
    whole = ibnetdiscover_text(seen(found))
    saved, topology = tmp_path / "now.txt", tmp_path / "fabric/discovered/slurm/topology.conf"
    saved.write_text(whole[: whole.index("\nCa\t")])
    before = discovered_topology(found, [ToolOutput("fabric", whole)]).files["slurm/topology.conf"]
    topology.parent.mkdir(parents=True)
    topology.write_text(before)
    arguments = [*books("fabric_topology"), "-i", found.path, "-e", f"fabric_saved={saved}"]
    done = play(*arguments)
    assert done.returncode == 2
    assert "gpu[001-032]: " in done.stdout
    assert "-e fabric_topology_partial=true" in done.stdout
    assert topology.read_text() == before
    assert play(*arguments, "-e", "fabric_topology_partial=true").returncode == 0
    assert topology.read_text() != before


def test_a_topology_says_what_it_is_not_of(tmp_path: Path):
    found = cluster(tmp_path)
    discovery = seen(found)
    assert discovered_topology(found, told(discovery)).partial == ""
    del discovery.nodes[node(discovery, "su1-r3").guid]
    partial = discovered_topology(found, told(discovery)).partial
    check_messages("discovered topology: a switch that did not report itself", [partial])
    discovery = seen(found)
    for hca in [one for one in discovery.nodes.values() if one.description.startswith("gpu007 ")]:
        cut(discovery, hca.description)
        del discovery.nodes[hca.guid]
    assert discovered_topology(found, told(discovery)).partial.startswith("gpu007: ")


def test_names_that_left_the_plan_keep_their_guids_until_another_has_them(tmp_path: Path):
    found = cluster(tmp_path)
    keep(found, '{"gpu999 mlx5_0": {"node": "0xabc00", "port": "0xabc01"}}')
    keep(found, comparison_report(found, told(seen(found))).guids)
    guids = guid_record.read(guid_record.path_of(found.path))
    assert len(guids) == 269
    assert guids["gpu999 mlx5_0"] == {"node": "00000000000abc00", "port": "00000000000abc01"}
    discovery = seen(found)
    text = ibnetdiscover_text(discovery).replace(node(discovery, "gpu005 mlx5_3").guid, "00000000000abc00")
    keep(found, comparison_report(found, [ToolOutput("fabric", text)]).guids)
    guids = guid_record.read(guid_record.path_of(found.path))
    assert guids["gpu005 mlx5_3"]["node"] == "00000000000abc00"
    assert "gpu999 mlx5_0" not in guids


def test_a_fabric_is_discovered_from_a_manager_with_an_adapter_in_the_plan(tmp_path: Path):
    managers = "  rest: ctl1\n  subnet_managers: [{}]\n"
    for hosts, expected in (("ctl1, gpu009, gpu002", "gpu009"), ("ctl1, ctl2", "gpu001")):
        found = cluster(tmp_path, ("  rest: ctl1\n", managers.format(hosts)))
        assert discovery_sources(found) == [{"name": expected, "lldp": False, "ports": [{}]}]


@pytest.mark.simulation
def test_sources_of_the_inventory_and_others_are_asked_with_their_own_options(tmp_path: Path):
    found = cluster(tmp_path)
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin/ibnetdiscover"
    tool.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/now.txt\n')
    tool.chmod(0o755)
    (tmp_path / "now.txt").write_text(ibnetdiscover_text(seen(found)))
    chosen = [{"name": name, "ports": [{"ca": f"ca-{name}"}]} for name in ("gpu001", "elsewhere")]
    options = ["-i", found.path, "-e", "ansible_connection=local", "-e", json.dumps({"fabric_sources": chosen})]
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    done = play(*books("fabric_compare"), *options, PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted((tmp_path / "asked").read_text().split("\n")) == ["", "-C ca-elsewhere", "-C ca-gpu001"]
    assert "=> (item=elsewhere)" in done.stdout
    assert "(item=gpu001)" not in done.stdout
    (tmp_path / "asked").unlink()
    done = play(*books("fabric_compare"), *options, "-e", "fabric_fail_on=warn", PATH=path)
    assert "this run: fabric_fail_on: 'warn' " in done.stdout
    assert done.returncode == 2
    assert not (tmp_path / "asked").exists()
