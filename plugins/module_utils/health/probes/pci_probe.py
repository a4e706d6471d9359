# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the PCI Express links of the GPUs from sysfs. Only a disposable child runs this: some files make the kernel query the device."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...common.sysfs import Root
from ...gpu.devices.gpu_devices import PCI, gpu_addresses, pci_facts
from ..facts.node_facts import Reading
from .reading_lines import NOT_SUPPORTED, unread

SOURCE = "sysfs"
QUANTITIES = (
    "gpu-count-pci",
    "gpu-lost",
    "pcie-width",
    "pcie-width-max",
    "aer-fatal",
    "aer-nonfatal",
    "aer-correctable",
)
_AER = {
    "aer-fatal": ("aer_dev_fatal", "TOTAL_ERR_FATAL"),
    "aer-nonfatal": ("aer_dev_nonfatal", "TOTAL_ERR_NONFATAL"),
    "aer-correctable": ("aer_dev_correctable", "TOTAL_ERR_COR"),
}
_COUNT = re.compile(r"[0-9]{1,19}\Z")


def read_pci(root: Root) -> Iterator[Reading]:
    """Yield the number of GPUs on the bus, and each GPU's link and error counters."""
    if not root.exists(PCI):
        yield unread("gpu-count-pci", "", SOURCE, f"/{PCI} does not exist")
        return
    addresses = gpu_addresses(root)
    yield Reading("gpu-count-pci", "", len(addresses), SOURCE)
    for address in addresses:
        yield _lost(root, address)
        facts = pci_facts(root, address)
        for quantity, name in (("pcie-width", "link_width"), ("pcie-width-max", "max_link_width")):
            value = facts[name]
            if value is None:
                why = next((one for one in root.problems if address in one and "width" in one), "no width in sysfs")
                yield unread(quantity, address, SOURCE, why)
            else:
                yield Reading(quantity, address, value, SOURCE)
        yield from (_aer(root, address, quantity) for quantity in _AER)


def _lost(root: Root, address: str) -> Reading:
    """Return whether the device still answers on the bus: the bus reads as ones where no device answers (PCI specification)."""
    try:
        with root.find(f"{PCI}/{address}/config").open("rb", buffering=0) as file:
            head = file.read(4)
    except OSError as error:
        return unread("gpu-lost", address, SOURCE, f"/{PCI}/{address}/config: {error.strerror or error}")
    if len(head or b"") != 4:
        return unread("gpu-lost", address, SOURCE, f"/{PCI}/{address}/config is shorter than 4 bytes")
    return Reading("gpu-lost", address, int(head == b"\xff\xff\xff\xff"), SOURCE)


def _aer(root: Root, address: str, quantity: str) -> Reading:
    name, total = _AER[quantity]
    path = f"{PCI}/{address}/{name}"
    if not root.exists(path):
        return unread(quantity, address, SOURCE, f"{NOT_SUPPORTED}: /{path} does not exist")
    for line in root.lines(path):
        key, _blank, value = line.partition(" ")
        if key == total and _COUNT.match(value.strip()):
            return Reading(quantity, address, int(value), SOURCE)
    return unread(quantity, address, SOURCE, f"/{path} has no {total}")
