# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the requirements of NVLink besides packages: IMEX's list of nodes and channel, the fabric manager's kernel modules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.finding import Finding
from ..common.remedies import run_role_again
from .gpu_software_drift import Run

_MODULES = "bedplate-gpu-modules.service"


def findings(wanted: Mapping[str, Any], kernel: str, run: Run, root: Path = Path("/")) -> Iterator[Finding]:
    """Compare `nodes_file`, `nodes` (addresses in order) and `modules`; `kernel` is the kernel that boots next, "" if unknown."""
    if wanted.get("nodes_file"):
        yield from nodes(wanted["nodes_file"], wanted["nodes"], root)
    if kernel:
        yield from modules(wanted.get("modules", ()), kernel, run)


def channel(wanted: Mapping[str, Any], gpu: Mapping[str, Any], root: Path = Path("/")) -> Iterator[Finding]:
    """Look for the device of the IMEX channel, `channel`, where the loaded module has the option that makes it.

    An option that is not in force is a finding of its own.
    """
    path, parameters = wanted.get("channel") or "", gpu["driver"]["parameters"] or {}
    if not path or not gpu["gpus"] or not parameters.get("CreateImexChannel0"):
        return
    if not (root / path.lstrip("/")).is_char_device():
        fix = "programs cannot share GPU memory with another node: `journalctl -k | grep -i imex`, then drain the node and reboot it"
        yield Finding("imex-channel", path, "an IMEX channel", "no such device", fix, reboot=True)


def loaded(wanted: Mapping[str, Any], gpu: Mapping[str, Any], root: Path = Path("/")) -> Iterator[Finding]:
    """Look for the kernel modules in memory, where the driver runs: the fabric manager waits for them at its start."""
    if not gpu["gpus"] or gpu["driver"]["version"] is None:
        return
    for name in wanted.get("modules", ()):
        if not (root / "sys/module" / name.replace("-", "_")).exists():
            fix = f"systemctl restart {_MODULES}, then the fabric manager on the drained node; journalctl -b -u {_MODULES}"
            yield Finding("module-loaded", f"kernel module {name}", "loaded", "not loaded", fix)


def nodes(path: str, wanted: Sequence[str], root: Path) -> Iterator[Finding]:
    """Compare the list of the nodes of an NVLink domain, which must be the same on all of them."""
    try:
        found = (root / path.lstrip("/")).read_text(encoding="utf-8").split()
    except OSError as error:
        found, said = [], error.strerror or "unreadable"
    else:
        said = _difference(wanted, found)
    if found != list(wanted):
        whole = f"the {len(wanted)} nodes of the NVLink domain"
        fix = (
            run_role_again("gpu_driver")
            + ", on all nodes of the domain; IMEX refuses to start where they have different lists"
        )
        yield Finding("imex-nodes", path, whole, said, fix)


def _difference(wanted: Sequence[str], found: Sequence[str]) -> str:
    lacking = [one for one in wanted if one not in found]
    others = [one for one in found if one not in wanted]
    said = [f"{word} {', '.join(names)}" for word, names in (("none of", lacking), ("also", others)) if names]
    return "; ".join(said) or "the same nodes in another order, or duplicates"


def modules(names: Sequence[str], kernel: str, run: Run) -> Iterator[Finding]:
    """Check for kernel modules on disk, for the kernel that boots next."""
    for name in names:
        if run(["modinfo", "--set-version", kernel, "--field", "filename", name]).code != 0:
            fix = f"install the package that contains it: linux-modules-extra-{kernel} on Ubuntu, the complete linux-image elsewhere"
            yield Finding(
                "module",
                f"module {name} for kernel {kernel}",
                "present",
                "none",
                f"{fix}; the fabric manager waits for it",
            )
