# SPDX-License-Identifier: GPL-3.0-or-later
"""Targets for Prometheus from the cluster file."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.health import monitoring_files

ROOT = Path(__file__).parents[4]
BASE = (ROOT / "tests/unit/cluster/base.yml").read_text()
SECTIONS = "health: {}\nmonitoring: {slurm: true, dcgm_port: 9400}\n"


def cluster(folder: Path, sections: str = SECTIONS, text: str = BASE) -> Cluster:
    file = folder / "site.bedplate.yml"
    file.write_text(text + sections)
    return load(file)


def by_label(found: list[dict[str, Any]], label: str) -> dict[str, dict[str, Any]]:
    return {one["labels"][label]: one for one in found if label in one["labels"]}


def test_each_node_and_host_is_a_target_with_its_place(tmp_path: Path) -> None:
    site = cluster(tmp_path)
    found = monitoring_files.targets(site, "node")
    nodes, hosts = by_label(found, "node"), by_label(found, "host")
    assert set(nodes) == {one.name for one in site.nodes}
    assert set(hosts) == set(site.hosts)
    assert len(found) == len(nodes) + len(hosts)
    for node in site.nodes:
        labels = nodes[node.name]["labels"]
        assert nodes[node.name]["targets"] == [f"{node.address}:9100"]
        assert (labels["job"], labels["rack"], labels["profile"]) == (
            "bedplate-node",
            node.rack.name,
            node.profile.name,
        )
        assert labels.get("row") == node.rack.row
        assert labels.get("model") == (node.profile.gpus.model if node.profile.gpus else None)
        assert labels.get("leaf") == (node.rack.leaf if node.profile.nics else None)
        mine = [name for name, one in site.partitions.items() if node.name in one.nodes]
        assert labels.get("partition", "") == ",".join(mine)
        assert all(labels.values())


def test_other_exporters(tmp_path: Path) -> None:
    site = cluster(tmp_path)
    dcgm = by_label(monitoring_files.targets(site, "dcgm"), "node")
    assert set(dcgm) == {one.name for one in site.nodes if one.profile.gpus}
    assert all(one["targets"][0].endswith(":9400") for one in dcgm.values())
    slurm = monitoring_files.targets(site, "slurm")
    assert [one["labels"] for one in slurm] == [
        {"job": "bedplate-slurm", "host": name} for name in site.services.controllers
    ]
    with pytest.raises(ValueError, match="allowed: node, dcgm, slurm"):
        monitoring_files.targets(site, "disk")


def test_an_exporter_that_the_cluster_lacks_has_an_empty_file(tmp_path: Path) -> None:
    files = monitoring_files.target_files(cluster(tmp_path, "health: {}\nmonitoring: {slurm: false}\n"))
    assert sorted(files) == ["dcgm.json", "node.json", "slurm.json"]
    assert (json.loads(files["dcgm.json"]), json.loads(files["slurm.json"])) == ([], [])
    files = monitoring_files.target_files(cluster(tmp_path, ""))
    assert all(json.loads(text) == [] for text in files.values())


def test_addresses_of_ipv6_are_in_brackets() -> None:
    assert monitoring_files._target("fd00::1", 9100, {})["targets"] == ["[fd00::1]:9100"]


def test_expected_numbers_are_those_of_the_files(tmp_path: Path) -> None:
    site = cluster(tmp_path)
    rules = monitoring_files.expected_rules(site)["groups"][0]["rules"]
    numbers = {(one["record"], *one["labels"].values()): one["expr"] for one in rules}
    for exporter, text in monitoring_files.target_files(site).items():
        job = f"bedplate-{exporter.removesuffix('.json')}"
        assert numbers["bedplate:targets:expected", job] == f"vector({len(json.loads(text))})"
    for name, profile in site.profiles.items():
        expected = f"vector({profile.gpus.count})" if profile.gpus else None
        assert numbers.get(("bedplate:gpus:expected", name)) == expected


def test_an_exporter_that_the_cluster_lacks_is_not_expected(tmp_path: Path) -> None:
    site = cluster(tmp_path, "health: {}\nmonitoring: {slurm: false}\n")
    rules = monitoring_files.expected_rules(site)["groups"][0]["rules"]
    jobs = [one["labels"]["job"] for one in rules if one["record"] == "bedplate:targets:expected"]
    assert jobs == ["bedplate-node"]


def test_ten_thousand_nodes_in_two_seconds_and_three_megabytes(tmp_path: Path) -> None:
    text = (ROOT / "inventories/examples/site-10000/site-10000.bedplate.yml").read_text()
    site = cluster(tmp_path, SECTIONS, text)
    begin = time.process_time()
    files = monitoring_files.target_files(site)
    monitoring_files.expected_rules(site)
    took = time.process_time() - begin
    assert took < 2
    assert len(json.loads(files["node.json"])) == 10_004
    sizes = {name: len(one) for name, one in files.items()}
    assert max(sizes.values()) <= 3_000_000
    print(f"{took:.2f} s, {sizes}")
