# SPDX-License-Identifier: GPL-3.0-or-later
"""NVML through the fake library, in a real child as on a node."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Reading
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import all_probes, nvml, reading_lines
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.nvml_library import (
    NvmlError,
    NvmlLibrary,
    field,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import ProbeChildren
from tests.kit.fake_nvml.build import OLD_535, library

from .machine_kit import ADDRESSES, Machine, problems, values

pytestmark = pytest.mark.tools("gcc")
HEALTHY = {
    "persistence": 1, "recovery-action": "none", "ecc-mode": 1, "ecc-uncorrected-volatile": 0, "ecc-corrected": 0, "sram-threshold": 0,
    "remap-pending": 0, "remap-failure": 0, "remap-uncorrectable": 0, "remap-bank-none": 0, "nvlink-down": 0, "nvlink-crc": 0,
    "nvlink-replay": 0, "fabric-state": "completed", "pcie-width": 16, "pcie-replay": 0, "thermal-margin": 47, "throttle-hw": 0,
    "throttle-software-thermal": 0, "power-brake": 0, "gpu-lost": 0, "reset-required": 0,
}  # fmt: skip


def test_eight_healthy_gpus(machine: Machine):
    readings = machine.read("nvml")
    assert {one.source for one in readings} == {"nvml"}
    assert not any(one.problem for one in readings)
    assert values(readings, "gpu-count-driver") == {"": 8}
    assert values(readings, "driver-match") == {"": 1}
    for quantity, value in HEALTHY.items():
        assert values(readings, quantity) == dict.fromkeys(ADDRESSES, value), quantity
    assert set(HEALTHY) == set(nvml.DEVICE_QUANTITIES)


@pytest.mark.parametrize(
    ("line", "quantity", "value"),
    [
        ("3 nvmlDeviceGetRemappedRows pending 1", "remap-pending", 1),
        ("3 nvmlDeviceGetRemappedRows failure 1", "remap-failure", 1),
        ("3 nvmlDeviceGetRemappedRows uncorrected 512", "remap-uncorrectable", 512),
        ("3 nvmlDeviceGetRowRemapperHistogram none 2", "remap-bank-none", 2),
        ("3 nvmlDeviceGetTotalEccErrors uncorrected.volatile 7", "ecc-uncorrected-volatile", 7),
        ("3 nvmlDeviceGetTotalEccErrors corrected.volatile 54700000000", "ecc-corrected", 54_700_000_000),
        ("3 nvmlDeviceGetSramEccErrorStatus exceeded 1", "sram-threshold", 1),
        ("3 nvmlDeviceGetEccMode current 0", "ecc-mode", 0),
        ("3 nvmlDeviceGetNvLinkState link17 0", "nvlink-down", 1),
        ("3 nvmlDeviceGetNvLinkErrorCounter link5.3 9", "nvlink-crc", 9),
        ("3 nvmlDeviceGetNvLinkErrorCounter link5.1 4", "nvlink-replay", 4),
        ("3 nvmlDeviceGetGpuFabricInfoV state 2", "fabric-state", "in-progress"),
        ("3 nvmlDeviceGetGpuFabricInfoV status 999", "fabric-state", "failed-999"),
        ("3 nvmlDeviceGetCurrPcieLinkWidth value 8", "pcie-width", 8),
        ("3 nvmlDeviceGetPcieReplayCounter value 60", "pcie-replay", 60),
        ("3 nvmlDeviceGetMarginTemperature value -3", "thermal-margin", -3),
        ("3 nvmlDeviceGetCurrentClocksEventReasons value 0x40", "throttle-hw", 1),
        ("3 nvmlDeviceGetCurrentClocksEventReasons value 0x8", "throttle-hw", 1),
        ("3 nvmlDeviceGetCurrentClocksEventReasons value 0x88", "throttle-hw", 0),
        ("3 nvmlDeviceGetCurrentClocksEventReasons value 0x88", "power-brake", 1),
        ("3 nvmlDeviceGetCurrentClocksEventReasons value 0x20", "throttle-software-thermal", 1),
        ("3 nvmlDeviceGetFieldValues 230 4", "recovery-action", "drain-and-reset"),
        ("3 nvmlDeviceGetPersistenceMode value 0", "persistence", 0),
        # A number outside its range is not a value.
        ("3 nvmlDeviceGetFieldValues 230 8", "recovery-action", None),
        ("3 nvmlDeviceGetRemappedRows pending 2", "remap-pending", None),
        ("3 nvmlDeviceGetCurrPcieLinkWidth value 63", "pcie-width", None),
        ("3 nvmlDeviceGetGpuFabricInfoV state 9", "fabric-state", None),
        ("3 nvmlDeviceGetNvLinkState link2 5", "nvlink-down", None),
        ("3 nvmlDeviceGetTotalEccErrors corrected.volatile -1", "ecc-corrected", None),
        # A failed call is not a value.
        ("3 nvmlDeviceGetRemappedRows rc 999", "remap-failure", None),
        ("3 nvmlDeviceGetEccMode rc 3", "ecc-mode", None),
        # Nor is the older way to read it, or a range that was guessed.
        ("3 nvmlDeviceGetGpuFabricInfoV rc 999", "fabric-state", None),
        ("3 nvmlDeviceGetCurrentClocksEventReasons rc 999", "throttle-hw", None),
        ("3 nvmlDeviceGetMarginTemperature rc 999", "thermal-margin", None),
        ("3 nvmlDeviceGetMarginTemperature value 500", "thermal-margin", None),
        ("3 nvmlDeviceGetFieldValues rc 999", "nvlink-down", None),
        ("3 nvmlDeviceGetFieldValues 91 99", "nvlink-down", None),
        ("3 nvmlDeviceGetNvLinkState rc 999", "nvlink-down", None),
        ("3 nvmlDeviceGetNvLinkState rc 2", "nvlink-down", None),
        ("3 nvmlDeviceGetNvLinkErrorCounter rc 999", "nvlink-crc", None),
        ("3 nvmlDeviceGetFieldValues 230 -1", "recovery-action", None),
    ],
)
def test_one_gpu_of_eight(machine: Machine, monkeypatch: pytest.MonkeyPatch, line: str, quantity: str, value: object):
    # In this process: a child for each of these takes half a minute.
    machine.scenario.write_text(f"{line}\n")
    monkeypatch.setenv("FAKE_NVML_SCENARIO", str(machine.scenario))
    found = values(list(nvml.read_gpus(NvmlLibrary(str(library())), machine.root)), quantity)
    assert found == {**dict.fromkeys(ADDRESSES, HEALTHY[quantity]), ADDRESSES[3]: value}


def test_not_supported_is_distinct_from_a_failure(machine: Machine):
    machine.scenario.write_text("* nvmlDeviceGetEccMode rc 3\n* nvmlDeviceGetPersistenceMode rc 999\n")
    readings = machine.read("nvml")
    assert all(one.startswith(reading_lines.NOT_SUPPORTED) for one in problems(readings, "ecc-mode"))
    assert problems(readings, "persistence") == {"nvmlDeviceGetPersistenceMode: unknown (999)"}


@pytest.mark.parametrize(
    "line",
    [
        "5 * rc 15",
        "5 nvmlDeviceGetHandleByIndex_v2 rc 15",
        "5 nvmlDeviceGetPciInfo_v3 rc 15",
        "5 nvmlDeviceGetPersistenceMode rc 15",
    ],
)
def test_a_lost_gpu(machine: Machine, line: str):
    machine.scenario.write_text(f"{line}\n")
    readings = machine.read("nvml")
    assert values(readings, "gpu-lost") == {**dict.fromkeys(ADDRESSES, 0), ADDRESSES[5]: 1}
    assert [one.value for one in readings if one.device == ADDRESSES[5] and one.quantity in nvml.GPU_QUANTITIES] == [
        None
    ] * 20


def test_a_gpu_lost_late_keeps_the_values_read_before(machine: Machine):
    machine.scenario.write_text("5 nvmlDeviceGetRemappedRows rc 15\n")
    readings = machine.read("nvml")
    assert values(readings, "gpu-lost")[ADDRESSES[5]] == 1
    assert values(readings, "ecc-corrected")[ADDRESSES[5]] == 0
    assert values(readings, "thermal-margin")[ADDRESSES[5]] is None


def test_handles_refused_for_two_reasons_are_not_guessed(machine: Machine):
    machine.scenario.write_text("5 nvmlDeviceGetHandleByIndex_v2 rc 15\n6 nvmlDeviceGetHandleByIndex_v2 rc 999\n")
    readings = machine.read("nvml")
    lost = values(readings, "gpu-lost")
    assert (lost["index-5"], lost["index-6"]) == (1, None)
    assert ADDRESSES[5] not in lost


def test_two_gpus_of_one_address_are_not_one_gpu(machine: Machine):
    machine.scenario.write_text(f"6 nvmlDeviceGetPciInfo_v3 bus {0x1B + 0x10 * 5}\n")
    found = values(machine.read("nvml"), "persistence")
    assert (found[ADDRESSES[4]], found[ADDRESSES[5]]) == (1, None)


def test_a_gpu_that_must_be_reset(machine: Machine):
    machine.scenario.write_text("2 nvmlDeviceGetTotalEccErrors rc 16\n")
    assert values(machine.read("nvml"), "reset-required") == {**dict.fromkeys(ADDRESSES, 0), ADDRESSES[2]: 1}


def test_a_gpu_that_answers_nothing_is_not_known_to_be_there(machine: Machine):
    machine.scenario.write_text("2 * rc 999\n2 nvmlDeviceGetHandleByIndex_v2 rc 0\n2 nvmlDeviceGetPciInfo_v3 rc 0\n")
    found = [one for one in machine.read("nvml") if one.device == ADDRESSES[2]]
    assert {one.value for one in found} == {None}
    assert {one.quantity for one in found} == set(nvml.DEVICE_QUANTITIES)


def test_symbols_that_driver_535_lacks_have_an_older_way(machine: Machine):
    machine.missing = OLD_535
    readings = machine.read("nvml")
    assert values(readings, "fabric-state") == dict.fromkeys(ADDRESSES, "completed")
    assert values(readings, "thermal-margin") == dict.fromkeys(ADDRESSES, 89 - 40)


def test_missing_symbols_are_unread(machine: Machine):
    machine.missing = ("nvmlDeviceGetSramEccErrorStatus", "nvmlDeviceGetFieldValues", "nvmlSystemGetNVMLVersion")
    readings = machine.read("nvml")
    assert values(readings, "sram-threshold") == dict.fromkeys(ADDRESSES)
    assert values(readings, "recovery-action") == dict.fromkeys(ADDRESSES)
    assert values(readings, "driver-match") == {"": None}
    # Without the number of links, they are counted until the driver refuses one.
    assert values(readings, "nvlink-down") == dict.fromkeys(ADDRESSES, 0)


def test_a_gpu_without_nvlink(machine: Machine):
    machine.scenario.write_text("* nvmlDeviceGetFieldValues 91 0\n")
    readings = machine.read("nvml")
    assert values(readings, "nvlink-down") == dict.fromkeys(ADDRESSES)
    assert all(one.startswith(reading_lines.NOT_SUPPORTED) for one in problems(readings, "nvlink-down"))


def test_a_library_of_another_version(machine: Machine):
    machine.driver("580.82.07")
    assert values(machine.read("nvml"), "driver-match") == {"": 0}


@pytest.mark.parametrize(("code", "match"), [(18, 0), (9, None), (999, None)])
def test_nvml_that_does_not_start_leaves_the_gpus_to_nvidia_smi(machine: Machine, code: int, match: int | None):
    machine.scenario.write_text(f"* nvmlInit_v2 rc {code}\n")
    readings = machine.read("nvml", smi="/does/not/exist")
    assert values(readings, "driver-match") == {"": match}
    assert {one.source for one in readings if one.quantity in nvml.DEVICE_QUANTITIES} == {"nvidia-smi"}
    assert {one.value for one in readings if one.quantity != "driver-match"} == {None}


def test_a_library_that_cannot_be_loaded_leaves_the_gpus_to_nvidia_smi(machine: Machine):
    readings = machine.read("nvml", library="/does/not/exist", smi="/does/not/exist")
    assert {one.source for one in readings if one.quantity in nvml.DEVICE_QUANTITIES} == {"nvidia-smi"}
    assert {one.value for one in readings} == {None}
    assert any("/does/not/exist" in one for one in problems(readings, "driver-match"))


@pytest.mark.parametrize("kind", [0, 7, 99, -1])
def test_a_field_of_an_unknown_type_is_an_error(kind: int):
    class Typed:
        def call(self, function: str, *arguments: Any) -> None:
            arguments[-1][0].valueType = kind

    with pytest.raises(NvmlError):
        field(Typed(), None, 91)


@pytest.mark.tools("strace")
def test_without_a_driver_the_library_is_not_opened(machine: Machine, tmp_path: Path):
    (machine.top / "sys/module/nvidia/version").unlink()
    probe = machine.probe("nvml")
    trace = tmp_path / "trace"
    argv = ["strace", "-f", "-e", "trace=open,openat,execve", "-o", str(trace), *probe.argv]
    subprocess.run(argv, env=machine.environment, check=True, capture_output=True, timeout=120)
    assert not machine.marker.exists()
    opened = trace.read_text()
    assert str(machine.settings) in opened
    assert "libnvidia-ml" not in opened
    assert "nvidia-smi" not in opened
    readings = machine.read("nvml")
    assert {one.value for one in readings} == {None}
    assert {one.quantity for one in readings} == set(nvml.QUANTITIES)


def test_with_a_driver_the_library_is_opened_once(machine: Machine):
    machine.read("nvml")
    assert machine.marker.read_text() == "loaded\ninit\n"


def run(machine: Machine, children: ProbeChildren, seconds: float) -> tuple[list[Reading], float]:
    """Run the probe with a deadline, and return its readings with the seconds it took."""
    probe = machine.probe("nvml")
    begun = time.monotonic()
    assert children.start("nvml", probe.argv, seconds, machine.environment)
    readings: list[Reading] = []
    while children.running:
        time.sleep(0.01)
        readings += all_probes.collect(children, [probe], machine.root)
    return readings, time.monotonic() - begun


@pytest.mark.parametrize(
    ("line", "counted"), [("* nvmlInit_v2 hang 1", None), ("4 nvmlDeviceGetRemappedRows hang 1", 8)]
)
def test_a_hang_is_bounded_and_keeps_what_was_read(machine: Machine, tmp_path: Path, line: str, counted: int | None):
    machine.scenario.write_text(f"{line}\n")
    children = ProbeChildren(tmp_path)
    readings, took = run(machine, children, 2.0)
    assert took < 3.0
    assert values(readings, "driver-hang") == {"": 1}
    assert values(readings, "gpu-count-driver")[""] == counted
    # Each quantity has an unread reading: GPUs after the hang were not read.
    assert {one.quantity for one in readings if one.value is None} >= set(nvml.DEVICE_QUANTITIES)
    _again, _took = run(machine, children, 1.0)
    assert children.missed == {"nvml": 2}
    machine.scenario.write_text("")
    healthy, _took = run(machine, children, 30.0)
    assert values(healthy, "driver-hang") == {"": 0}


def test_a_slow_driver_answers(machine: Machine):
    machine.scenario.write_text("* nvmlInit_v2 slow 300\n")
    assert values(machine.read("nvml"), "gpu-count-driver") == {"": 8}
