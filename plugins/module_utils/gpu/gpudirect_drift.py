# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the kernel modules of GPUDirect: on disk for the next boot, built with the installed driver, and in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.command import Outcome
from ..common.finding import Finding
from ..common.remedies import run_role_again
from .driver.dkms_build import DkmsError
from .driver.dkms_rebuild import stale
from .gpu_software_drift import Run

_UNIT = "bedplate-gpudirect.service"
_PEERMEM = "nvidia_peermem"


def on_disk(wanted: Mapping[str, Any], kernel: str, run: Run, root: Path = Path("/")) -> Iterator[Finding]:
    """Compare the modules for the kernel that boots next; `wanted` has `modules` (file to name in memory), `devices` and `dkms`."""
    fix = f"do not reboot; `dkms status`, then {run_role_again('cuda')}"
    for name in wanted.get("modules", {}):
        if run(["modinfo", "--set-version", kernel, "--field", "filename", name]).code != 0:
            yield Finding("module", f"module {name} for kernel {kernel}", "present", "none", fix)
    if not wanted.get("dkms"):
        return

    def ask(argv: list[str], _seconds: float) -> Outcome:
        return run(argv)

    try:
        found = stale(wanted["dkms"], ask, root)
    except DkmsError as error:
        yield Finding("gpudirect", "modules of GPUDirect", "to be compared", str(error), "dkms status")
        return
    for module, of_kernel in found:
        where = f"module {module.name} {module.version} for kernel {of_kernel}"
        yield Finding("gpudirect", where, "built with the installed driver", "an older build, or none", fix)


def loaded(wanted: Mapping[str, Any], gpu: Mapping[str, Any], root: Path = Path("/")) -> Iterator[Finding]:
    """Look for the modules in memory, and for their devices, where the driver runs."""
    if not gpu["gpus"] or gpu["driver"]["version"] is None:
        return
    for name in wanted.get("modules", {}).values():
        if not (root / "sys/module" / name).exists():
            fix = f"systemctl restart {_UNIT}; journalctl -b -u {_UNIT}"
            if name == _PEERMEM:
                fix += (
                    ". It loads with DOCA-OFED or MLNX_OFED alone, installed before the driver was built; without them leave it out of "
                    "`gpu_stack.gpudirect`, for DMA-BUF does its work"
                )
            yield Finding("module-loaded", f"kernel module {name}", "loaded", "not loaded", fix)
    for path in wanted.get("devices", ()):
        if not (root / path.lstrip("/")).is_char_device():
            yield Finding(
                "gpudirect", path, "a device", "no such device", f"systemctl restart {_UNIT}; journalctl -b -u {_UNIT}"
            )
