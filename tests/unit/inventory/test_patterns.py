"""Hosts that playbooks reach by pattern, through Ansible's own inventory manager."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

ROOT = Path(__file__).parents[3]
NODES = ["gpu01", "gpu02", "gpu03", "gpu04"]


@pytest.fixture(scope="module")
def manager() -> InventoryManager:
    # A second source beside the cluster file, as sites have for their own hosts.
    sources = [ROOT / "inventories/lab/lab.bedplate.yml", ROOT / "molecule/inventory"]
    return InventoryManager(DataLoader(), sources=[str(source) for source in sources])


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("all", ["ctl1", *NODES]),
        ("bedplate", ["ctl1", *NODES]),
        ("compute_nodes", NODES),
        ("gpu_nodes", NODES),
        ("model_sim", NODES),
        ("rack_r1", NODES[:2]),
        ("rack_r2", NODES[2:]),
        ("partition_debug", NODES[:2]),
        ("compute_nodes:!rack_r1", NODES[2:]),
        ("slurm_controllers[0]", ["ctl1"]),
        ("slurm_login:slurm_rest:!slurm_controllers:!compute_nodes", []),
        ("subnet_managers", []),
    ],
)
def test_hosts_of_a_pattern(manager: InventoryManager, pattern: str, names: list[str]):
    assert sorted(host.name for host in manager.get_hosts(pattern)) == names


def test_a_host_knows_its_groups(manager: InventoryManager):
    groups = {group.name for group in manager.get_host("gpu01").get_groups()}
    assert groups == {
        "all", "bedplate", "compute_nodes", "gpu_nodes", "gpu_software", "model_sim", "partition_debug", "partition_gpu",
        "rack_r1", "rdma_nodes",
    }  # fmt: skip
