# SPDX-License-Identifier: GPL-3.0-or-later
"""Print, as JSON, the PCI configuration along the paths of some devices and the counters of all HCAs. The agent runs it in a child.

A device is a PCI address or the name of an HCA, with or without port. An attribute that cannot be read has its error as text.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...common.sysfs import Root

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_PCI, _HCAS = "/sys/bus/pci/devices", "/sys/class/infiniband"
_CONFIG = 4096
_ATTRIBUTES = ("current_link_speed", "current_link_width", "aer_dev_fatal", "aer_dev_nonfatal", "aer_dev_correctable")


def read_devices(root: Root, devices: Iterable[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Return `pci`: address -> attribute -> text, with `config` in hexadecimal; `hca`: HCA and port -> counter -> text."""
    found: dict[str, dict[str, dict[str, str]]] = {"pci": {}, "hca": {}}
    for device in devices:
        for address in _path(root, device):
            if address not in found["pci"]:
                found["pci"][address] = _device(root, address)
    for hca in root.names(_HCAS):
        for port in root.names(f"{_HCAS}/{hca}/ports"):
            found["hca"][f"{hca}/{port}"] = dict(_counters(root, f"{_HCAS}/{hca}/ports/{port}"))
    return found


def _path(root: Root, device: str) -> Iterator[str]:
    """Yield the addresses from the root port to a device."""
    hca = device.partition("/")[0]
    link = f"{_PCI}/{device}" if _ADDRESS.match(device) else f"{_HCAS}/{hca}/device"
    if hca and root.exists(link):
        yield from (part for part in root.name(root.find(link).resolve()).split("/") if _ADDRESS.fullmatch(part))


def _device(root: Root, address: str) -> dict[str, str]:
    folder = f"{_PCI}/{address}"
    found = {name: _text(root, f"{folder}/{name}") for name in _ATTRIBUTES}
    try:
        with root.find(f"{folder}/config").open("rb", buffering=0) as stream:
            found["config"] = stream.read(_CONFIG).hex()
    except OSError as error:
        found["config"] = str(error.strerror)
    return {name: text for name, text in found.items() if text}


def _counters(root: Root, port: str) -> Iterator[tuple[str, str]]:
    for name in ("state", "phys_state", "rate"):
        yield name, _text(root, f"{port}/{name}")
    for folder in ("counters", "hw_counters"):
        for name in root.names(f"{port}/{folder}"):
            yield f"{folder}/{name}", _text(root, f"{port}/{folder}/{name}")


def _text(root: Root, path: str) -> str:
    try:
        return root.find(path).read_bytes()[:_CONFIG].decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return str(error.strerror)


def write(root: Path, devices: Sequence[str]) -> None:
    """Print the devices to stdout."""
    json.dump(read_devices(Root(str(root.resolve())), devices), sys.stdout, indent=1, sort_keys=True)
