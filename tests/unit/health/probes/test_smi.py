# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi where NVML cannot be used: texts in the shapes of the real program, and texts that no program prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Reading
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import nvml, smi

from .machine_kit import Machine, problems, values

FIRST, SECOND = "0000:1b:00.0", "0000:2b:00.0"
GPU = {
    "pci.bus_id": "00000000:1B:00.0", "persistence_mode": "Enabled", "ecc.mode.current": "Enabled",
    "ecc.errors.uncorrected.volatile.total": "0", "ecc.errors.corrected.volatile.total": "3", "pcie.link.width.current": "16",
    "clocks_event_reasons.active": "0x0000000000000001", "clocks_throttle_reasons.active": "0x0000000000000001",
    "fabric.state": "state  Completed", "fabric.status": "status Success",
}  # fmt: skip
ROW = {
    "gpu_bus_id": "00000000:1B:00.0", "remapped_rows.correctable": "0", "remapped_rows.uncorrectable": "0",
    "remapped_rows.pending": "No", "remapped_rows.failure": "0",
}  # fmt: skip


class Smi:
    """A program that prints rows, and refuses fields as the real one does."""

    def __init__(
        self, gpus: Sequence[dict[str, str]], rows: Sequence[dict[str, str]], lacking: Sequence[str] = ()
    ) -> None:
        self.tables, self.lacking, self.calls = {"--query-gpu": gpus, "--query-remapped-rows": rows}, lacking, 0

    def __call__(self, argv: Sequence[str]) -> Outcome:
        self.calls += 1
        option, _equals, query = argv[1].partition("=")
        fields = query.split(",")
        refused = [one for one in fields if one in self.lacking]
        if refused:
            return Outcome(2, "".join(f'Field "{one}" is not a valid field to query.\n\n' for one in refused), "")
        return Outcome(0, "".join(", ".join(row[one] for one in fields) + "\n" for row in self.tables[option]), "")


def read(program: Smi) -> list[Reading]:
    return list(smi.read_gpus("nvidia-smi", program))


def test_the_values_of_one_gpu():
    readings = read(Smi([GPU], [ROW]))
    found = {one.quantity: one.value for one in readings if one.value is not None}
    assert found == {
        "gpu-count-driver": 1, "gpu-lost": 0, "reset-required": 0, "persistence": 1, "ecc-mode": 1, "ecc-uncorrected-volatile": 0,
        "ecc-corrected": 3, "pcie-width": 16, "throttle-hw": 0, "throttle-software-thermal": 0, "power-brake": 0,
        "fabric-state": "completed", "remap-pending": 0, "remap-failure": 0, "remap-uncorrectable": 0,
    }  # fmt: skip
    assert {one.quantity for one in readings if one.value is None} == set(nvml.DEVICE_QUANTITIES) - set(found)


@pytest.mark.parametrize(
    ("field", "text", "quantity", "value"),
    [
        ("remapped_rows.pending", "Yes", "remap-pending", 1),
        ("remapped_rows.pending", "1", "remap-pending", 1),
        ("remapped_rows.failure", "maybe", "remap-failure", None),
        ("remapped_rows.uncorrectable", "-1", "remap-uncorrectable", None),
        ("ecc.mode.current", "[N/A]", "ecc-mode", None),
        ("ecc.mode.current", "On", "ecc-mode", None),
        ("ecc.errors.corrected.volatile.total", "ERR!", "ecc-corrected", None),
        ("pcie.link.width.current", "[Unknown Error]", "pcie-width", None),
        ("clocks_event_reasons.active", "0x0000000000000048", "throttle-hw", 1),
        ("clocks_event_reasons.active", "Active", "throttle-hw", None),
        ("fabric.state", "state  In Progress", "fabric-state", "in-progress"),
        ("fabric.state", "N/A", "fabric-state", None),
        ("fabric.state", "Perfect", "fabric-state", None),
        ("fabric.status", "status Unknown Error", "fabric-state", None),
        ("fabric.status", "Not Supported", "fabric-state", None),
        ("fabric.status", "status Insufficient Resources", "fabric-state", "failed-insufficient-resources"),
    ],
)
def test_a_cell(field: str, text: str, quantity: str, value: object):
    readings = read(
        Smi([{**GPU, **({field: text} if field in GPU else {})}], [{**ROW, **({field: text} if field in ROW else {})}])
    )
    assert values(readings, quantity) == {FIRST: value}


def test_a_lost_gpu_beside_a_healthy_one():
    second = {**GPU, "pci.bus_id": "00000000:2B:00.0"}
    lost = {**dict.fromkeys(second, "[GPU is lost]"), "pci.bus_id": "00000000:2B:00.0"}
    row = {**dict.fromkeys(ROW, "[GPU is lost]"), "gpu_bus_id": "00000000:2B:00.0"}
    readings = read(Smi([GPU, lost], [ROW, row]))
    assert values(readings, "gpu-lost") == {FIRST: 0, SECOND: 1}
    assert values(readings, "gpu-count-driver") == {"": 2}
    assert {one.value for one in readings if one.device == SECOND and one.quantity in nvml.GPU_QUANTITIES} == {None}


def test_fields_of_another_release_are_left_out():
    program = Smi([GPU], [ROW], lacking=["clocks_event_reasons.active", "fabric.state", "fabric.status"])
    readings = read(program)
    assert values(readings, "throttle-hw") == {FIRST: 0}
    assert values(readings, "fabric-state") == {FIRST: None}
    assert values(readings, "ecc-corrected") == {FIRST: 3}
    assert program.calls == 3


def test_rows_that_nvidia_smi_lacks_are_unread():
    readings = read(Smi([GPU], []))
    assert values(readings, "remap-failure") == {FIRST: None}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is "
            "installed and running.\n"),
        (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n"),
        (0, ""),
        (0, "No devices were found\n"),
    ],
)  # fmt: skip
def test_no_rows(code: int, text: str):
    readings = list(smi.read_gpus("nvidia-smi", lambda argv: Outcome(code, text, "")))
    assert {one.value for one in readings} == {None}
    assert {one.quantity for one in readings} == set(nvml.DEVICE_QUANTITIES)


def test_a_line_that_is_not_a_row_makes_the_number_unknown():
    program = Smi([GPU], [ROW])
    told = program(["nvidia-smi", f"--query-gpu={','.join(smi.GPU_QUERY)}"]).stdout
    readings = list(
        smi.read_gpus("nvidia-smi", lambda argv: Outcome(0, told + "Unable to determine the device handle\n", ""))
    )
    assert values(readings, "gpu-count-driver") == {"": None}
    assert "Unable" in next(iter(problems(readings, "gpu-count-driver")))


@pytest.mark.tools("gcc")
def test_the_real_program_is_run_in_the_group_of_the_probe(machine: Machine):
    """A stand-in for nvidia-smi that prints its process group: one signal to the probe's group must end both."""
    program = machine.write(
        "nvidia-smi", "#!/bin/sh\nread -r pid comm state parent group rest < /proc/$$/stat\necho $group\n"
    )
    program.chmod(0o755)
    machine.missing = ("nvmlInit_v2",)
    readings = machine.read("nvml", smi=str(program))
    (problem,) = problems(readings, "gpu-lost")
    own = open("/proc/self/stat").read().split()[4]  # noqa: PTH123, SIM115
    assert repr(own) in problem


def test_rows_of_a_program_that_fails_leave_the_number_of_gpus_unknown():
    program = Smi([GPU], [ROW])
    readings = list(smi.read_gpus("nvidia-smi", lambda argv: replace(program(argv), code=15)))
    assert [one.value for one in readings if one.quantity == "gpu-count-driver"] == [None]


def test_a_cell_with_an_error_is_not_called_unsupported():
    readings = read(Smi([{**GPU, "pcie.link.width.current": "[Unknown Error]"}], [ROW]))
    (found,) = [one for one in readings if one.quantity == "pcie-width"]
    assert found.value is None
    assert not found.problem.startswith("not supported")
