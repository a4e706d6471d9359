"""The file in which NCCL finds GPUs and NICs, written of what sysfs shows."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import nccl_topology_file
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.rdma_devices import NicSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import read_machine
from tests.unit.tuning.trees import MachineTree, description

from .machine import deployed, found


def test_it_is_written_once_and_missed_when_it_goes(tmp_path: Path) -> None:
    MachineTree(tmp_path, description("h100-hgx"))
    root, file = Root(str(tmp_path)), tmp_path / nccl_topology_file.FILE
    machine = read_machine(str(tmp_path))
    rail = next(nic for nic in machine.nics if nic.rdma)
    nics = [NicSettings(rail.names[0], rail=True), NicSettings("mlx5_storage", rail=False)]
    assert [row.found for row in nccl_topology_file.drift(root, nics)] == ["none"]
    nccl_topology_file.write(root, nics)
    assert list(nccl_topology_file.drift(root, nics)) == []
    ends = {one.get("busid") for one in ElementTree.parse(file).iter("pci") if not len(one)}
    assert ends == {gpu.address for gpu in machine.gpus} | {rail.address}
    written = file.stat().st_mtime_ns
    nccl_topology_file.write(root, nics)
    assert file.stat().st_mtime_ns == written
    file.write_text("<system/>\n")
    assert [row.found for row in nccl_topology_file.drift(root, nics)] == ["other devices"]


def test_a_machine_without_such_devices_gets_no_file(tmp_path: Path) -> None:
    machine = found(tmp_path)
    machine.put(nccl_topology_file.FILE, "<system/>\n")
    nccl_topology_file.write(machine.root, [NicSettings("mlx5_9", rail=True)])
    assert not (tmp_path / nccl_topology_file.FILE).exists()
    assert list(nccl_topology_file.drift(machine.root, [NicSettings("mlx5_9", rail=True)])) == []


def test_nccl_is_told_where_it_is(tmp_path: Path) -> None:
    told = deployed(tmp_path, nccl_topology=True)
    assert told["expected"]["settings"]["topology"] is True
    assert told["expected"]["nccl"]["NCCL_TOPO_FILE"] == f"/{nccl_topology_file.FILE}"
    assert "NCCL_TOPO_FILE" not in deployed(tmp_path)["expected"]["nccl"]
