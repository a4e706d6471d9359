# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the driver of a machine: the loaded module, its user space, the modules on disk for each kernel, and Secure Boot."""

from __future__ import annotations

import os
import re
from typing import Any

from ...common.sysfs import Root
from ..devices.gpu_devices import PROC

Facts = dict[str, Any]

# /dev/nvidiactl proves nothing: nvidia-smi creates it without a driver.
VERSION_FILE = "sys/module/nvidia/version"
FLAVOUR_FILE, PARAMETERS_FILE = f"{PROC}/version", f"{PROC}/params"
_LIBRARY = "libnvidia-ml.so.1"
_LIBRARY_VERSION = re.compile(r"libnvidia-ml\.so\.(\d+(?:\.\d+)+)\Z")
# Debian names the file after the flavour; the loaded module is always nvidia.
_MODULE = re.compile(r"(nvidia(?:-current(?:-open)?)?)\.ko(?:\.(?:xz|zst|gz))?\Z")
_FLAVOURS = {"nvidia-current": "proprietary", "nvidia-current-open": "open"}
# DKMS of Debian and Ubuntu; DKMS and packages of EL; NVIDIA's installer.
_MODULE_DIRECTORIES = (
    "updates/dkms",
    "updates",
    "extra",
    "extra/*",
    "weak-updates",
    "weak-updates/*",
    "kernel/drivers/video",
)
# Debian and Ubuntu; EL. Copies, and the images of kdump and rescue, match no kernel release and are never rebuilt.
_INITRAMFS = re.compile(r"(?:initrd\.img-(?P<deb>.+)|initramfs-(?P<rpm>.+)\.img)\Z")
_RESCUE = "0-rescue-"
_EFI = "sys/firmware/efi"
_SECURE_BOOT = f"{_EFI}/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def parse_flavour(text: str) -> str | None:
    """Return open or proprietary from the driver's `version` file; None if the file does not show it."""
    if "NVRM version:" not in text:
        return None
    return "open" if "Open Kernel Module" in text else "proprietary"


def parse_parameters(text: str, problems: list[str]) -> Facts:
    """Return the parameters in force: numbers as int, texts without their quotes."""
    found: Facts = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not line.strip():
            continue
        if not colon or not key or key in found:
            problems.append(f"/{PARAMETERS_FILE}: {line.strip()!r} cannot be read")
        elif re.fullmatch(r"[0-9]{1,20}", value):
            found[key] = int(value)
        else:
            found[key] = value[1:-1] if len(value) > 1 and value[0] == value[-1] == '"' else value
    return found


def read_libraries(root: Root) -> list[Facts]:
    """Return the NVML libraries with the version at the end of each link; None if unknown."""
    places = ["usr/lib64", "usr/lib", *(f"usr/lib/{name}" for name in root.names("usr/lib"))]
    found: dict[str, Facts] = {}
    for place in places:
        if not os.path.lexists(root.find(place) / _LIBRARY):
            continue
        path, at = f"{place}/{_LIBRARY}", root.find(f"{place}/{_LIBRARY}")
        match = _LIBRARY_VERSION.match(at.name)
        version = match[1] if match and at.exists() else None
        if version is None:
            why = "its name has no version" if at.exists() else "which does not exist"
            root.problems.append(f"/{path}: leads to {root.name(at)}, {why}")
        # On a system with merged /usr, two directories are the same.
        found.setdefault(root.name(at), {"path": f"/{path}", "version": version})
    return list(found.values())


def mismatch(loaded: str | None, libraries: list[Facts]) -> bool | None:
    """Return whether a library and the loaded module have different versions; None if one of them is unknown."""
    versions = {library["version"] for library in libraries}
    if loaded is None or not versions - {None}:
        return None
    if versions - {None, loaded}:
        return True
    return None if None in versions else False


def read_kernels(root: Root) -> tuple[str | None, list[Facts]]:
    """Return the running kernel, and all kernels with an image or a directory of modules."""
    running = root.text("proc/sys/kernel/osrelease") or None
    trees = [name for name in root.names("lib/modules") if root.find(f"lib/modules/{name}").is_dir()]
    prefix = "vmlinuz-"
    images = [name[len(prefix) :] for name in root.names("boot") if name.startswith(prefix)]
    kernels = [
        {
            "release": release,
            "running": release == running,
            "image": release in images,
            "tree": release in trees,
            "modules": _modules(root, release),
        }
        for release in sorted({*trees, *images})
    ]
    return running, kernels


def _modules(root: Root, release: str) -> list[Facts]:
    """Return the files of the module for a kernel; only Debian's file names show the flavour."""
    found = []
    for pattern in _MODULE_DIRECTORIES:
        base = f"lib/modules/{release}/{pattern.removesuffix('/*')}"
        places = [f"{base}/{name}" for name in root.names(base)] if pattern.endswith("/*") else [base]
        for place in places:
            for name in root.names(place):
                match = _MODULE.match(name)
                if match and root.exists(f"{place}/{name}"):
                    found.append({"path": f"/{place}/{name}", "name": match[1], "flavour": _FLAVOURS.get(match[1])})
    return found


def initramfs_before(root: Root, file: str) -> list[str]:
    """Return the initramfs images that were made before a file was written: all of them if the file does not exist yet."""
    images = [
        name for name in root.names("boot") if _is_of_a_kernel(root, name) and root.find(f"boot/{name}").is_file()
    ]
    try:
        written = root.find(file).stat().st_mtime
    except OSError:
        written = float("inf")
    return [f"/boot/{name}" for name in images if root.find(f"boot/{name}").stat().st_mtime < written]


def _is_of_a_kernel(root: Root, name: str) -> bool:
    match = _INITRAMFS.match(name)
    release = (match["deb"] or match["rpm"]) if match else ""
    return bool(release) and not release.startswith(_RESCUE) and root.exists(f"boot/vmlinuz-{release}")


def secure_boot(root: Root) -> str | None:
    """Return enabled, disabled, or none without EFI or if the firmware does not support Secure Boot; None if unknown."""
    if not root.exists(_EFI):
        return "none"
    data = root.raw(_SECURE_BOOT, needed=False)
    if data is None:
        if root.names(f"{_EFI}/efivars"):
            return "none" if not root.exists(_SECURE_BOOT) else None
        root.problems.append(
            f"/{_EFI}/efivars: empty, so the state of Secure Boot is unknown. Check that efivarfs is mounted"
        )
        return None
    # Four bytes of attributes, then the value.
    state = {0: "disabled", 1: "enabled"}.get(data[4]) if len(data) == 5 else None
    if state is None:
        root.problems.append(f"/{_SECURE_BOOT}: {data.hex()!r} is not a state of Secure Boot (4 bytes, then 00 or 01)")
    return state
