# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of jobs: which ended, were requeued, restarted, moved or signalled, stood still, or lost a device, and why.

Sources: slurmctld (`scontrol show job`: state, Restarts), slurmdbd (`sacct --duplicates`: without that option it hides the run
before a requeue), and the records that the jobs themselves write (tests/kit/job.py).
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding

Run = Callable[[str, str], subprocess.CompletedProcess[str]]

SILENT = 20
"""Seconds after which a job that wrote nothing stands still; it writes every two."""
PATIENCE = 60
"""Seconds that slurmctld and slurmdbd may take to answer, such as after a restart."""

_ALIVE = ("RUNNING", "PENDING", "CONFIGURING")
# A pending job that never starts any more; a hold of its own is in the first observation, too.
_STUCK = ("BadConstraints", "JobHeldAdmin", "launch_failed_requeued_held")
_FIELDS = ("JobIDRaw", "JobID", "JobName", "State", "ExitCode", "Restarts", "Start", "NodeList")
_JOBS = "scontrol --oneliner --all show jobs"
_SACCT = "sacct --duplicates --allocations --allusers --noheader --parsable2 --starttime=now-1day --format=" + ",".join(
    _FIELDS
)


@dataclass(frozen=True)
class Job:
    """One job as slurmctld has it; `label` is as users write it: 12, 12_3, 12+1."""

    id: str
    label: str
    name: str
    state: str
    restarts: int = 0
    start: str = ""
    nodes: str = ""
    reason: str = ""
    exit: str = ""


@dataclass(frozen=True)
class Row:
    """One row of accounting: a job that was requeued has one for each run."""

    id: str
    state: str
    exit: str
    restarts: int
    start: str
    nodes: str


@dataclass(frozen=True)
class Probe:
    """The record of one task: seconds since it last wrote, and its lines without their times."""

    node: str
    job: str
    task: str
    age: float
    lines: tuple[str, ...]

    @property
    def devices(self) -> str:
        """Return what the devices answered last."""
        return next((line for line in reversed(self.lines) if line.startswith("devices")), "")


@dataclass
class Observation:
    """What was to be seen of all jobs at one moment."""

    jobs: dict[str, Job] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    probes: dict[tuple[str, str, str], Probe] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    """Daemons and nodes that did not answer, with what they said."""

    @property
    def probed(self) -> set[str]:
        """Return the ids of the jobs that have written a record."""
        return {probe.job for probe in self.probes.values()}


def parse_jobs(text: str) -> dict[str, Job]:
    """Return id -> job of `scontrol --oneliner show jobs`.

    >>> parse_jobs("JobId=7 JobName=a JobState=RUNNING Reason=None Restarts=1 StartTime=T NodeList=n1")["7"].restarts
    1
    """
    jobs = {}
    for line in text.splitlines():
        pairs: dict[str, str] = {}
        for key, value in re.findall(r"(?:^|\s)([A-Z][\w/:]*)=(\S*)", line):
            pairs.setdefault(key, value)
        if "JobId" not in pairs or "JobState" not in pairs:
            continue
        label = pairs["JobId"]
        if "ArrayJobId" in pairs:
            label = f"{pairs['ArrayJobId']}_{pairs.get('ArrayTaskId', '')}"
        elif "HetJobId" in pairs:
            label = f"{pairs['HetJobId']}+{pairs.get('HetJobOffset', '')}"
        jobs[pairs["JobId"]] = Job(
            pairs["JobId"],
            label,
            pairs.get("JobName", ""),
            pairs["JobState"],
            int(pairs.get("Restarts", "0")),
            pairs.get("StartTime", ""),
            pairs.get("NodeList", ""),
            pairs.get("Reason", ""),
            pairs.get("ExitCode", ""),
        )
    return jobs


def parse_rows(text: str) -> dict[str, list[Row]]:
    """Return id -> rows of sacct, in its order; `text` has the columns of _FIELDS between bars."""
    rows: dict[str, list[Row]] = {}
    for line in text.splitlines():
        cells = dict(zip(_FIELDS, line.split("|"), strict=False))
        if len(cells) == len(_FIELDS):
            row = Row(
                cells["JobIDRaw"],
                cells["State"],
                cells["ExitCode"],
                int(cells["Restarts"] or 0),
                cells["Start"],
                cells["NodeList"],
            )
            rows.setdefault(row.id, []).append(row)
    return rows


def parse_probes(node: str, text: str) -> dict[tuple[str, str, str], Probe]:
    """Return (node, job, file) -> record; `text` has a line `== <file> <seconds since it was written>` before each."""
    probes = {}
    for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        name, _, age = head.rpartition(" ")
        job, _, task = name.partition(".")
        lines = tuple(line.partition(" ")[2] for line in body.splitlines() if line)
        probes[node, job, task] = Probe(node, job, task, float(age), lines)
    return probes


_READ_PROBES = (
    "cd /run/bedplate-kit 2>/dev/null || exit 0; now=$(date +%s);"
    ' for f in *.*.*; do case $f in "*"*|*.checkpoint) continue;; esac;'
    ' echo "== $f $((now - $(stat -c %Y $f)))"; cat $f; done'
)
_READ_LOG = (
    "{ journalctl --unit=slurmctld --output=cat --no-pager --lines=2000;"
    " cat $(scontrol show config 2>/dev/null | sed -n 's/^SlurmctldLogFile *= *\\(\\/.*\\)/\\1/p') /dev/null; } 2>/dev/null"
    " | grep -i job"
)


def observe(run: Run, controller: str, nodes: Sequence[str]) -> Observation:
    """Ask controller and nodes at the same time; a daemon that does not answer within PATIENCE is named in `silent`."""
    seen = Observation()
    with ThreadPoolExecutor() as pool:
        jobs = pool.submit(_ask, run, controller, _JOBS)
        rows = pool.submit(_ask, run, controller, _SACCT)
        log = pool.submit(run, controller, _READ_LOG)
        records = [pool.submit(run, node, _READ_PROBES) for node in nodes]
    for daemon, done in (("slurmctld", jobs.result()), ("slurmdbd", rows.result())):
        if done.returncode != 0:
            seen.silent.append(f"{daemon} on {controller}: {(done.stderr or done.stdout).strip()[-300:]}")
        elif daemon == "slurmctld":
            seen.jobs = parse_jobs(done.stdout)
        else:
            seen.rows = parse_rows(done.stdout)
    for node, record in zip(nodes, (one.result() for one in records), strict=True):
        if record.returncode != 0:
            seen.silent.append(f"{node}: {record.stderr.strip()[-300:]}")
        seen.probes |= parse_probes(node, record.stdout)
    seen.log = log.result().stdout.splitlines()
    return seen


def _ask(run: Run, machine: str, command: str) -> subprocess.CompletedProcess[str]:
    deadline = time.monotonic() + PATIENCE
    while True:
        done = run(machine, f"timeout 20 {command}")
        if done.returncode == 0 or time.monotonic() > deadline:
            return done
        time.sleep(2)


def judge(before: Observation, after: Observation) -> list[Finding]:
    """Return what was done to the jobs of the first observation; empty when every one runs on, or waits on, as it did."""
    findings = [
        Finding("silent", place.partition(":")[0], "an answer", place, severity="error") for place in after.silent
    ]
    for job in before.jobs.values():
        if job.state in _ALIVE:
            now = after.jobs.get(job.id)
            findings += _of_controller(job, now, after)
            findings += _of_accounting(job, before, after)
    hurt = {one.where for one in findings}
    for key, probe in before.probes.items():
        owner = before.jobs.get(probe.job)
        # The tasks of a job that has ended have ended: they say nothing new.
        if owner is not None and owner.state == "RUNNING" and _where(owner) not in hurt:
            findings += _of_probe(probe, owner, after, after.probes.get(key))
    return findings


def _of_controller(job: Job, now: Job | None, after: Observation) -> list[Finding]:
    """Compare a job with what slurmctld has of it now."""

    def finding(kind: str, expected: str, found: str) -> Finding:
        return Finding(kind, _where(job), expected, found, remedy=_why(job, after.log))

    if now is None:
        if any(place.startswith("slurmctld") for place in after.silent):
            return []
        rows = after.rows.get(job.id, [])
        ended = f"{rows[-1].state} with {rows[-1].exit}" if rows else "neither slurmctld nor slurmdbd knows it"
        return [finding("job-ended", job.state, ended)]
    if job.state == "PENDING":
        if now.state not in _ALIVE:
            return [finding("job-ended", "PENDING", f"{now.state} ({now.reason}) with {now.exit}")]
        if now.state == "PENDING" and now.reason in _STUCK and now.reason != job.reason:
            return [finding("job-held", f"PENDING ({job.reason})", f"PENDING ({now.reason})")]
        return []
    if now.restarts > job.restarts:
        return [
            finding("job-requeued", f"Restarts={job.restarts}", f"Restarts={now.restarts}, {now.state} ({now.reason})")
        ]
    if now.state == "PENDING":
        return [finding("job-requeued", job.state, f"PENDING ({now.reason})")]
    if now.state not in _ALIVE:
        return [finding("job-ended", job.state, f"{now.state} ({now.reason}) with {now.exit}")]
    if now.start != job.start:
        return [finding("job-restarted", f"start {job.start}", f"start {now.start}")]
    if now.nodes != job.nodes:
        return [finding("job-moved", job.nodes, now.nodes)]
    return []


def _of_accounting(job: Job, before: Observation, after: Observation) -> list[Finding]:
    """Compare what slurmdbd has of a job: a second run, or an end that slurmctld does not know of."""
    old, new = before.rows.get(job.id, []), after.rows.get(job.id, [])
    if not old or job.state == "PENDING":  # slurmdbd hears of a job seconds after slurmctld
        return []
    why = _why(job, after.log)
    if len(new) > len(old):
        runs = ", ".join(f"{row.state} from {row.start}" for row in new)
        return [Finding("accounting-runs", _where(job), f"{len(old)} runs", runs, remedy=why)]
    ended = [row for row in new if not row.state.startswith(_ALIVE) and row not in old]
    return [Finding("accounting-state", _where(job), job.state, f"{row.state} {row.exit}", remedy=why) for row in ended]


def _of_probe(probe: Probe, job: Job, after: Observation, now: Probe | None) -> list[Finding]:
    """Compare the record that a task writes: does it write, what do its devices answer, which signals came?"""
    if any(place.startswith(f"{probe.node}:") for place in after.silent):
        return []

    def finding(kind: str, expected: str, found: str) -> Finding:
        return Finding(kind, _where(job), expected, found, machine=probe.node, remedy=_why(job, after.log))

    if now is None:
        return [finding("task-lost", "a record", "none")]
    findings = []
    if now.age > SILENT:
        findings.append(finding("task-stopped", f"a record of the last {SILENT} s", f"the last is {now.age:.0f} s old"))
    fresh = now.lines[len(probe.lines) :]
    signals = [line for line in fresh if line.startswith("signal")]
    if signals:
        findings.append(finding("job-signalled", "no signal", ", ".join(signals)))
    changes = [line for line in fresh if line.startswith("devices")]
    if changes:
        findings.append(finding("device-changed", probe.devices, " then ".join(changes)))
    return findings


def _where(job: Job) -> str:
    return f"job {job.label} ({job.name})"


def _why(job: Job, log: Sequence[str]) -> str:
    """Return the last lines of slurmctld's log about a job."""
    ids = rf"(?:JobId=|job |\bjob_id ){re.escape(job.id)}\b|JobId={re.escape(job.label)}\b|\({re.escape(job.id)}\)"
    lines = [line.removeprefix("slurmctld: ") for line in log if re.search(ids, line, re.IGNORECASE)]
    return "slurmctld: " + " / ".join(lines[-4:]) if lines else "slurmctld.log has no line about it"


def summary(findings: Sequence[Finding]) -> str:
    """Return findings as text, a line each."""
    return "\n".join(f"{one.kind}: {one}" for one in findings)


def kinds(findings: Sequence[Finding]) -> Mapping[str, set[str]]:
    """Return kind -> the names of the jobs in it, such as {"job-ended": {"kit-gpu"}}."""
    found: dict[str, set[str]] = {}
    for one in findings:
        name = re.search(r"\((\S+)\)$", one.where)
        found.setdefault(one.kind, set()).add(name[1] if name else one.where)
    return found
