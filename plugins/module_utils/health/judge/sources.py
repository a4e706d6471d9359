# SPDX-License-Identifier: GPL-3.0-or-later
"""Group the sources of readings: sources of one group can fail for the same reason, so they count once."""

from __future__ import annotations

import re
from collections.abc import Iterable

DRIVER = "driver"
KERNEL_LOG = "kernel-log"
_GROUPS = {"nvml": DRIVER, "nvidia-smi": DRIVER}
_INDEPENDENT = frozenset({DRIVER, KERNEL_LOG, "procfs", "sysfs", "mount"})
_ADDRESS = re.compile(r"(?:pci:)?([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?\Z")


def group(source: str) -> str:
    """Return the group of a source.

    >>> [group(one) for one in ("nvml", "nvidia-smi", "sysfs")]
    ['driver', 'driver', 'sysfs']
    """
    return _GROUPS.get(source, source)


def independent(sources: Iterable[str]) -> frozenset[str]:
    """Return the groups of bedplate's own sources. Foreign checks and advice of DCGM, gpud and NVIDIA's validation are in no group."""
    return frozenset(group(one) for one in sources) & _INDEPENDENT


def is_own(source: str) -> bool:
    """Return whether a source is bedplate's own, so that its readings may have a worse class than `degraded`."""
    return group(source) in _INDEPENDENT


def device_key(device: str) -> str:
    """Return a device so that the spellings of the kernel's log, NVML and sysfs are equal.

    >>> [device_key(one) for one in ("PCI:0000:3b:00", "00000000:3B:00.0", "0000:3b:00.0", "mlx5_0/1")]
    ['0000:3b:00.0', '0000:3b:00.0', '0000:3b:00.0', 'mlx5_0/1']
    """
    match = _ADDRESS.match(device.strip().lower())
    if not match:
        return device
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}.{match[4] or 0}"
