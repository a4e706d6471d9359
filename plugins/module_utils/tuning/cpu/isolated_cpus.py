# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare settings of the kernel command line with the running kernel: isolated CPUs, and the mode of the IOMMU."""

from __future__ import annotations

from collections.abc import Iterator

from ...common.cpulists import parse
from ...common.finding import Finding
from ...common.sysfs import Root

_BOOT = "the kernel command line sets it: see the finding of kernel_cmdline, and reboot"
_GROUPS = "sys/kernel/iommu_groups"


def drift_of_cpus(root: Root, wanted: str) -> Iterator[Finding]:
    """Compare the CPUs that the scheduler does not use; "" means none."""
    for name in ("isolated", "nohz_full"):
        text = root.text(f"sys/devices/system/cpu/{name}", needed=False) or ""
        there = "" if text == "(null)" else text
        if set(parse(there)) != set(parse(wanted)):
            yield Finding(
                "cpu-isolation", f"CPUs that are {name}", wanted or "none", there or "none", _BOOT, reboot=True
            )


def drift_of_iommu(root: Root) -> Iterator[Finding]:
    """Check that the IOMMU passes devices through. Without an IOMMU there are no groups."""
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
