# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the jobs that a restored slurmctld would end, and jobs of the backup without a process, with reasons."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_list import BackedUpJobs


@dataclass(frozen=True)
class JobFates:
    """Jobs by what a restore does to them: `kept` run on, `ended` run now and Slurm ends them, `missing` run in the backup alone."""

    kept: Sequence[int]
    ended: Mapping[int, str]
    missing: Mapping[int, str]

    def lines(self) -> list[str]:
        """Return one line for each job that does not run on."""
        return [f"job {job}: {why}" for found in (self.ended, self.missing) for job, why in sorted(found.items())]


def fates(jobs: BackedUpJobs, on_nodes: Mapping[int, Sequence[str]]) -> JobFates:
    """Compare the jobs of a backup with the running jobs of nodes."""
    running = set(jobs.running)
    when = text_of(jobs.at)
    ended = {}
    for job, nodes in on_nodes.items():
        if job in running:
            continue
        where = f"runs on {fold(nodes)}"
        if job in jobs.waiting:
            ended[job] = f"{where}, and waits in the backup of {when}: Slurm ends it, and starts it again later"
        elif job in jobs.later:
            ended[job] = (
                f"{where}, and was submitted while the backup of {when} was made: Slurm does not know it, and ends it"
            )
        else:
            ended[job] = f"{where}, and was submitted after the backup of {when}: Slurm does not know it, and ends it"
    why = f"ran at the backup of {when}, and runs on no node now. Slurm cannot know how it ended: NODE_FAIL, or it is requeued"
    missing = dict.fromkeys(running - set(on_nodes), why)
    return JobFates(sorted(running & set(on_nodes)), ended, missing)


def text_of(at: float) -> str:
    """Return a time in UTC.

    >>> text_of(0)
    '1970-01-01 00:00:00 UTC'
    """
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
