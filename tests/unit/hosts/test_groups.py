# SPDX-License-Identifier: GPL-3.0-or-later
"""Groups of a cluster with nodes of several kinds: each role runs only where its hardware and software are."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of

BASE = Path(__file__).parents[1] / "cluster" / "base.yml"
GPU = ["gpu01", "gpu02", "gpu03", "gpu04"]


def test_nodes_without_gpus_rails_or_software_are_in_no_group_of_them(tmp_path: Path) -> None:
    file = tmp_path / "a.bedplate.yml"
    file.write_text(BASE.read_text())
    groups = groups_of(load(str(file)))
    assert len(groups["compute_nodes"]) == 8
    assert (groups["gpu_nodes"], groups["rdma_nodes"], groups["gpu_software"]) == (GPU, GPU, [])
    assert sorted(groups["bedplate"]) == sorted(["ctl1", *groups["compute_nodes"]])
