# SPDX-License-Identifier: GPL-3.0-or-later
"""Map each part of a machine that verify compares to the function that compares it.

A reader is `(root, expected) -> findings`. It runs on the machine itself, needs no Ansible and changes nothing. `root` is the root of the
machine's file system, `expected` is the part's plain data from plugin_utils/verify/expected.py, which fits in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.finding import WARNING, Finding
from ..common.sysfs import Root
from ..drift import installed_packages, names_and_time, running_units, snapshot_packages, written_files
from ..gpu import gpu_drift
from ..gpu.containers.container_drift import ContainerReader
from ..health.report import control_drift, node_drift
from ..primitives.reboot_notes import NOTES, reasons
from ..provision import boot_drift, host_drift, image_drift
from ..rdma import rdma_drift
from ..slurm.accounting import accounts_drift, database_settings
from ..slurm.backup import backup_drift
from ..slurm.conf import conf_drift
from ..slurm.live import live_drift
from ..tuning import tuning_drift

Reader = Callable[[str, Mapping[str, Any]], Iterable[Finding]]


def _of_tree(read: Callable[[Root, Mapping[str, Any]], Iterable[Finding]]) -> Reader:
    """Return a reader of the machine's file tree; a path that cannot be read is a finding, too."""

    def reader(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
        tree = Root(root)
        yield from read(tree, expected)
        for problem in dict.fromkeys(tree.problems):
            path, _unused, why = problem.partition(": ")
            yield Finding("unread", path, "a file that can be read", why or problem, severity=WARNING)

    return reader


def _before_reboot(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
    return gpu_drift.findings(root, expected, running=False)


def _files_alone(_root: str, _expected: Mapping[str, Any]) -> Iterable[Finding]:
    """Compare nothing more than the files and units of the role, which the readers `files` and `units` compare."""
    return ()


def _containers(root: str, expected: Mapping[str, Any]) -> Iterable[Finding]:
    return ContainerReader(Path(root)).findings(expected)


READERS: dict[str, Reader] = {
    "files": _of_tree(written_files.findings),
    "units": _of_tree(running_units.findings),
    "packages": _of_tree(installed_packages.findings),
    "node_os": _of_tree(names_and_time.findings),
    "snapshot": _of_tree(snapshot_packages.findings),
    "node_tuning": _of_tree(tuning_drift.drift),
    "rdma": _of_tree(rdma_drift.drift),
    "gpu_driver": gpu_drift.findings,
    "gpu_driver_before_reboot": _before_reboot,
    "cuda": gpu_drift.findings,
    "dcgm": gpu_drift.findings,
    "container_toolkit": gpu_drift.findings,
    "containers": _containers,
    "slurm_files": conf_drift.findings,
    "slurm": live_drift.findings,
    "slurm_accounts": accounts_drift.findings,
    "slurm_database": database_settings.findings,
    "slurm_backup": backup_drift.findings,
    "node_health": node_drift.findings,
    "health_control": control_drift.findings,
    "provision": host_drift.findings,
    "network_boot": boot_drift.findings,
    "image": image_drift.findings,
    "files_alone": _files_alone,
}
"""Part -> its reader."""


def waiting_reboots(root: str = "/") -> Iterator[Finding]:
    """Yield what waits for a reboot of the machine, by the notes of the roles."""
    for role, why in reasons(Path(root) / NOTES).items():
        yield Finding("reboot", f"reboot for {role}", "", why, "run playbooks/roll.yml", severity=WARNING, reboot=True)


def read(parts: Mapping[str, Mapping[str, Any]], root: str = "/") -> Iterator[Finding]:
    """Yield the findings of all parts. A reader that fails yields a finding of kind `unread`, and the other readers still run."""
    for part, expected in parts.items():
        try:
            yield from READERS[part](root, expected)
        except Exception as error:
            text = str(error) or "no message"
            remedy = f"this part was not compared; make {part} readable, then verify again"
            yield Finding("unread", f"part {part}", "to be compared", f"{type(error).__name__}: {text}", remedy)
