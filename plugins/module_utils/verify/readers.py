# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a machine that verify reads back, and the function that compares each.

A reader is `(root, expected) -> findings`. It runs on the machine itself, needs no Ansible and changes nothing. `root` is the root of the
machine's file system, `expected` what plugin_utils/verify/expected.py makes for the part, plain data that fits in JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import verify as gpu
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.container_checks import Checker
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root, run_detached
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import state as rdma
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import accounts_verify, conf_files, database
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import verify as slurm
from ansible_collections.bedplate.cluster.plugins.module_utils.state import node_os, packages, units, written
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import state as tuning

Reader = Callable[[str, Mapping[str, Any]], Iterable[Finding]]


def _of_tree(read: Callable[[Root, Mapping[str, Any]], Iterable[Finding]]) -> Reader:
    """Return the reader that takes the tree of the machine; what cannot be read of it is a finding, too."""

    def reader(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
        tree = Root(root)
        yield from read(tree, expected)
        for problem in dict.fromkeys(tree.problems):
            path, _, why = problem.partition(": ")
            yield Finding("unread", path, "a file that can be read", why or problem, severity=WARNING)

    return reader


def _before_reboot(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
    return gpu.findings(root, expected, running=False)


def _bounded(command: list[str], seconds: float) -> Outcome:
    """Run a command of a container engine; one that hangs in a driver is left behind."""
    (done,) = run_detached([command], seconds)
    return Outcome(done.code, done.stdout, done.stderr)


def _containers(root: str, expected: Mapping[str, Any]) -> Iterable[Finding]:
    return Checker(Path(root), _bounded).findings(expected)


READERS: dict[str, Reader] = {
    "files": _of_tree(written.findings),
    "units": _of_tree(units.findings),
    "packages": _of_tree(packages.findings),
    "node_os": _of_tree(node_os.findings),
    "node_tuning": _of_tree(tuning.drift),
    "rdma": _of_tree(rdma.drift),
    "gpu_driver": gpu.findings,
    "gpu_driver_before_reboot": _before_reboot,
    "cuda": gpu.findings,
    "dcgm": gpu.findings,
    "container_toolkit": gpu.findings,
    "containers": _containers,
    "slurm_files": conf_files.findings,
    "slurm": slurm.findings,
    "slurm_accounts": accounts_verify.findings,
    "slurm_database": database.findings,
}
"""Part -> its reader."""


def read(parts: Mapping[str, Mapping[str, Any]], root: str = "/") -> Iterator[Finding]:
    """Yield the findings of all parts. A reader that fails is a finding of kind `unread`, and the others are still asked."""
    for part, expected in parts.items():
        try:
            yield from READERS[part](root, expected)
        except Exception as error:
            text = str(error) or "no message"
            remedy = (
                f"what this part has on the machine is not compared; see that {part} can be read, then verify again"
            )
            yield Finding("unread", f"part {part}", "to be compared", f"{type(error).__name__}: {text}", remedy)
