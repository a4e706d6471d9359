# SPDX-License-Identifier: GPL-3.0-or-later
"""Probes that read files only: driver, PCI Express, HCAs, huge pages."""

from __future__ import annotations

import shutil

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import (
    driver_probe,
    huge_pages_probe,
    pci_probe,
    rdma_probe,
    reading_lines,
)

from .machine_kit import ADDRESSES, Machine, problems, values

THIRD = ADDRESSES[2]


def test_a_driver_with_all_devices(machine: Machine):
    readings = list(driver_probe.read_driver(machine.root))
    assert {one.quantity: one.value for one in readings} == {
        "driver-loaded": 1, "driver-version": "580.95.05", "gpu-count-driver": 8, "device-nodes-missing": 0,
    }  # fmt: skip
    assert machine.read("driver") == readings


def test_a_device_node_that_is_missing(machine: Machine):
    (machine.top / "dev/nvidia2").unlink()
    assert values(list(driver_probe.read_driver(machine.root)), "device-nodes-missing") == {"": 1}


def test_no_driver(machine: Machine):
    shutil.rmtree(machine.top / "sys/module")
    readings = list(driver_probe.read_driver(machine.root))
    assert {one.quantity: one.value for one in readings} == {
        "driver-loaded": 0, "driver-version": None, "gpu-count-driver": None, "device-nodes-missing": None,
    }  # fmt: skip


def test_a_driver_whose_version_cannot_be_read_is_unread(machine: Machine):
    path = machine.top / "sys/module/nvidia/version"
    path.unlink()
    path.mkdir()
    assert {one.value for one in driver_probe.read_driver(machine.root)} == {None}


def test_only_addresses_are_gpus(machine: Machine):
    (machine.top / "proc/driver/nvidia/gpus/params").mkdir()
    assert values(list(driver_probe.read_driver(machine.root)), "gpu-count-driver") == {"": 8}


def test_a_driver_that_lists_no_gpus(machine: Machine):
    shutil.rmtree(machine.top / "proc/driver")
    assert values(list(driver_probe.read_driver(machine.root)), "gpu-count-driver") == {"": None}


@pytest.mark.parametrize("text", ["", "unknown", "580", "580.95.05; rm"])
def test_a_version_that_is_not_one(machine: Machine, text: str):
    machine.driver(text)
    assert values(list(driver_probe.read_driver(machine.root)), "driver-version") == {"": None}


def test_healthy_links(machine: Machine):
    readings = machine.read("pci")
    assert values(readings, "gpu-count-pci") == {"": 8}
    expected = {
        "gpu-lost": 0,
        "pcie-width": 16,
        "pcie-width-max": 16,
        "aer-fatal": 0,
        "aer-nonfatal": 0,
        "aer-correctable": 0,
    }
    for quantity, value in expected.items():
        assert values(readings, quantity) == dict.fromkeys(ADDRESSES, value)


@pytest.mark.parametrize(
    ("file", "content", "quantity", "value"),
    [
        ("current_link_width", "8\n", "pcie-width", 8),
        ("current_link_width", "63\n", "pcie-width", None),
        ("current_link_width", "", "pcie-width", None),
        ("config", b"\xff" * 64, "gpu-lost", 1),
        ("config", b"", "gpu-lost", None),
        ("aer_dev_fatal", "DLP 1\nTOTAL_ERR_FATAL 1\n", "aer-fatal", 1),
        ("aer_dev_correctable", "RxErr 5\nTOTAL_ERR_COR 5\n", "aer-correctable", 5),
        ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL many\n", "aer-nonfatal", None),
    ],
)
def test_one_file_of_a_gpu(machine: Machine, file: str, content: str | bytes, quantity: str, value: object):
    machine.write(f"sys/bus/pci/devices/{THIRD}/{file}", content)
    assert values(list(pci_probe.read_pci(machine.root)), quantity)[THIRD] == value


def test_a_gpu_that_left_the_bus(machine: Machine):
    shutil.rmtree(machine.top / f"sys/bus/pci/devices/{THIRD}")
    assert values(list(pci_probe.read_pci(machine.root)), "gpu-count-pci") == {"": 7}


def test_a_device_without_error_reporting(machine: Machine):
    (machine.top / f"sys/bus/pci/devices/{THIRD}/aer_dev_fatal").unlink()
    (problem,) = problems(list(pci_probe.read_pci(machine.root)), "aer-fatal")
    assert problem.startswith(reading_lines.NOT_SUPPORTED)


def test_no_sysfs(machine: Machine):
    shutil.rmtree(machine.top / "sys/bus")
    assert values(list(pci_probe.read_pci(machine.root)), "gpu-count-pci") == {"": None}


def test_ports_of_hcas_that_are_not_excluded(machine: Machine):
    machine.hca("mlx5_0")
    machine.hca("mlx5_1", port=2, state="1: DOWN", phys_state="3: Disabled", rate="40 Gb/sec (4X QDR)")
    machine.hca("mlx5_9")
    machine.write("sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "3\n")
    readings = machine.read("rdma", exclude=["mlx5_9"])
    assert values(readings, "rdma-count") == {"": 2}
    assert values(readings, "rdma-state") == {"mlx5_0/1": "ACTIVE", "mlx5_1/2": "DOWN"}
    assert values(readings, "rdma-physical") == {"mlx5_0/1": "LinkUp", "mlx5_1/2": "Disabled"}
    assert values(readings, "rdma-rate") == {"mlx5_0/1": 400.0, "mlx5_1/2": 40.0}
    assert values(readings, "rdma-link-downed") == {"mlx5_0/1": 3, "mlx5_1/2": 0}
    assert all(one.startswith(reading_lines.NOT_SUPPORTED) for one in problems(readings, "rdma-rnr-retries"))


@pytest.mark.parametrize(
    ("file", "text", "quantity"),
    [("state", "ACTIVE", "rdma-state"), ("phys_state", "", "rdma-physical"), ("rate", "fast", "rdma-rate"),
     ("counters/link_downed", "-1", "rdma-link-downed")],
)  # fmt: skip
def test_a_file_that_is_not_understood(machine: Machine, file: str, text: str, quantity: str):
    machine.hca("mlx5_0", **{file: text} if "/" not in file else {})
    machine.write(f"sys/class/infiniband/mlx5_0/ports/1/{file}", text)
    assert values(list(rdma_probe.read_ports(machine.root)), quantity) == {"mlx5_0/1": None}


def test_a_missing_file_of_a_port(machine: Machine):
    machine.hca("mlx5_0")
    (machine.top / "sys/class/infiniband/mlx5_0/ports/1/state").unlink()
    assert values(list(rdma_probe.read_ports(machine.root)), "rdma-state") == {"mlx5_0/1": None}


def test_no_hcas(machine: Machine):
    readings = machine.read("rdma")
    assert values(readings, "rdma-count") == {"": 0}
    assert values(readings, "rdma-state") == {"": None}


def test_huge_pages(machine: Machine):
    machine.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "64\n")
    readings = machine.read("huge-pages", sizes=["1G", "2M", "2X"])
    assert values(readings, "huge-pages") == {"1G": 64, "2M": None, "2X": None}
    assert list(huge_pages_probe.read_pages(machine.root, ["1G"])) == [one for one in readings if one.device == "1G"]


@pytest.mark.parametrize("text", ["", "-1", "all", "\u0665"])
def test_a_number_of_huge_pages_that_is_not_one(machine: Machine, text: str):
    machine.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", text)
    assert values(list(huge_pages_probe.read_pages(machine.root, ["1G"])), "huge-pages") == {"1G": None}
