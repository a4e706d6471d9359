# SPDX-License-Identifier: GPL-3.0-or-later
"""Look up names of PCI devices in the machine's own pci.ids, the file that lspci reads."""

from __future__ import annotations

from collections.abc import Collection

from ..common.sysfs import Root

_FILES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")


def pci_names(root: Root, ids: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return (vendor, device) -> name of the device, for ids as sysfs has them, such as ("0x15b3", "0x1021").

    A machine without pci.ids has no names. The format is described at the head of pci.ids: a vendor's line begins with its four digits,
    its devices' lines with a tab.
    """
    path = next((path for path in _FILES if root.exists(path)), None)
    if path is None or not ids:
        return {}
    found: dict[tuple[str, str], str] = {}
    vendors, vendor = {vendor for vendor, _device in ids}, ""
    for line in root.lines(path):
        if line[:1].isalnum():
            vendor = f"0x{line[:4].lower()}"
        elif vendor in vendors and line[:1] == "\t" and line[1:2] != "\t":
            key = (vendor, f"0x{line[1:5].lower()}")
            if key in ids:
                found[key] = line[5:].strip()
    return found
