# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the job that an event of the kernel's log belongs to."""

from __future__ import annotations

from pathlib import Path

from ...common.sysfs import Root
from ..facts.node_facts import KernelEvent
from . import job_ring
from .clock import Moment

RING = "jobs"
_RECENT = 60.0
"""Age in seconds up to which the jobs that run now count as those at the time of an event."""


class NodeJobs:
    """Read the ring of the epilog and the cgroups of slurmd."""

    def __init__(self, root: Path, ring: Path) -> None:
        self.root, self.ring = root, ring

    def running(self) -> tuple[int, ...]:
        """Return the jobs that run now."""
        return job_ring.running(Root(str(self.root)))

    def of_event(self, event: KernelEvent, now: Moment) -> int | None:
        """Return the job of an event of this boot: that of its process, else the only job that the node had at that time."""
        job = job_ring.of_process(Root(str(self.root)), event.details.get("pid", ""))
        if job is not None:
            return job
        jobs = set(job_ring.at(job_ring.parse(job_ring.read(self.ring)), event.uptime, now.time - now.uptime))
        if now.uptime - event.uptime <= _RECENT:
            jobs.update(self.running())
        return jobs.pop() if len(jobs) == 1 else None
