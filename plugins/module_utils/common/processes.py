# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise processes in /proc: steps of Slurm jobs, and the NVIDIA driver's own daemons."""

from __future__ import annotations

from pathlib import Path

STEP = "slurmstepd"
# Argument of the process that slurmd keeps under cgroup v2 while the node is up.
_NO_STEP = b"infinity"
DAEMONS = ("nvidia-persiste", "nv-hostengine", "nv-fabricmanage", "dcgm-exporter", "nvidia-smi")
"""Names of the driver's own daemons, as in /proc/PID/comm: they open every GPU and compute on none."""


def is_step(process: Path, name: str) -> bool:
    """Return whether a process with this name is a step of a job. A process whose arguments cannot be read counts as a step."""
    if name != STEP:
        return False
    try:
        return (process / "cmdline").read_bytes().split(b"\0")[1:2] != [_NO_STEP]
    except OSError:
        return True


def target(link: Path) -> str:
    """Return the target of a link in /proc/PID/fd, "" if it no longer exists."""
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed in the meantime
