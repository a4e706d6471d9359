# SPDX-License-Identifier: GPL-3.0-or-later
"""Read which job ran on the node at which time: the ring that the epilog writes, and the cgroups of slurmd for jobs that run now.

A line of the ring is `<job> <user> <start> <end>`: the start in seconds since 1970, `-` if Slurm does not report it; the end in seconds
since boot. No command of Slurm is needed: slurmctld may not answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ...common.files import atomic_write
from ...common.sysfs import Root

KEPT, MOST = 200, 1000
"""A ring with more than MOST lines is cut to its last KEPT lines. An epilog that appends in that moment loses its line, so it is rare."""
SLACK = 5.0
"""Seconds by which the clocks of slurmctld and node may differ."""
_LONGEST = 1 << 18
_LINE = re.compile(r"([0-9]{1,10}) ([0-9]{1,10}) ([0-9]{1,10}|-) ([0-9]{1,10})\Z")
_ID = re.compile(r"job_(\d{1,10})\Z")
_IN_PATH = re.compile(r"/job_(\d{1,10})(?:/|$)", re.MULTILINE)
_SCOPE = "/sys/fs/cgroup/system.slice"
_CONTROLLERS = ("freezer", "memory", "cpuset", "devices", "cpu,cpuacct", "cpu")


@dataclass(frozen=True)
class EndedJob:
    """Hold a job that ended in this boot. `start`: seconds since 1970, None if unknown. `end`: seconds since boot."""

    job: int
    uid: int
    start: int | None
    end: int


def parse(text: str) -> list[EndedJob]:
    """Return the jobs of the ring, the oldest first. A line that is malformed is ignored.

    >>> parse("4711 1000 1790000000 560\\nx\\n")
    [EndedJob(job=4711, uid=1000, start=1790000000, end=560)]
    """
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            start = None if match[3] == "-" else int(match[3])
            found.append(EndedJob(int(match[1]), int(match[2]), start, int(match[4])))
    return found


def read(path: Path) -> str:
    """Return the last lines of the ring; "" without a ring."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _LONGEST))
            text = stream.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        return ""
    return text if size <= _LONGEST else text.partition("\n")[2]


def trim(path: Path) -> bool:
    """Cut a ring that is too long. Return whether it was cut; an error leaves it as it is."""
    lines = read(path).splitlines()
    if len(lines) <= MOST:
        return False
    with suppress(OSError):
        atomic_write(path, "".join(f"{line}\n" for line in lines[-KEPT:]), sync=False)
        return True
    return False


def at(jobs: Iterable[EndedJob], uptime: float, boot_time: float) -> list[int]:
    """Return the jobs that ran, or may have run, at a time in seconds since boot; `boot_time`: of the boot, in seconds since 1970."""
    return sorted(
        {
            one.job
            for one in jobs
            if uptime <= one.end + SLACK and (one.start is None or one.start - boot_time - SLACK <= uptime)
        }
    )


def running(root: Root) -> tuple[int, ...]:
    """Return the jobs that have a cgroup now: below slurmstepd.scope in cgroup v2, below a controller in v1.

    A node with several slurmd has one scope or folder for each, with the node's name in it.
    """
    found: set[int] = set()
    for name in root.names(_SCOPE):
        if name.endswith("slurmstepd.scope"):
            found.update(_live(root, f"{_SCOPE}/{name}"))
    for controller in _CONTROLLERS:
        top = f"/sys/fs/cgroup/{controller}"
        for name in root.names(top):
            if name == "slurm" or name.startswith("slurm_"):
                for user in root.names(f"{top}/{name}"):
                    found.update(_jobs(root.names(f"{top}/{name}/{user}")) if user.startswith("uid_") else ())
    return tuple(sorted(found))


def of_process(root: Root, pid: str) -> int | None:
    """Return the job whose cgroup a process is in; None for another process, or after its end."""
    if not pid.isdecimal():
        return None
    text = root.text(f"/proc/{pid}/cgroup", needed=False) or ""
    found = _IN_PATH.search(text)
    return int(found[1]) if found else None


def _live(root: Root, scope: str) -> list[int]:
    """Return the jobs of a scope that have a process; a kernel that does not report it counts all."""
    return [
        job
        for job in _jobs(root.names(scope))
        if "populated 0" not in (root.text(f"{scope}/job_{job}/cgroup.events", needed=False) or "")
    ]


def _jobs(names: Iterable[str]) -> list[int]:
    return [int(found[1]) for found in map(_ID.match, names) if found]
