# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the values of one GPU from NVML. A number outside its documented range is a problem, never a value."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_int, c_uint, c_ulonglong
from typing import Any

from .nvml_library import (
    INVALID_ARGUMENT,
    FabricInfo,
    FabricInfoV2,
    Library,
    Margin,
    NvmlError,
    RemapHistogram,
    SramStatus,
    field,
    versioned,
)
from .reading_lines import NOT_SUPPORTED, Answer, Problem

_LINK_COUNT, _RECOVERY_ACTION = 91, 230
_MOST_LINKS = 36
_REPLAY, _RECOVERY, _CRC_FLIT, _CRC_DATA = range(4)
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_HW_SLOWDOWN, _SW_THERMAL, _HW_THERMAL, _POWER_BRAKE = 0x8, 0x20, 0x40, 0x80
_FABRIC_STATES = ("not-supported", "not-started", "in-progress", "completed")
ACTIONS = (
    "none", "gpu-reset", "node-reboot", "drain-p2p", "drain-and-reset", "recover-imex-domain", "bus-reset", "system-reboot",
)  # fmt: skip
"""Values of `recovery-action`, in the order of NVML's numbers."""


def switch(value: int, name: str) -> Answer:
    """Return 0 or 1; a problem for any other number."""
    return value if value in (0, 1) else Problem(f"{name} is {value}, neither 0 nor 1")


def _count(value: int, bits: int) -> Answer:
    """Return a counter; NVML fills a counter that is not available with ones."""
    return value if 0 <= value < (1 << bits) - 1 else Problem(f"{NOT_SUPPORTED}: the counter is {value}")


def _one(library: Library, handle: Any, function: str, kind: type[Any] = c_uint) -> int:
    value = kind()
    library.call(function, handle, byref(value))
    found: int = value.value
    return found


def _ecc_mode(library: Library, handle: Any) -> tuple[Answer, ...]:
    current, pending = c_int(), c_int()
    library.call("nvmlDeviceGetEccMode", handle, byref(current), byref(pending))
    return (switch(current.value, "ECC mode"),)


def _ecc_errors(kind: int) -> Callable[[Library, Any], tuple[Answer, ...]]:
    def read(library: Library, handle: Any) -> tuple[Answer, ...]:
        count = c_ulonglong()
        library.call("nvmlDeviceGetTotalEccErrors", handle, c_int(kind), c_int(0), byref(count))
        return (_count(count.value, 64),)

    return read


def _sram(library: Library, handle: Any) -> tuple[Answer, ...]:
    status = versioned(SramStatus, 1)
    library.call("nvmlDeviceGetSramEccErrorStatus", handle, byref(status))
    return (switch(status.bThresholdExceeded, "bThresholdExceeded"),)


def _remapped(library: Library, handle: Any) -> tuple[Answer, ...]:
    corrected, uncorrected, pending, failure = (c_uint() for _ in range(4))
    library.call(
        "nvmlDeviceGetRemappedRows", handle, byref(corrected), byref(uncorrected), byref(pending), byref(failure)
    )
    return (switch(pending.value, "isPending"), switch(failure.value, "failureOccurred"), _count(uncorrected.value, 32))


def _histogram(library: Library, handle: Any) -> tuple[Answer, ...]:
    values = RemapHistogram()
    library.call("nvmlDeviceGetRowRemapperHistogram", handle, byref(values))
    return (_count(values.none, 32),)


def _links(library: Library, handle: Any) -> range:
    """Return the numbers of the GPU's NVLinks. NvmlError: no links, or their number is not known."""
    try:
        count = field(library, handle, _LINK_COUNT)
    except NvmlError as error:
        if not error.is_unsupported:
            raise
        count = _MOST_LINKS
    if not 0 < count <= _MOST_LINKS:
        raise NvmlError(f"{count} NVLinks", 3 if count == 0 else INVALID_ARGUMENT)
    return range(count)


def _links_down(library: Library, handle: Any) -> tuple[Answer, ...]:
    down = 0
    for link in _links(library, handle):
        active = c_int()
        try:
            library.call("nvmlDeviceGetNvLinkState", handle, c_uint(link), byref(active))
        except NvmlError as error:
            if error.code == INVALID_ARGUMENT and link:
                break  # the driver did not report the number of links, and this is the first after the last
            raise
        if active.value not in (0, 1):
            return (Problem(f"state of NVLink {link} is {active.value}, neither 0 nor 1"),)
        down += active.value == 0
    return (down,)


def _link_errors(*counters: int) -> Callable[[Library, Any], tuple[Answer, ...]]:
    def read(library: Library, handle: Any) -> tuple[Answer, ...]:
        total = 0
        for link in _links(library, handle):
            try:
                total += sum(_link_error(library, handle, link, one) for one in counters)
            except NvmlError as error:
                if error.code == INVALID_ARGUMENT and link:
                    break
                raise
        return (_count(total, 64),)

    return read


def _link_error(library: Library, handle: Any, link: int, counter: int) -> int:
    count = c_ulonglong()
    library.call("nvmlDeviceGetNvLinkErrorCounter", handle, c_uint(link), c_int(counter), byref(count))
    return count.value


def _fabric(library: Library, handle: Any) -> tuple[Answer, ...]:
    info: Any = versioned(FabricInfoV2, 2)
    try:
        library.call("nvmlDeviceGetGpuFabricInfoV", handle, byref(info))
    except NvmlError as error:
        if error.code is not None:
            raise
        info = FabricInfo()
        library.call("nvmlDeviceGetGpuFabricInfo", handle, byref(info))
    if info.state >= len(_FABRIC_STATES):
        return (Problem(f"fabric state {info.state} is not documented"),)
    state = _FABRIC_STATES[info.state]
    return (state if state != "completed" or info.status == 0 else f"failed-{info.status}",)


def _width(library: Library, handle: Any) -> tuple[Answer, ...]:
    width = _one(library, handle, "nvmlDeviceGetCurrPcieLinkWidth")
    return (width if width in _WIDTHS else Problem(f"{width} is not a PCIe link width"),)


def _replay(library: Library, handle: Any) -> tuple[Answer, ...]:
    return (_count(_one(library, handle, "nvmlDeviceGetPcieReplayCounter"), 32),)


def _margin(library: Library, handle: Any) -> tuple[Answer, ...]:
    """Return the degrees until the GPU slows down: T.Limit, or where the driver lacks it the slowdown temperature minus the temperature."""
    margin = versioned(Margin, 1)
    try:
        library.call("nvmlDeviceGetMarginTemperature", handle, byref(margin))
        degrees = margin.marginTemperature
    except NvmlError as error:
        if not error.is_unsupported:
            raise
        now, slowdown = c_uint(), c_uint()
        library.call("nvmlDeviceGetTemperatureThreshold", handle, c_int(1), byref(slowdown))
        library.call("nvmlDeviceGetTemperature", handle, c_int(0), byref(now))
        degrees = slowdown.value - now.value
    return (degrees if -100 < degrees < 200 else Problem(f"{degrees} degrees is not a margin"),)


def _throttle(library: Library, handle: Any) -> tuple[Answer, ...]:
    try:
        reasons = _one(library, handle, "nvmlDeviceGetCurrentClocksEventReasons", c_ulonglong)
    except NvmlError as error:
        if error.code is not None:
            raise
        reasons = _one(library, handle, "nvmlDeviceGetCurrentClocksThrottleReasons", c_ulonglong)
    return throttle_values(reasons)


def throttle_values(reasons: int) -> tuple[Answer, ...]:
    """Return throttle-hw, throttle-software-thermal and power-brake of the bits; 0x8 is set by a power brake as well.

    >>> throttle_values(0x88)
    (0, 0, 1)
    """
    brake = bool(reasons & _POWER_BRAKE)
    hardware = bool(reasons & _HW_THERMAL) or (bool(reasons & _HW_SLOWDOWN) and not brake)
    return (int(hardware), int(bool(reasons & _SW_THERMAL)), int(brake))


def _action(library: Library, handle: Any) -> tuple[Answer, ...]:
    number = field(library, handle, _RECOVERY_ACTION)
    known = 0 <= number < len(ACTIONS)
    return (ACTIONS[number] if known else Problem(f"recovery action {number} is not documented"),)


def _persistence(library: Library, handle: Any) -> tuple[Answer, ...]:
    return (switch(_one(library, handle, "nvmlDeviceGetPersistenceMode", c_int), "persistence mode"),)


READERS: tuple[tuple[tuple[str, ...], Callable[[Library, Any], tuple[Answer, ...]]], ...] = (
    (("persistence",), _persistence),
    (("recovery-action",), _action),
    (("ecc-mode",), _ecc_mode),
    (("ecc-uncorrected-volatile",), _ecc_errors(1)),
    (("ecc-corrected",), _ecc_errors(0)),
    (("sram-threshold",), _sram),
    (("remap-pending", "remap-failure", "remap-uncorrectable"), _remapped),
    (("remap-bank-none",), _histogram),
    (("nvlink-down",), _links_down),
    (("nvlink-crc",), _link_errors(_CRC_FLIT, _CRC_DATA)),
    (("nvlink-replay",), _link_errors(_REPLAY, _RECOVERY)),
    (("fabric-state",), _fabric),
    (("pcie-width",), _width),
    (("pcie-replay",), _replay),
    (("thermal-margin",), _margin),
    (("throttle-hw", "throttle-software-thermal", "power-brake"), _throttle),
)
"""Quantities of a GPU with the function that reads them."""
GPU_QUANTITIES = tuple(name for names, _read in READERS for name in names)
