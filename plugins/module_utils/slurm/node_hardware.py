# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the hardware of this node with its new lines in slurm.conf and gres.conf.

slurmd does not start if a device file is missing, and slurmctld takes a node out of service if it registers with fewer sockets * cores,
threads, CPUs or less memory than in its line (validate_node_specs in node_mgr.c), unless SlurmdParameters has config_overrides.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..common.finding import Finding
from ..common.hostlist import fold
from .live.slurmctld_report import pairs_of

KIND = "node-hardware"


@dataclass(frozen=True)
class Promise:
    """Values in a node's new lines: device files, GPUs that slurmd detects, and the shape; 0 is not compared."""

    profile: str
    cluster_file: str
    devices: Sequence[str] = ()
    gpus: int = 0
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    memory: int = 0


class UnknownError(Exception):
    """Reason why a node's hardware cannot be read."""


def missing_devices(promise: Promise, root: Path = Path("/")) -> list[Finding]:
    """Compare the device files, and the number of GPUs that the driver has."""
    absent = [path for path in promise.devices if not _is_device(root / path.lstrip("/"))]
    found = []
    if absent:
        found.append(
            _finding(
                promise, "gpus.devices", f"the device files {fold(promise.devices)}", f"{fold(absent)} missing or not a character device",
                "Correct `gpus` of the profile, or load the GPU driver (playbooks/gpu.yml)",
            )
        )  # fmt: skip
    if promise.gpus:
        directory = root / "proc/driver/nvidia/gpus"
        if not directory.is_dir():
            raise UnknownError(f"{directory} is absent: the NVIDIA driver is not loaded")
        count = len(list(directory.iterdir()))
        if count < promise.gpus:
            remedy = "Correct `gpus.count` of the profile, or find the missing GPU (`nvidia-smi`, `lspci`)"
            found.append(_finding(promise, "gpus.count", f"{promise.gpus} GPUs", f"{count} GPUs", remedy))
    return found


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def smaller(promise: Promise, slurmd: Mapping[str, str]) -> list[Finding]:
    """Compare the shape with the pairs of `slurmd -C`: a node with less of anything is taken out of service."""
    sockets, cores, threads = (
        int(slurmd.get(key, "1")) for key in ("SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")
    )
    sockets *= int(slurmd.get("Boards", "1"))
    remedy = "Correct the profile: `slurmd -C` on the node prints its values"
    rows = [
        ("sockets x cores_per_socket", promise.sockets * promise.cores_per_socket, sockets * cores, "cores"),
        ("threads_per_core", promise.threads_per_core, threads, "threads a core"),
        (
            "memory_mib less huge pages less reserved_memory_mib",
            promise.memory,
            int(slurmd.get("RealMemory", "0")),
            "MiB",
        ),
    ]
    return [
        _finding(promise, key, f"{wanted} {unit}", f"{has} {unit}", remedy)
        for key, wanted, has, unit in rows
        if has < wanted
    ]


def _finding(promise: Promise, key: str, expected: str, found: str, remedy: str) -> Finding:
    return Finding(KIND, f"{promise.cluster_file}: profiles.{promise.profile}.{key}", expected, found, remedy)


def parse_slurmd(text: str) -> dict[str, str]:
    """Parse `slurmd -C`.

    >>> parse_slurmd("NodeName=n1 CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2\\nUpTime=0-00:23:16\\n")["CPUs"]
    '2'
    """
    return next((pairs_of(line) for line in text.splitlines() if line.startswith("NodeName=")), {})


def by_node(findings: Iterable[Finding]) -> str:
    """Return findings as text, one line for all nodes with the same difference; a node that reports on itself names no node."""
    nodes: dict[tuple[str, str, str, str], list[str]] = {}
    for one in findings:
        nodes.setdefault((one.where, one.expected, one.found, one.remedy), []).append(one.machine)
    return "\n".join(
        f"{where}: {expected}{f' for {fold(names)}' if any(names) else ''}, found {found} there. {remedy}."
        for (where, expected, found, remedy), names in nodes.items()
    )
