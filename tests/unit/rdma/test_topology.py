"""The file in which NCCL finds GPUs and NICs, written of what sysfs shows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import topology
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.devices import Nic
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.machine import read_machine
from tests.unit.tuning.trees import MachineTree, description

from .machine import deployed, found


def test_it_is_written_once_and_missed_when_it_goes(tmp_path: Path) -> None:
    MachineTree(tmp_path, description("h100-hgx"))
    root, file = Root(str(tmp_path)), tmp_path / topology.FILE
    machine = read_machine(str(tmp_path))
    rail = next(nic for nic in machine.nics if nic.rdma)
    nics = [Nic(rail.names[0], rail=True), Nic("mlx5_storage", rail=False)]
    assert [row.found for row in topology.drift(root, nics)] == ["none"]
    topology.bring(root, nics)
    assert list(topology.drift(root, nics)) == []
    ends = {one.get("busid") for one in ElementTree.parse(file).iter("pci") if not len(one)}
    assert ends == {gpu.address for gpu in machine.gpus} | {rail.address}
    written = file.stat().st_mtime_ns
    topology.bring(root, nics)
    assert file.stat().st_mtime_ns == written
    file.write_text("<system/>\n")
    assert [row.found for row in topology.drift(root, nics)] == ["other devices"]


def test_a_machine_without_such_devices_gets_no_file(tmp_path: Path) -> None:
    machine = found(tmp_path)
    machine.put(topology.FILE, "<system/>\n")
    topology.bring(machine.root, [Nic("mlx5_9", rail=True)])
    assert not (tmp_path / topology.FILE).exists()
    assert list(topology.drift(machine.root, [Nic("mlx5_9", rail=True)])) == []


def test_nccl_is_told_where_it_is(tmp_path: Path) -> None:
    told = deployed(tmp_path, nccl_topology=True)
    assert told["expected"]["settings"]["topology"] is True
    assert told["expected"]["nccl"]["NCCL_TOPO_FILE"] == f"/{topology.FILE}"
    assert "NCCL_TOPO_FILE" not in deployed(tmp_path)["expected"]["nccl"]
