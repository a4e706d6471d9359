# SPDX-License-Identifier: GPL-3.0-or-later
"""Build modules that are built against the driver again, after another driver was installed: DKMS does not."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from .dkms_build import COMPILE, DkmsError, Run, first_error
from .dkms_modules import DkmsModule, installed_for, modules_in
from .dkms_packages import ASK


def stale(names: Collection[str], run: Run, root: Path = Path("/")) -> list[tuple[DkmsModule, str]]:
    """Return (module, kernel) of the named modules that lack a build as new as the driver's, for each kernel with a driver.

    Raises DkmsError if `dkms status` fails.
    """
    said = run(["dkms", "status"], ASK)
    if said.code != 0:
        raise DkmsError(f"dkms status fails, so it is unknown for which kernels modules are built: {said.text}")
    there = modules_in(root / "usr/src")
    found = []
    for kernel, installed in sorted(installed_for(said.stdout).items()):
        drivers = [one for one in there if one.is_driver and (one.name, one.version) in installed]
        if not drivers or not (root / "lib/modules" / kernel / "build").exists():
            continue
        of_driver = max(_built(root, one, kernel) for one in drivers)
        for one in there:
            is_there = (one.name, one.version) in installed
            if one.name in names and (not is_there or _built(root, one, kernel) < of_driver):
                found.append((one, kernel))
    return found


def _built(root: Path, module: DkmsModule, kernel: str) -> int:
    """Return when DKMS built a module for a kernel, in nanoseconds; 0 where no file of it is left."""
    folder = root / "var/lib/dkms" / module.name / module.version / kernel
    return max((path.stat().st_mtime_ns for path in folder.glob("*/module/*.ko*")), default=0)


def replaced(names: Collection[str], driver: str, root: Path = Path("/")) -> list[str]:
    """Return the named modules on the machine, if a driver of another version than `driver` is installed: they await the new one."""
    there = modules_in(root / "usr/src")
    if not any(one.is_driver and one.version != driver for one in there):
        return []
    return [one.name for one in there if one.name in names]


def rebuild(module: DkmsModule, kernel: str, run: Run) -> None:
    """Let DKMS build and install a module again. Raises DkmsError if it does not compile."""
    for verb in ("build", "install"):
        done = run(["dkms", verb, "--force", *module.options, "-k", kernel], COMPILE)
        if done.code != 0:
            raise DkmsError(
                f"{module.name} {module.version} is not built for kernel {kernel} with the installed driver (dkms {verb}):\n"
                f"  {first_error(done.text)}\n/var/lib/dkms/{module.name}/{module.version}/build/make.log says more. The driver itself is "
                f"installed; state another version of {module.name} in `gpu_stack.gpudirect`"
            )
