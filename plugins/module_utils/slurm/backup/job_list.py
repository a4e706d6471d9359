# SPDX-License-Identifier: GPL-3.0-or-later
"""List the jobs that a backup has: by slurmctld's own list, and the time at which it wrote the job_state of the backup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ...common import command
from ...common.command import Outcome

Run = Callable[..., Outcome]
_ARGV = ("squeue", "--local", "--noheader", "--all", "--states=all", "--format=%A|%T|%S|%V|%e")
_RUNS = frozenset(
    {"RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "STOPPED", "RESIZING"}
)
_WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_SECONDS = 60.0


class JobsError(Exception):
    """slurmctld does not list its jobs; the text is complete."""


@dataclass(frozen=True)
class BackedUpJobs:
    """Jobs at the time of a backup, by id.

    `at`: when slurmctld wrote the job_state of the backup, in seconds since 1970. `running` are in it as running; `waiting` are in it as
    pending; `later` started or were submitted in the second of `at` or after it, so the backup may lack them.
    """

    at: int
    running: Sequence[int] = field(default_factory=tuple)
    waiting: Sequence[int] = field(default_factory=tuple)
    later: Sequence[int] = field(default_factory=tuple)

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {name: list(one) if isinstance(one, (list, tuple)) else one for name, one in asdict(self).items()}

    @staticmethod
    def of(facts: Mapping[str, Any]) -> BackedUpJobs:
        """Return it from plain data. Raises KeyError, TypeError, ValueError for other data."""
        lists = {name: tuple(int(one) for one in facts[name]) for name in ("running", "waiting", "later")}
        return BackedUpJobs(int(facts["at"]), **lists)


def read(at: int, run: Run = command.run) -> BackedUpJobs:
    """Read slurmctld's list, after the copy of a job_state that was written at `at`. Raises JobsError."""
    done = run(_ARGV, _SECONDS, environment={"SLURM_TIME_FORMAT": "%s", "SQUEUE_STATES": None, "SQUEUE_USERS": None})
    if done.code != 0:
        raise JobsError(f"squeue: {done.error_line}")
    return parse(done.stdout, at)


def parse(text: str, at: int) -> BackedUpJobs:
    """Return the jobs in the output of squeue: id, state, start, submission and end, the times in seconds.

    >>> parse("7|RUNNING|100|90|N/A\\n8|PENDING|N/A|95|N/A\\n9|RUNNING|120|99|N/A\\n", 110)
    BackedUpJobs(at=110, running=(7,), waiting=(8, 9), later=())
    """
    running, waiting, later = set(), set(), set()
    for line in text.splitlines():
        fields = line.strip().split("|")
        if len(fields) != 5 or not fields[0].isdigit():
            continue
        job, state = int(fields[0]), fields[1]
        started, submitted, ended = (int(one) if one.isdigit() else 0 for one in fields[2:])
        if state not in _RUNS | _WAITS and ended < at:
            continue
        if submitted >= at:
            later.add(job)
        elif state not in _WAITS and 0 < started < at:
            running.add(job)
        else:
            # In the backup it waits: one that started since is known to slurmctld, and not as running.
            waiting.add(job)
    return BackedUpJobs(at, *(tuple(sorted(one)) for one in (running, waiting - running, later)))
