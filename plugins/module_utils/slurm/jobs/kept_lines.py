# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which lines stay for jobs, which changes jobs forbid, and how to tell an operator."""

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

# Of a finding: a node has the lines that an earlier run kept for its jobs.
KIND = "kept-for-jobs"
_START = f"Start slurmctld (`systemctl status slurmctld`, `journalctl -u slurmctld`) and run again; or, {OVERRIDE}."


@dataclass
class Answer:
    """What must stay, and which nodes change."""

    kept: Retained = field(default_factory=Retained)
    changing: list[hardware_in_use.Group] = field(default_factory=list)
    count: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    fence: Fence = field(default_factory=Fence)
    # Whether this call has put a fence up.
    raised: bool = False
    # Whether something that changes or leaves could get a job before it does.
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
    """Return why a slurmctld that does not answer is a problem."""
    problems = []
    if nodes or partitions:
        problems.append(
            f"slurmctld does not answer, so nobody knows which jobs would be lost: nodes {fold(nodes) or 'none'} and "
            f"partitions {', '.join(partitions) or 'none'} leave the cluster file. {_START}"
        )
    if changed:
        problems.append(
            f"slurmctld does not answer, so nobody knows which jobs would be lost: the hardware of nodes {fold(changed)} changes in "
            f"the cluster file. {_START}"
        )
    if conf.unread:
        problems.append(
            "slurmctld does not answer, and part of slurm.conf cannot be read, so nobody knows which nodes and partitions "
            f"are in force: {'; '.join(conf.unread)}. {_START}"
        )
    return problems


def job_ending_options(guarded: list[dict[str, Any]], conf: Conf, live: Live | None) -> list[str]:
    """Return the options that would end running jobs, with what to do; `live` is None where slurmctld does not answer."""
    running = [job.id for job in live.jobs if job.nodes] if live else []
    at_stake = f"jobs {few(running, 10)} run" if live else "slurmctld does not answer, so jobs may run"
    problems = []
    for row in guarded if running or live is None else ():
        now = _ended_by(row, conf, live)
        if now is not None:
            problems.append(
                f"{row['option']} would become {row['value'] or 'what Slurm does by default'}, {now} is in force, and "
                f"{at_stake}: this change ends them. Write `{row['option']}: {now}` under {row['place']} again. Or let no new "
                "job in (`scontrol update partitionname=NAME state=drain`), wait until `squeue --all` is empty, and run again."
            )
    return problems


def _ended_by(row: Mapping[str, Any], conf: Conf, live: Live | None) -> str | None:
    """Return the value in force that a guarded option would change; None where it stays or nothing would be lost."""
    option, wanted = row["option"], row["value"]
    stated, reported = conf.option(option), (live.config.get(option, "").split() or [""])[0] if live else ""
    # slurmctld may still run what the file said before.
    current = live is None or live.has_loaded_file
    in_force = [stated or reported] if current or not reported else [stated or reported, reported]
    for now in in_force if wanted or stated else ():
        raised = row["lowered"] and now.isdigit() and wanted.isdigit() and int(wanted) >= int(now)
        if not raised and now.lower() != wanted.lower():
            return now
    return None


def other_run_notes(others: Fence) -> str:
    """Say that a run of another operator keeps nodes free, or that one was killed minutes ago."""
    nodes = f"nodes {fold(others.nodes)} are drained" if others.nodes else ""
    partitions = f"partitions {', '.join(others.partitions)} are closed" if others.partitions else ""
    resume = f"`scontrol update nodename={fold(others.nodes)} state=resume`" if others.nodes else ""
    opened = [f"`scontrol update partitionname={name} state=up`" for name in others.partitions]
    return (
        f"{' and '.join(filter(None, [nodes, partitions]))} by another run of playbooks/scheduler.yml, which may go on: it changes their "
        f"lines. Wait for its end and run again. If it was killed, a run gives them back ten minutes after that; or do so now: "
        f"{', '.join(filter(None, [resume, *opened]))}."
    )


def leaving_notes(kept: Retained, live: Live) -> list[str]:
    """Return what stays for which jobs though it has left the cluster file; things with the same jobs in one line."""
    waiting = {job.id for job in live.jobs if not job.nodes}
    notes = []
    for kind, things in (("node", kept.nodes), ("partition", kept.partitions)):
        by_users: dict[tuple[str, ...], list[str]] = {}
        for name, users in things.items():
            by_users.setdefault(tuple(users), []).append(name)
        for jobs, names in by_users.items():
            stuck = [job for job in jobs if job in waiting] if kind == "node" else []
            what = f"{kind} {fold(names)}" if kind == "node" else f"{kind} {', '.join(names)}"
            hint = f" Of these {', '.join(stuck)} wait for it by name: cancel or change them." if stuck else ""
            notes.append(
                f"{what} has left the cluster file but stays until its jobs end (ids {', '.join(jobs)}). Run again then.{hint}"
            )
    return notes


def changing_notes(groups: list[hardware_in_use.Group]) -> list[str]:
    """Return which nodes keep their lines and why, a line for each group of like ones."""
    notes = []
    for group in groups:
        what = f"{group.nodes}: {', '.join(group.changes)}"
        if group.waits == hardware_in_use.JOBS:
            notes.append(
                f"{what}: waits until the jobs there end (ids {few(group.jobs, 10)}). Until then these nodes keep their lines of "
                "slurm.conf and gres.conf as they are in force. Run playbooks/scheduler.yml again then."
            )
        elif group.waits:
            notes.append(
                f"{what}: waits, because this run has not counted what these nodes have (not reached, left out by --limit, or the play was "
                "skipped). They keep their lines of slurm.conf and gres.conf as they are in force. Run playbooks/scheduler.yml again, with "
                "them reachable and without --limit."
            )
    return notes


def notices(groups: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Return the nodes whose lines an earlier run kept, as findings that are no failure; `groups` are those of an answer."""
    found = []
    for group in groups:
        if group["waits"]:
            has_jobs = group["waits"] == hardware_in_use.JOBS
            state = f"kept for jobs {few(group['jobs'], 10)}" if has_jobs else "kept, and no job is left"
            remedy = "run playbooks/scheduler.yml" + (" when they have ended" if has_jobs else " again")
            row = Finding(KIND, f"node {group['nodes']}", ", ".join(group["changes"]), state, remedy, NOTICE)
            found.append(row.on(SLURM))  # every controller says it
    return found


def holding_reasons(
    plan: hardware_in_use.HardwarePlan, jobs: Mapping[str, list[str]], counted: str | None
) -> dict[str, str]:
    """Return what holds back each changing node: jobs, or that nobody has counted it; `counted` is None before anything is."""
    waits = {name: hardware_in_use.JOBS for name in plan.changes if name in jobs}
    if counted is not None:
        known = set(expand(counted))
        for name, change in plan.changes.items():
            if change.of_hardware and name not in known:
                waits.setdefault(name, hardware_in_use.UNCOUNTED)
    return waits


def kept_reasons(plan: hardware_in_use.HardwarePlan, jobs: Mapping[str, list[str]], text: str) -> dict[str, str]:
    """Return what holds back the nodes whose line in this slurm.conf was kept by an earlier run."""
    earlier = hardware_in_use.marked(text)
    return {
        name: hardware_in_use.JOBS if name in jobs else hardware_in_use.UNCOUNTED
        for name in plan.changes
        if name in earlier
    }
