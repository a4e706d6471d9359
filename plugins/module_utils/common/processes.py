# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes of a machine, read from /proc: steps of Slurm's jobs, and the driver's own daemons."""

from __future__ import annotations

from pathlib import Path

STEP = "slurmstepd"
# The argument of the process that slurmd keeps under cgroup v2 for as long as the node is up.
_NO_STEP = b"infinity"
DAEMONS = ("nvidia-persiste", "nv-hostengine", "nv-fabricmanage", "dcgm-exporter", "nvidia-smi")
"""Names, as the kernel keeps them, of the programs of the driver: they hold every GPU and use none."""


def is_step(process: Path, name: str) -> bool:
    """Return whether a process of /proc with this name is a step of a job. One whose arguments cannot be read is."""
    if name != STEP:
        return False
    try:
        return (process / "cmdline").read_bytes().split(b"\0")[1:2] != [_NO_STEP]
    except OSError:
        return True


def target(link: Path) -> str:
    """Return where a link of /proc/PID/fd leads, "" where it has gone."""
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed meanwhile
