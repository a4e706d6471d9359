# SPDX-License-Identifier: GPL-3.0-or-later
"""Rename RDMA devices to the names of the cluster file, independent of the order in which the kernel found them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..common.command import Runner
from ..common.finding import Finding
from ..common.sysfs import Root
from .rdma_devices import NicSettings, RdmaDevice, find

_PCI = "sys/bus/pci/devices"


def renames(devices: Sequence[RdmaDevice], nics: Sequence[NicSettings]) -> list[tuple[str, str]]:
    """Return (from, to) in an order in which the new name is always free: a device with that name is renamed first.

    >>> one, other = RdmaDevice("mlx5_0", "b", "", "", "", ""), RdmaDevice("mlx5_1", "a", "", "", "", "")
    >>> renames([one, other], [NicSettings("mlx5_0", "a"), NicSettings("mlx5_1", "b")])
    [('mlx5_0', 'bedplate_b'), ('mlx5_1', 'mlx5_0'), ('bedplate_b', 'mlx5_1')]
    """
    names = {one.name: one for one in devices}
    pending = {}
    for nic in nics:
        device = find(devices, nic) if nic.is_fixed else None
        if device is not None and device.name != nic.name:
            pending[device.name] = nic.name
    moves = []
    while pending:
        old = next((one for one, new in pending.items() if new not in names), "")
        if old:
            new = pending.pop(old)
        else:
            # All names are taken: the device with the first one gets a temporary name, and keeps it if the file has no name for it.
            old = next(iter(pending.values()))
            new = "bedplate_" + re.sub(r"\W", "_", names[old].pci or names[old].guid or old)
            if old in pending:
                pending[new] = pending.pop(old)
        names[new] = names.pop(old)
        moves.append((old, new))
    return moves


def rename_devices(devices: Sequence[RdmaDevice], nics: Sequence[NicSettings], run: Runner) -> Iterator[str]:
    """Rename devices; yield the failures."""
    for old, new in renames(devices, nics):
        outcome = run(["rdma", "dev", "set", old, "name", new])
        if outcome.code != 0:
            yield f"RDMA device {old}: cannot be renamed to {new}: {outcome.error_line}"


def drift(root: Root, devices: Sequence[RdmaDevice], nics: Sequence[NicSettings]) -> Iterator[Finding]:
    """Yield the NICs that are missing or have another name."""
    for nic in nics:
        device = find(devices, nic)
        if device is None:
            yield _missing(root, devices, nic)
        elif device.name != nic.name:
            yield Finding(
                "rdma-name",
                f"name of the RDMA device {_whose(nic)}",
                nic.name,
                device.name,
                "systemctl restart bedplate-rdma",
            )


def _whose(nic: NicSettings) -> str:
    return f"at {nic.pci}" if nic.pci else f"with the GUID {nic.guid}"


def _missing(root: Root, devices: Sequence[RdmaDevice], nic: NicSettings) -> Finding:
    there = ", ".join(one.name for one in devices) or "none"
    if not nic.is_fixed:
        fix = "check `lspci -d 15b3:` and `dmesg | grep mlx5`; if the NIC has another name, state its `pci` in the cluster file"
        return Finding("rdma-device", f"RDMA device {nic.name}", "present", f"not found; this machine has {there}", fix)
    setting = f"RDMA device {nic.name} {_whose(nic)}"
    if nic.pci and not root.exists(f"{_PCI}/{nic.pci}"):
        return Finding(
            "rdma-device",
            setting,
            "present",
            "no such PCI device",
            "lspci; if the NIC is missing, check slot, riser and firmware",
        )
    if nic.pci:
        driver = root.link(f"{_PCI}/{nic.pci}/driver")
        found = f"a PCI device with the driver {driver}, without RDMA" if driver else "a PCI device without a driver"
        return Finding(
            "rdma-device", setting, "present", found, "modprobe mlx5_ib; dmesg shows why the driver refused it"
        )
    return Finding(
        "rdma-device",
        setting,
        "present",
        f"not found; this machine has {there}",
        "if the NIC was replaced, record its new GUID, or state its `pci`",
    )
