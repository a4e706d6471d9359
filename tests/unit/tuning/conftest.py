"""The machines of machines/*.yml, made and read once: nothing here writes to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import read_machine
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.topology_model import Machine
from tests.unit.tuning.trees import MachineTree, description

Machines = Callable[[str], Machine]


@pytest.fixture(scope="session")
def tree_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("machines") / name
            MachineTree(made[name], description(name))
        return made[name]

    return make


@pytest.fixture(scope="session")
def machine_of(tree_of: Callable[[str], Path]) -> Machines:
    read: dict[str, Machine] = {}

    def machine(name: str) -> Machine:
        if name not in read:
            read[name] = read_machine(str(tree_of(name)))
        return read[name]

    return machine


def cluster_file(top: Path, machine: Machine, told: dict[str, Any], version: str = "24.11") -> Path:
    """Write a cluster file whose only node, n1, has a profile as it was recorded of a machine."""
    nics = [{"name": name} for node in told["numa"] for name in node.get("nics", [])]
    profile = {"nics": nics, **told, "memory_mib": 200000}
    if machine.gpus:
        profile["gpus"] = {"model": "gpu", "count": len(machine.gpus)}
    whole = {
        "plugin": "bedplate.cluster.racks",
        "site": "test",
        "cluster": "test",
        "networks": {"management": {"cidr": "10.0.0.0/24"}},
        "profiles": {"node": profile},
        "racks": {"r1": {"profile": "node", "nodes": "n1"}},
        "hosts": {"c1": {"address": "10.0.0.2"}},
        "services": {"controllers": ["c1"], "database": ["c1"]},
        "partitions": {"all": {"nodes": "all", "default": True}},
        "slurm": {"version": version},
    }
    path = top / f"{version}.bedplate.yml"
    path.write_text(yaml.safe_dump(whole))
    return path
