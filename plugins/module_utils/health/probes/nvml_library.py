# SPDX-License-Identifier: GPL-3.0-or-later
"""Call NVIDIA's management library by ctypes. Each symbol is looked up when it is called, because old drivers lack some.

Only a disposable child may use this: a call can hang in the driver for ever, and nvmlInit creates /dev/nvidiactl where no driver is
loaded. Numbers and structs are those of NVIDIA's NVML API reference.
"""

from __future__ import annotations

import ctypes
from typing import Any, Protocol

SUCCESS, INVALID_ARGUMENT, NOT_SUPPORTED, NO_DRIVER, GPU_IS_LOST, RESET_REQUIRED, MISMATCH, UNKNOWN = (
    0,
    2,
    3,
    9,
    15,
    16,
    18,
    999,
)
_NAMES = {
    1: "uninitialized", 2: "invalid argument", 3: "not supported", 4: "no permission", 6: "not found", 7: "insufficient size",
    8: "insufficient power", 9: "driver not loaded", 10: "timeout", 11: "interrupt failure", 12: "library not found",
    13: "function not found", 14: "corrupted infoROM", 15: "GPU is lost", 16: "GPU requires a reset", 17: "operating system",
    18: "driver and library have different versions", 19: "in use", 20: "no memory", 21: "no data", 25: "argument version mismatch",
    26: "deprecated", 27: "not ready", 28: "GPU not found", 29: "invalid state", 999: "unknown",
}  # fmt: skip
_U, _ULL = ctypes.c_uint, ctypes.c_ulonglong


class NvmlError(Exception):
    """A call that returned no value. `code` is NVML's, None where the library lacks the symbol."""

    def __init__(self, function: str, code: int | None) -> None:
        """Describe the failure of a call."""
        self.function, self.code = function, code
        why = (
            "this driver's library lacks it"
            if code is None
            else f"{_NAMES.get(code, 'not a documented code')} ({code})"
        )
        super().__init__(f"{function}: {why}")

    @property
    def is_unsupported(self) -> bool:
        """Return whether device or driver do not have the value at all."""
        return self.code in (None, NOT_SUPPORTED)


class PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", _U),
        ("bus", _U),
        ("device", _U),
        ("pciDeviceId", _U),
        ("pciSubSystemId", _U),
        ("busId", ctypes.c_char * 32),
    )


class RemapHistogram(ctypes.Structure):
    """nvmlRowRemapperHistogramValues_t: number of banks by the reserved rows that they still have."""

    _fields_ = tuple((name, _U) for name in ("max", "high", "partial", "low", "none"))


_SRAM_COUNTERS = (
    "aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed", "volatileCor",
    "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie", "aggregateUncBucketMcu", "aggregateUncBucketOther",
)  # fmt: skip


class SramStatus(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t."""

    _fields_ = (("version", _U), *((name, _ULL) for name in _SRAM_COUNTERS), ("bThresholdExceeded", _U))


_FABRIC = (("clusterUuid", ctypes.c_ubyte * 16), ("status", ctypes.c_int), ("cliqueId", _U), ("state", ctypes.c_ubyte))


class FabricInfo(ctypes.Structure):
    """nvmlGpuFabricInfo_t."""

    _fields_ = _FABRIC


class FabricInfoV2(ctypes.Structure):
    """nvmlGpuFabricInfo_v2_t."""

    _fields_ = (("version", _U), *_FABRIC, ("healthMask", _U))


class Margin(ctypes.Structure):
    """nvmlMarginTemperature_v1_t, in degrees Celsius."""

    _fields_ = (("version", _U), ("marginTemperature", ctypes.c_int))


class _FieldUnion(ctypes.Union):
    _fields_ = (
        ("dVal", ctypes.c_double),
        ("uiVal", _U),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", _ULL),
        ("sllVal", ctypes.c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    )


# In the order of nvmlValueType_t. The first is a fraction, and no field that is read here has it.
_TYPES = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("fieldId", _U),
        ("scopeId", _U),
        ("timestamp", ctypes.c_longlong),
        ("latencyUsec", ctypes.c_longlong),
        ("valueType", ctypes.c_int),
        ("nvmlReturn", ctypes.c_int),
        ("value", _FieldUnion),
    )


def versioned(kind: type[Any], number: int) -> Any:
    """Return an empty struct with its version set, as NVML_STRUCT_VERSION does."""
    return kind(version=ctypes.sizeof(kind) | number << 24)


class Library(Protocol):
    """Functions of NvmlLibrary; tests have their own."""

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function. NvmlError: its return code is not 0."""


class NvmlLibrary:
    """Hold the loaded library. OSError: it cannot be loaded."""

    def __init__(self, path: str) -> None:
        """Load the library; this alone does not touch the driver."""
        self._library = ctypes.CDLL(path)

    def call(self, function: str, *arguments: Any) -> None:
        """Call a function. NvmlError: the symbol is missing, or the return code is not 0."""
        try:
            symbol = getattr(self._library, function)
        except AttributeError:
            raise NvmlError(function, None) from None
        code = symbol(*arguments)
        if code != SUCCESS:
            raise NvmlError(function, code)


def field(library: Library, handle: Any, number: int) -> int:
    """Return one whole field value of a GPU. NvmlError as in `call`, or for a value of another type."""
    values = (FieldValue * 1)()
    values[0].fieldId = number
    library.call("nvmlDeviceGetFieldValues", handle, ctypes.c_int(1), values)
    found = values[0]
    if found.nvmlReturn != SUCCESS:
        raise NvmlError(f"field {number}", found.nvmlReturn)
    if not 0 < found.valueType < len(_TYPES):
        raise NvmlError(f"field {number} of type {found.valueType}", UNKNOWN)
    value: int = getattr(found.value, _TYPES[found.valueType])
    return value
