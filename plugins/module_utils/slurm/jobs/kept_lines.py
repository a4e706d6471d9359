# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which lines are kept for jobs and which changes jobs forbid, and write the notes for the operator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...common.finding import NOTICE, Finding
from ...common.hostlist import expand, fold
from ...common.text import few
from ..conf.conf_reader import Conf
from ..live.live_state import SLURM
from ..live.slurmctld_report import Live
from . import hardware_in_use
from .cluster_identity import OVERRIDE
from .fence import Fence
from .removed_records import Retained

# Kind of a finding: a node has lines that an earlier run kept for its jobs.
KIND = "kept-for-jobs"
_START = f"Start slurmctld (`systemctl status slurmctld`, `journalctl -u slurmctld`) and run again; or, {OVERRIDE}."


@dataclass
class Answer:
    """Lines to keep, and nodes that change."""

    kept: Retained = field(default_factory=Retained)
    changing: list[hardware_in_use.Group] = field(default_factory=list)
    count: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    fence: Fence = field(default_factory=Fence)
    # Whether this call has set a fence.
    raised: bool = False
    # Whether something that changes or is removed could get a job before the change.
    exposed: bool = False
    # Controllers that answer, file -> digest, and whether slurmctld runs the slurm.conf on disk.
    up: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    loaded: bool = False
    # Whether slurmctld answers, or StateSaveLocation holds its jobs.
    has_state: bool = False

    def facts(self) -> dict[str, Any]:
        """Return the answer as plain data."""
        groups = [asdict(group) for group in self.changing]
        return {
            **asdict(self.kept),
            "changing": groups,
            "count": fold(self.count),
            "new": fold(self.new),
            "fence": self.fence.facts(),
            "exposed": self.exposed,
            "up": self.up,
            "files": self.files,
            "loaded": self.loaded,
            "has_state": self.has_state,
        }


def unasked_problems(conf: Conf, nodes: list[str], partitions: list[str], changed: list[str]) -> list[str]:
    """Return why a slurmctld that does not answer prevents the change."""
    problems = []
    if nodes or partitions:
        problems.append(
            f"slurmctld does not answer, so it is unknown which jobs would be lost: nodes {fold(nodes) or 'none'} and "
            f"partitions {', '.join(partitions) or 'none'} are removed from the cluster file. {_START}"
        )
    if changed:
        problems.append(
            f"slurmctld does not answer, so it is unknown which jobs would be lost: the hardware of nodes {fold(changed)} changes in "
            f"the cluster file. {_START}"
        )
    if conf.unread:
        problems.append(
            f"slurmctld does not answer, and part of slurm.conf cannot be read, so the nodes and partitions in force are unknown: "
            f"{'; '.join(conf.unread)}. {_START}"
        )
    return problems


def job_ending_options(guarded: list[dict[str, Any]], conf: Conf, live: Live | None) -> list[str]:
    """Return the options that would end running jobs, each with a remedy; without `live`, slurmctld does not answer."""
    running = [job.id for job in live.jobs if job.nodes] if live else []
    at_stake = f"jobs {few(running, 10)} run" if live else "slurmctld does not answer, so jobs may run"
    problems = []
    for row in guarded if running or live is None else ():
        now = _ended_by(row, conf, live)
        if now is not None:
            problems.append(
                f"{row['option']} would change from {now} to {row['value'] or 'the default of Slurm'}, and "
                f"{at_stake}: this change ends them. Restore `{row['option']}: {now}` under {row['place']}. Or let no new "
                "job in (`scontrol update partitionname=NAME state=drain`), wait until `squeue --all` is empty, and run again."
            )
    return problems


def _ended_by(row: Mapping[str, Any], conf: Conf, live: Live | None) -> str | None:
    """Return the value in force that a guarded option would change; None if it does not change or no job would be lost."""
    option, wanted = row["option"], row["value"]
    stated, reported = conf.option(option), (live.config.get(option, "").split() or [""])[0] if live else ""
    # slurmctld may still run an older version of the file.
    current = live is None or live.has_loaded_file
    in_force = [stated or reported] if current or not reported else [stated or reported, reported]
    for now in in_force if wanted or stated else ():
        raised = row["lowered"] and now.isdigit() and wanted.isdigit() and int(wanted) >= int(now)
        if not raised and now.lower() != wanted.lower():
            return now
    return None


def other_run_notes(others: Fence) -> str:
    """Return a note that another operator's run keeps nodes free of jobs, or was killed minutes ago."""
    nodes = f"nodes {fold(others.nodes)} are drained" if others.nodes else ""
    partitions = f"partitions {', '.join(others.partitions)} are closed" if others.partitions else ""
    resume = f"`scontrol update nodename={fold(others.nodes)} state=resume`" if others.nodes else ""
    opened = [f"`scontrol update partitionname={name} state=up`" for name in others.partitions]
    return (
        f"{' and '.join(filter(None, [nodes, partitions]))} by another run of playbooks/scheduler.yml, which may still be running: it "
        f"changes their lines. Wait for its end and run again. If it was killed, run again ten minutes after that, which reopens them; "
        f"or reopen them now: "
        f"{', '.join(filter(None, [resume, *opened]))}."
    )


def leaving_notes(kept: Retained, live: Live) -> list[str]:
    """Return notes about removed nodes and partitions that are kept for jobs; records with the same jobs share one line."""
    waiting = {job.id for job in live.jobs if not job.nodes}
    notes = []
    for kind, things in (("node", kept.nodes), ("partition", kept.partitions)):
        by_users: dict[tuple[str, ...], list[str]] = {}
        for name, users in things.items():
            by_users.setdefault(tuple(users), []).append(name)
        for jobs, names in by_users.items():
            stuck = [job for job in jobs if job in waiting] if kind == "node" else []
            what = f"{kind} {fold(names)}" if kind == "node" else f"{kind} {', '.join(names)}"
            hint = f" Of these jobs, {', '.join(stuck)} request it by name: cancel or change them." if stuck else ""
            notes.append(
                f"{what} was removed from the cluster file, but is kept until its jobs end (ids {', '.join(jobs)}). Run again then.{hint}"
            )
    return notes


def changing_notes(groups: list[hardware_in_use.Group]) -> list[str]:
    """Return notes about nodes that keep their lines, with the reason; one line for each group of nodes with the same change."""
    notes = []
    for group in groups:
        what = f"{group.nodes}: {', '.join(group.changes)}"
        if group.waits == hardware_in_use.JOBS:
            notes.append(
                f"{what}: waits until the jobs there end (ids {few(group.jobs, 10)}). Until then these nodes keep their present lines of "
                "slurm.conf and gres.conf. Run playbooks/scheduler.yml again then."
            )
        elif group.waits:
            notes.append(
                f"{what}: waits, because this run has not counted the hardware of these nodes (not reached, left out by --limit, or the "
                f"play was skipped). They keep their present lines of slurm.conf and gres.conf. Run playbooks/scheduler.yml again, when "
                f"they are reachable and without --limit."
            )
    return notes


def notices(groups: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return the nodes whose lines an earlier run kept, as notices; `groups` are from an answer."""
    found = []
    for group in groups:
        if group["waits"]:
            has_jobs = group["waits"] == hardware_in_use.JOBS
            state = f"kept for jobs {few(group['jobs'], 10)}" if has_jobs else "kept, although no job is left"
            remedy = "run playbooks/scheduler.yml" + (" when they have ended" if has_jobs else " again")
            row = Finding(KIND, f"node {group['nodes']}", ", ".join(group["changes"]), state, remedy, NOTICE)
            found.append(row.on(SLURM))  # every controller reports it
    return found


def holding_reasons(
    plan: hardware_in_use.HardwarePlan, jobs: Mapping[str, list[str]], counted: str | None
) -> dict[str, str]:
    """Return the reason to wait for each changing node: its jobs, or no count of its hardware; before the count `counted` is missing."""
    waits = {name: hardware_in_use.JOBS for name in plan.changes if name in jobs}
    if counted is not None:
        known = set(expand(counted))
        for name, change in plan.changes.items():
            if change.of_hardware and name not in known:
                waits.setdefault(name, hardware_in_use.UNCOUNTED)
    return waits


def kept_reasons(plan: hardware_in_use.HardwarePlan, jobs: Mapping[str, list[str]], text: str) -> dict[str, str]:
    """Return the reason to wait for the nodes whose line in this slurm.conf was kept by an earlier run."""
    earlier = hardware_in_use.marked(text)
    return {
        name: hardware_in_use.JOBS if name in jobs else hardware_in_use.UNCOUNTED
        for name in plan.changes
        if name in earlier
    }
