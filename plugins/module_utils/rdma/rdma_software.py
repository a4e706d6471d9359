# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the RDMA software of a machine and what its kernel runs: modules, packages, the driver of DOCA-OFED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..common.command import Runner
from ..common.finding import Finding
from ..common.remedies import run_role_again
from ..common.sysfs import Root
from ..primitives import reboot_notes

NOTE = "run/bedplate/reboot-wanted/rdma"
_DRIVER = "sys/module/mlx5_core"


def is_old(root: Root) -> bool:
    """Return whether the kernel runs its own mlx5 driver: DOCA-OFED's has a version, the kernel's own lacks it."""
    return root.exists(_DRIVER) and not root.exists(f"{_DRIVER}/version")


def note(root: Root, doca: bool) -> None:
    """Note that a reboot is needed if DOCA-OFED is installed and the kernel's own driver runs; otherwise remove the note."""
    reason = "DOCA-OFED is installed, and the kernel's own mlx5 driver runs" if doca and is_old(root) else ""
    reboot_notes.note(root.find(NOTE), reason, check=False)


def drift(root: Root, expected: Mapping[str, object], run: Runner) -> Iterator[Finding]:
    """Compare packages, modules and driver."""
    packages = expected["packages"]
    if not isinstance(packages, Mapping):
        raise AssertionError("packages: a mapping")
    yield from _packages(packages, str(expected["manager"]), run)
    modules = expected["modules"]
    if not isinstance(modules, Sequence):
        raise AssertionError("modules: a list")
    for name in modules:
        if not root.exists(f"sys/module/{name.replace('-', '_')}"):
            yield Finding(
                "module", f"kernel module {name}", "loaded", "not loaded", f"modprobe {name} shows the reason"
            )
    if expected["doca"] and is_old(root):
        fix = "reboot; if that does not help, DOCA-OFED has no module for this kernel: dkms status, or doca-kernel-support"
        yield Finding("driver", "driver mlx5_core", "DOCA-OFED's", "the kernel's own", fix, reboot=True)


def _packages(wanted: Mapping[str, str], manager: str, run: Runner) -> Iterator[Finding]:
    if not wanted:
        return
    there = _installed(list(wanted), manager, run)
    for name, version in wanted.items():
        found = there.get(name, "")
        if not found or (version and found != version):
            yield Finding(
                "package",
                f"package {name}",
                version or "installed",
                found or "not installed",
                run_role_again("rdma"),
            )


def _installed(names: Sequence[str], manager: str, run: Runner) -> dict[str, str]:
    """Return package -> version of the installed ones."""
    if manager == "dnf":
        command = ["rpm", "--query", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE} installed\n", *names]
    else:
        command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version} ${db:Status-Status}\n", *names]
    rows = [line.split() for line in run(command).stdout.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 3 and row[2] == "installed"}
