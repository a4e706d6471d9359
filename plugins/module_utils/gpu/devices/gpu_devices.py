# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the GPUs and NVSwitches of a machine by PCI address, and the driver's files about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...common.sysfs import Root

PCI, PROC = "sys/bus/pci/devices", "proc/driver/nvidia"
GPUS, CAPABILITIES = f"{PROC}/gpus", f"{PROC}/capabilities"
_NVIDIA = "0x10de"
# Display controllers (3D, VGA), and the bridges that NVSwitches are.
_KINDS = {"0x0302": "gpu", "0x0300": "gpu", "0x0680": "nvswitch"}
# A device that has fallen off the bus reads as all ones, which decodes as a width of 63 or 255.
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
_ADDRESS = re.compile(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-7])\Z")

Facts = dict[str, Any]


def address_of(text: str) -> str | None:
    """Return a PCI address in the form of sysfs, 0000:3b:00.0, also from nvidia-smi's 00000000:3B:00.0; None if it is not an address."""
    match = _ADDRESS.match(text.strip())
    if not match:
        return None
    domain, bus, slot, function = match.groups()
    return f"{int(domain, 16):04x}:{bus}:{slot}.{function}".lower()


def read_devices(root: Root) -> tuple[list[Facts], list[Facts]]:
    """Return the GPUs and the NVSwitches in the order of their PCI addresses."""
    found: dict[str, list[Facts]] = {"gpu": [], "nvswitch": []}
    for address in root.names(PCI):
        if kind := _kind(root, address):
            found[kind].append(pci_facts(root, address))
    return found["gpu"], found["nvswitch"]


def gpu_addresses(root: Root) -> list[str]:
    """Return the PCI addresses of the GPUs, sorted."""
    return [address for address in root.names(PCI) if _kind(root, address) == "gpu"]


def _kind(root: Root, address: str) -> str:
    """Return `gpu`, `nvswitch`, or "" for another PCI device."""
    base = f"{PCI}/{address}"
    if root.text(f"{base}/vendor") != _NVIDIA:
        return ""
    return _KINDS.get((root.text(f"{base}/class") or "")[:6], "")


def pci_facts(root: Root, address: str) -> Facts:
    """Return sysfs's values of a PCI device: ids, driver, NUMA node, and its link in GT/s and lanes; None for missing values."""
    base = f"{PCI}/{address}"
    return {
        "address": address,
        "device": _id(root, f"{base}/device"),
        "subsystem_vendor": _id(root, f"{base}/subsystem_vendor"),
        "subsystem_device": _id(root, f"{base}/subsystem_device"),
        "driver": root.link(f"{base}/driver"),
        "numa_node": numa_node(root, address),
        "link_speed": _speed(root, f"{base}/current_link_speed"),
        "max_link_speed": _speed(root, f"{base}/max_link_speed"),
        "link_width": _width(root, f"{base}/current_link_width"),
        "max_link_width": _width(root, f"{base}/max_link_width"),
    }


def _id(root: Root, path: str) -> str | None:
    text = root.text(path)
    return None if text is None else text.lower()


def numa_node(root: Root, address: str) -> int | None:
    """Return the NUMA node of a PCI device; the kernel writes -1 if it is unknown."""
    path = f"{PCI}/{address}/numa_node"
    text = root.text(path)
    if text is None or text == "-1":
        return None
    if not text.isdecimal():
        root.problems.append(f"/{path}: {text!r} is not a NUMA node")
        return None
    return int(text)


def _speed(root: Root, path: str) -> float | None:
    text = root.text(path)
    if text is None:
        return None
    match = _SPEED.match(text)
    if not match:
        root.problems.append(f"/{path}: {text!r} is not a link speed in GT/s")
        return None
    return float(match[1])


def _width(root: Root, path: str) -> int | None:
    text = root.text(path)
    if text is None:
        return None
    if not text.isdecimal() or int(text) not in _WIDTHS:
        root.problems.append(f"/{path}: {text!r} is not a PCIe link width. The device may have fallen off the bus")
        return None
    return int(text)


def add_driver_facts(root: Root, gpus: list[Facts], texts: Mapping[str, str], hung: list[str], loaded: bool) -> None:
    """Add to each GPU the values from the driver's files; `texts` and `hung` are the `information` files by address."""
    known = {gpu["address"] for gpu in gpus}
    root.problems += [
        f"/{GPUS}/{other}: the driver lists this GPU, but /{PCI} does not"
        for other in (*texts, *hung)
        if other not in known
    ]
    for gpu in gpus:
        gpu.update(minor=None, model=None, uuid=None, excluded=None, mig_instances=None)
        address = gpu["address"]
        if address in texts:
            gpu.update(parse_information(texts[address], f"/{GPUS}/{address}/information", root.problems))
            gpu["mig_instances"] = _mig_instances(root, gpu["minor"])
        elif loaded and gpu["driver"] == "nvidia" and address not in hung:
            root.problems.append(
                f"/{GPUS}/{address}: the driver is bound to this GPU but has no information file for it"
            )


def parse_information(text: str, where: str, problems: list[str]) -> Facts:
    """Return minor, model, uuid and excluded from a GPU's `information` file; None for missing values."""
    told = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            told[key.strip()] = value.strip()
        elif line.strip():
            problems.append(f"{where}: {line.strip()!r} cannot be read")
    found: Facts = {
        "minor": _minor(told.get("Device Minor")),
        "model": told.get("Model") or None,
        "uuid": told.get("GPU UUID") or None,
        "excluded": {"Yes": True, "No": False}.get(told.get("GPU Excluded", "")),
    }
    # A GPU that the driver has not initialised has a UUID of question marks.
    if "?" in (found["uuid"] or ""):
        found["uuid"] = None
    keys = {"minor": "Device Minor", "model": "Model", "uuid": "GPU UUID", "excluded": "GPU Excluded"}
    for name, key in keys.items():
        if found[name] is None:
            said = f"is {told[key]!r}" if key in told else "is missing"
            problems.append(f"{where}: {key} {said}")
    return found


def _minor(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,10}", text) else None


def _mig_instances(root: Root, minor: int | None) -> list[Facts] | None:
    """Return the GPU instances with their compute instances; their directories are named by the minor number."""
    if minor is None:
        return None
    if not root.exists(CAPABILITIES):
        root.problems.append(f"/{CAPABILITIES}: not found, so the MIG instances of GPU minor {minor} are unknown")
        return None
    base = f"{CAPABILITIES}/gpu{minor}/mig"
    return [{"gi": gi, "ci": _numbered(root, f"{base}/gi{gi}", "ci")} for gi in _numbered(root, base, "gi")]


def _numbered(root: Root, path: str, prefix: str) -> list[int]:
    found = (re.fullmatch(rf"{prefix}([0-9]+)", name) for name in root.names(path))
    return sorted(int(match[1]) for match in found if match)
