# SPDX-License-Identifier: GPL-3.0-or-later
"""What only the kernel's command line can set, as the kernel that runs shows it: isolated CPUs, and what the IOMMU does."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.cpulists import parse
from ...common.finding import Finding
from ...common.sysfs import Root

_BOOT = "the kernel's command line says it: see kernel_cmdline's row, and reboot"
_GROUPS = "sys/kernel/iommu_groups"


def drift_of_cpus(root: Root, wanted: str) -> Iterator[Finding]:
    """Compare the CPUs that the scheduler leaves alone; "" is none."""
    for name in ("isolated", "nohz_full"):
        text = root.text(f"sys/devices/system/cpu/{name}", needed=False) or ""
        there = "" if text == "(null)" else text
        if set(parse(there)) != set(parse(wanted)):
            yield Finding(
                "cpu-isolation", f"CPUs that are {name}", wanted or "none", there or "none", _BOOT, reboot=True
            )


def drift_of_iommu(root: Root) -> Iterator[Finding]:
    """Compare what the IOMMU does with devices: it is to let them pass. Without an IOMMU there are no groups."""
    kinds = {name: root.text(f"{_GROUPS}/{name}/type", needed=False) or "" for name in root.names(_GROUPS)}
    wrong = {name: kind for name, kind in kinds.items() if kind not in ("identity", "")}
    if wrong:
        found = ", ".join(sorted(set(wrong.values())))
        yield Finding(
            "iommu",
            f"IOMMU of {len(wrong)} of {len(kinds)} groups of devices",
            "identity (passthrough)",
            found,
            _BOOT,
            reboot=True,
        )
