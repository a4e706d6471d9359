# SPDX-License-Identifier: GPL-3.0-or-later
"""Damaged output of probes and random answers of NVML: no crash, and no value for a quantity that was not read."""

from __future__ import annotations

import ctypes
import json
import random
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Reading
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import (
    advice,
    foreign_checks,
    nvml,
    reading_lines,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.nvml_library import NvmlError

from .machine_kit import Machine

NAMES = ("gpu-lost", "pcie-width", "ecc-corrected")
READINGS = [
    Reading("gpu-lost", "0000:1b:00.0", 0, "nvml"), Reading("pcie-width", "0000:1b:00.0", 16, "nvml"),
    Reading("ecc-corrected", "0000:1b:00.0", None, "nvml", "not supported: nvmlDeviceGetTotalEccErrors"),
]  # fmt: skip
OUTPUT = ("".join(reading_lines.line(one) for one in READINGS) + reading_lines.end(3)).encode()
PIECES = [
    b"\n", b"{", b"}", b"null", b"true", b"NaN", b"Infinity", b"1e999", b'"', b"\\u0000", b"\x00", b"\xff", b"gpu-lost", b'{"end":3}\n',
    b'{"q":"gpu-lost","d":"","v":0,"s":"nvml","p":""}\n', b'"v":', b"9" * 30, b"[" * 50,
]  # fmt: skip


def damaged(random_: random.Random, data: bytes) -> bytes:
    for _time in range(random_.randint(1, 4)):
        at, kind = random_.randint(0, len(data)), random_.randint(0, 4)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + random_.choice(PIECES) + data[at:]
        elif kind == 2:
            data = data[:at] + data[at + random_.randint(1, 20) :]
        elif kind == 3 and data:
            data = data[:at] + bytes([random_.randrange(256)]) + data[at + 1 :]
        else:
            lines = data.split(b"\n")
            random_.shuffle(lines)
            data = b"\n".join(lines)
    return data


def check_output(data: bytes) -> None:
    readings = reading_lines.parse(data, NAMES, ("nvml",), "nvml")
    written = {line.strip() for line in data.decode("utf-8", "replace").split("\n")}
    for one in readings:
        assert one.quantity in (*NAMES, reading_lines.OUTPUT)
        assert (one.value is None) == bool(one.problem) or isinstance(one.value, str)
        if one.value is not None:
            # A line of the output is this reading, and no other is the same quantity with another value.
            assert any(_is_line(text, one) for text in written), one
    assert {one.quantity for one in readings} >= set(NAMES)
    if data != OUTPUT and any(one.value is None for one in readings):
        assert all(one.problem for one in readings if one.value is None)


def _is_line(text: str, reading: Reading) -> bool:
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(item, dict) and (item.get("q"), item.get("d"), item.get("v")) == (
        reading.quantity,
        reading.device,
        reading.value,
    )


def fuzz_output(count: int) -> None:
    random_ = random.Random(1)
    for _time in range(count):
        check_output(damaged(random_, OUTPUT))


def reading_line(**changes: object) -> str:
    whole = {"q": "pcie-width", "d": "0000:1b:00.0", "v": 16, "s": "nvml", "p": ""}
    return json.dumps({**whole, **changes}) + "\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"extra": 1},
        {"v": True},
        {"v": ""},
        {"v": float("inf")},
        {"v": float("nan")},
        {"v": [16]},
        {"v": 1 << 70},
        {"v": "x" * 201},
        {"v": "two\nlines"},
        {"s": "sysfs"},
        {"q": "gpu-count"},
        {"q": 5},
        {"d": "x" * 257},
        {"d": "a\nb"},
        {"p": "a number with a problem"},
        {"v": None},
        {"v": None, "p": "x" * 201},
    ],
)
def test_a_line_that_is_not_a_reading_makes_all_unread(changes: dict[str, object]):
    data = reading_line(**changes) + reading_lines.end(1)
    found = reading_lines.parse(data.encode(), NAMES, ("nvml",), "nvml")
    assert {one.quantity for one in found} == {*NAMES, reading_lines.OUTPUT}
    assert all(one.value is None and one.problem for one in found)


@pytest.mark.parametrize("end", ['{"end":true}', '{"end":1.0}', '{"end":2}', '{"end":"1"}', '{"end":1,"more":2}', ""])
def test_an_end_without_the_number_of_readings_leaves_no_quantity_well(end: str):
    found = reading_lines.parse(f"{reading_line()}{end}\n".encode(), NAMES, ("nvml",), "nvml")
    assert {one.quantity for one in found if one.value is None} >= set(NAMES)


def test_the_end_is_the_last_line():
    data = reading_line() + reading_lines.end(1) + reading_line(q="gpu-lost", v=0)
    found = reading_lines.parse(data.encode(), NAMES, ("nvml",), "nvml")
    assert {one.quantity for one in found if one.value is None} >= set(NAMES)


def test_damaged_output():
    check_output(OUTPUT)
    fuzz_output(20_000)


@pytest.mark.full_health
def test_much_damaged_output():
    fuzz_output(400_000)


CODES = [0] * 30 + [1, 2, 3, 3, 3, 4, 6, 9, 13, 15, 16, 17, 18, 25, 28, 999, -1, 4711, None]
NUMBERS = [0, 0, 1, 1, 2, 3, 16, 18, 40, 255, -1, -2, 1 << 31, (1 << 32) - 1, 1 << 63]


class RandomLibrary:
    """NVML whose calls fail, or fill what they are given with random numbers. `failed` has the functions that never returned 0."""

    def __init__(self, random_: random.Random, addresses: bool) -> None:
        self.random, self.addresses, self.calls = random_, addresses, 0
        self.worked: set[str] = set()

    def call(self, function: str, *arguments: Any) -> None:
        self.calls += 1
        code = self.random.choice(CODES)
        if code != 0:
            raise NvmlError(function, code)
        self.worked.add(function)
        for argument in arguments:
            target = getattr(argument, "_obj", argument)
            if isinstance(target, ctypes.Array):
                for one in target if not isinstance(target, ctypes.Array) or target._type_ is not ctypes.c_char else ():
                    self.fill(one)
            elif target is not argument:
                self.fill(target)
        if function == "nvmlDeviceGetCount_v2":
            arguments[0]._obj.value = self.random.choice([0, 1, 2, 2, 2, 100, (1 << 32) - 1])

    def fill(self, target: Any) -> None:
        if isinstance(target, ctypes.c_void_p):
            target.value = 1
        elif isinstance(target, ctypes.Structure):
            size = ctypes.sizeof(target)
            ctypes.memmove(ctypes.byref(target), self.random.randbytes(size), size)
            if hasattr(target, "busId") and self.addresses:
                target.busId = f"00000000:{self.random.randrange(4):02X}:00.0".encode()
            if hasattr(target, "nvmlReturn"):
                target.nvmlReturn = self.random.choice([0, 0, 0, 3, 15, 999])
                target.valueType = self.random.choice([0, 1, 2, 3, 4, 5, 6, 7, -1])
                target.value.ullVal = self.random.choice([0, 0, 1, 4, 18, 36, 37, 1 << 40, (1 << 64) - 1])
        else:
            target.value = self.random.choice(NUMBERS)


NEEDS = {
    "remap-pending": "nvmlDeviceGetRemappedRows", "remap-failure": "nvmlDeviceGetRemappedRows", "ecc-mode": "nvmlDeviceGetEccMode",
    "sram-threshold": "nvmlDeviceGetSramEccErrorStatus", "pcie-width": "nvmlDeviceGetCurrPcieLinkWidth",
    "pcie-replay": "nvmlDeviceGetPcieReplayCounter", "persistence": "nvmlDeviceGetPersistenceMode",
    "nvlink-down": "nvmlDeviceGetNvLinkState", "gpu-count-driver": "nvmlDeviceGetCount_v2", "ecc-corrected": "nvmlDeviceGetTotalEccErrors",
}  # fmt: skip
SWITCHES = (
    "remap-pending",
    "remap-failure",
    "ecc-mode",
    "sram-threshold",
    "persistence",
    "gpu-lost",
    "reset-required",
    "throttle-hw",
)


def fuzz_nvml(count: int, root: Root) -> None:
    """Let NVML answer at random until it answered `count` calls."""
    random_, answers = random.Random(2), 0
    while answers < count:
        library = RandomLibrary(random_, random_.random() < 0.9)
        try:
            readings = list(nvml.read_gpus(library, root))
        except nvml.NvmlUnusableError as error:
            readings = list(error.readings)
            assert all(one.value == 0 for one in readings)
        answers += library.calls
        for one in readings:
            assert (one.value is None) == bool(one.problem)
            if one.value is not None:
                assert one.quantity not in NEEDS or NEEDS[one.quantity] in library.worked
                assert one.quantity not in SWITCHES or one.value in (0, 1)
        data = "".join(reading_lines.line(one) for one in readings) + reading_lines.end(len(readings))
        keys = [(one.quantity, one.device) for one in readings]
        if len(keys) == len(set(keys)):
            parsed = reading_lines.parse(data.encode(), nvml.QUANTITIES, ("nvml",), "nvml")
            assert [one for one in parsed if one in readings] == readings


def test_random_answers_of_nvml(machine: Machine):
    fuzz_nvml(20_000, machine.root)


@pytest.mark.full_health
def test_many_random_answers_of_nvml(machine: Machine):
    fuzz_nvml(400_000, machine.root)


def test_random_lines_of_foreign_checks_and_advice():
    random_ = random.Random(3)
    line = b'{"check": "a", "status": "ok", "device": "d", "text": ""}\n'
    health = json.dumps(
        {"body": {"Overall Health": {"value": "Healthy"}, "GPU": {"children": {"0": {"value": "Healthy"}}}}}
    ).encode()
    for _time in range(3_000):
        for one in foreign_checks.parse("a", 0, damaged(random_, line * 2)):
            assert one.value in (None, "ok", "warn", "fail")
        for source in advice.SOURCES:
            for one in advice.parse(source, damaged(random_, health)):
                assert one.value in (None, "ok", "warn", "fail")


def test_a_line_of_deep_json_is_unread():
    found = reading_lines.parse(b"[" * 100_000 + b"\n", NAMES, ("nvml",), "nvml")
    assert {one.value for one in found} == {None}
