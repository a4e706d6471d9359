# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GPUs by NVML. Only a disposable child runs this: each call can hang in the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ctypes import byref, c_uint, c_void_p, create_string_buffer

from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import GPUS, address_of, gpu_addresses
from ..facts.node_facts import Reading
from .nvml_library import GPU_IS_LOST, MISMATCH, RESET_REQUIRED, Library, NvmlError, NvmlLibrary, PciInfo
from .nvml_values import GPU_QUANTITIES, READERS
from .probe_settings import MODULE
from .reading_lines import NOT_SUPPORTED, Answer, Problem, unread

SOURCE = "nvml"
NODE_QUANTITIES = ("gpu-count-driver", "driver-match")
DEVICE_QUANTITIES = ("gpu-lost", "reset-required", *GPU_QUANTITIES)
QUANTITIES = (*NODE_QUANTITIES, *DEVICE_QUANTITIES)
_MOST = 64


class NvmlUnusableError(Exception):
    """NVML cannot be used at all, so nvidia-smi is the next source. `readings`: what the failure itself shows."""

    def __init__(self, problem: str, readings: Sequence[Reading] = ()) -> None:
        """Keep the readings of the failure."""
        super().__init__(problem)
        self.readings = tuple(readings)


def open_library(root: Root, path: str) -> Library:
    """Return the library. NvmlUnusableError: it cannot be loaded. LookupError: no driver is loaded, so the library was not opened."""
    if not root.exists(MODULE):
        raise LookupError(f"/{MODULE} does not exist: the driver is not loaded")
    try:
        return NvmlLibrary(path)
    except OSError as error:
        raise NvmlUnusableError(f"{path}: {error}") from error


def read_gpus(library: Library, root: Root) -> Iterator[Reading]:
    """Yield the readings of all GPUs, each as soon as it is read. NvmlUnusableError: NVML does not start."""
    try:
        library.call("nvmlInit_v2")
    except NvmlError as error:
        match = [Reading("driver-match", "", 0, SOURCE)] if error.code == MISMATCH else []
        raise NvmlUnusableError(str(error), match) from error
    yield _match(library, root)
    try:
        count = c_uint()
        library.call("nvmlDeviceGetCount_v2", byref(count))
    except NvmlError as error:
        yield unread("gpu-count-driver", "", SOURCE, str(error))
        return
    if count.value > _MOST:
        yield unread("gpu-count-driver", "", SOURCE, f"{count.value} GPUs are more than {_MOST}")
        return
    yield Reading("gpu-count-driver", "", count.value, SOURCE)
    yield from _devices(library, root, count.value)


def _match(library: Library, root: Root) -> Reading:
    """Compare the version of the library, 13.580.95.05, with that of the loaded module, 580.95.05."""
    version = create_string_buffer(80)
    try:
        library.call("nvmlSystemGetNVMLVersion", version, c_uint(80))
    except NvmlError as error:
        return unread("driver-match", "", SOURCE, str(error))
    own, module = version.value.decode("ascii", "replace").partition(".")[2], root.text(MODULE)
    if not own or not module:
        return unread("driver-match", "", SOURCE, f"version {version.value!r} of the library, {module!r} of the module")
    return Reading("driver-match", "", int(own == module), SOURCE)


def _devices(library: Library, root: Root, count: int) -> Iterator[Reading]:
    seen: set[str] = set()
    nameless: list[tuple[int, NvmlError]] = []
    for index in range(count):
        try:
            handle, address = _handle(library, index)
        except NvmlError as error:
            nameless.append((index, error))
            continue
        if address is None or address in seen:
            why = f"GPU {index}: {'a second GPU with this address' if address else 'its PCI address is not valid'}"
            yield from _unread_device(address or f"index-{index}", why)
            continue
        seen.add(address)
        yield from _device(library, handle, address)
    missing = sorted({*gpu_addresses(root), *root.names(GPUS)} - seen)
    # The driver refuses to name these. As many addresses are left over, so each of them is one of these GPUs.
    named = len(missing) == len(nameless) and len({error.code for _index, error in nameless}) == 1
    for place, (index, refusal) in enumerate(nameless):
        yield from _failed(missing[place] if named else f"index-{index}", refusal)


def _handle(library: Library, index: int) -> tuple[c_void_p, str | None]:
    handle, info = c_void_p(), PciInfo()
    library.call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
    library.call("nvmlDeviceGetPciInfo_v3", handle, byref(info))
    return handle, address_of(info.busId.decode("ascii", "replace"))


def _device(library: Library, handle: c_void_p, address: str) -> Iterator[Reading]:
    """Yield the readings of a GPU; after the answer that it is lost, it is not queried again."""
    reset, is_answering = 0, False
    for place, (names, read) in enumerate(READERS):
        try:
            answers: Sequence[Answer] = read(library, handle)
            is_answering = True
        except NvmlError as error:
            if error.code == GPU_IS_LOST:
                rest = [name for others, _read in READERS[place:] for name in others]
                yield Reading("gpu-lost", address, 1, SOURCE)
                yield Reading("reset-required", address, reset, SOURCE)
                yield from (unread(name, address, SOURCE, str(error)) for name in rest)
                return
            reset |= error.code == RESET_REQUIRED
            prefix = f"{NOT_SUPPORTED}: " if error.is_unsupported else ""
            answers = [Problem(f"{prefix}{error}")] * len(names)
        for name, answer in zip(names, answers):
            if isinstance(answer, Problem):
                yield unread(name, address, SOURCE, answer)
            else:
                yield Reading(name, address, answer, SOURCE)
    if is_answering or reset:
        yield Reading("gpu-lost", address, 0, SOURCE)
        yield Reading("reset-required", address, int(reset), SOURCE)
    else:
        why = "the GPU answered no call"
        yield from (unread(name, address, SOURCE, why) for name in ("gpu-lost", "reset-required"))


def _failed(device: str, error: NvmlError) -> Iterator[Reading]:
    """Yield the readings of a GPU whose handle the driver refuses."""
    known = {"gpu-lost": GPU_IS_LOST, "reset-required": RESET_REQUIRED}
    if error.code not in known.values():
        yield from _unread_device(device, str(error))
        return
    yield from (Reading(name, device, int(error.code == code), SOURCE) for name, code in known.items())
    yield from (unread(name, device, SOURCE, str(error)) for name in GPU_QUANTITIES)


def _unread_device(device: str, problem: str) -> Iterator[Reading]:
    yield from (unread(name, device, SOURCE, problem) for name in DEVICE_QUANTITIES)
