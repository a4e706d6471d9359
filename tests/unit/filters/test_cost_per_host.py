# SPDX-License-Identifier: GPL-3.0-or-later
"""No filter and no decision of a role that every node of a run asks for looks at all nodes.

Ten thousand of them would pay ten thousand times that.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.filter.machines import node
from ansible_collections.bedplate.cluster.plugins.filter.slurm import slurm_daemons, slurm_parts
from ansible_collections.bedplate.cluster.plugins.plugin_utils import cluster as clusters
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Node, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import RunHost
from tests.unit.gpu.test_nvlink_drift import KEY

FILE = """
plugin: bedplate.cluster.racks
site: x
cluster: x
networks: {management: {cidr: 10.0.0.0/16, start: 10.0.1.1}}
profiles:
  p: {sockets: 1, cores_per_socket: 4, memory_mib: 4096, gpus: {model: gb200, count: 4}, nvlink_domain: 2, nics: [{name: mlx5_0, rail: 0}]}
racks: {"r[1-20]": {nodes: "n[001-040]", profile: p}}
hosts: {c: {address: 10.0.0.1}}
services: {controllers: [c]}
partitions: {main: {nodes: all}}
slurm: {version: "VERSION"}
fabric: {spines: [s1], top: t}
gpu_stack:
  {os: ubuntu-24.04, source: nvidia, driver: "580", cuda: ["13.0"], container_toolkit: "1.18.2", dcgm: "4",
   keys: {nvidia: nvidia.asc, container-toolkit: nvidia.asc}}
"""


def deployed(role: str) -> Callable[[str, str], Any]:
    """Return what decides and renders all parts of a role for a host."""

    def asked(path: str, host: str) -> Any:
        variables = {"bedplate_cluster_file": path, "inventory_hostname": host}
        run = RunHost(variables, lambda value: value, lambda name, _path, _variables: name)
        parts = run.decision(role).deployments()
        assert parts
        return parts

    return asked


FILTERS: dict[str, Callable[[str, str], Any]] = {
    "slurm_daemons": lambda path, _host: slurm_daemons(path),
    "slurm_parts": slurm_parts,
    "node": node,
}
ROLES = ("node_tuning", "rdma", "gpu_driver", "cuda", "dcgm", "container_runtime")
ASKED = {**FILTERS, **{f"role {role}": deployed(role) for role in ROLES}}


class Counted(list[Node]):
    """The nodes of a cluster, and how often somebody has gone through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[Node]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("version", ["22.05", "24.11"])
@pytest.mark.parametrize("name", ASKED)
def test_a_host_does_not_pay_for_all_nodes(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.bedplate.yml"
    (tmp_path / "nvidia.asc").write_text(KEY)
    path.write_text(FILE.replace("VERSION", version))
    before = load(path)
    # What the inventory plugin does before Ansible forks.
    groups_of(before)
    walks = {}
    for host in ("n001", "n002", "n040"):
        # Each task on each host is a fork, which loses what it computes.
        fork = copy.copy(before)
        fork.nodes = nodes = Counted(before.nodes)
        monkeypatch.setattr(clusters, "_loaded", dict.fromkeys(clusters._loaded, fork))
        ASKED[name](str(path), host)
        walks[host] = nodes.walks
    assert [walks["n002"], walks["n040"]] == [0, 0]
