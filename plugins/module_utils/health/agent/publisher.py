# SPDX-License-Identifier: GPL-3.0-or-later
"""Publish a judgement: first the verdict for the prolog, then evidence, then the report to Slurm; after each cycle metrics and state.

Only a verdict that cannot be written ends the agent. Each other failure is a problem in verdict.json and in the metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...common.finding import to_json
from ..facts.health_finding import CANNOT_RUN, NOTE, HealthFinding
from ..facts.node_facts import KernelEvent, NodeFacts
from ..judge.judgement import Judgement
from ..probes.probe_child import ProbeChildren
from ..report.node_extra import MOST_CHECKS, NodeReport
from ..report.prometheus_text import Metric
from ..report.verdict_line import NO_CLASS, Verdict
from . import job_ring, passed_jobs, state_file, textfile
from .agent_settings import AgentPaths, AgentSettings
from .clock import Moment, utc
from .device_evidence import write
from .evidence import Bundle, EvidenceStore, bundle_files
from .kernel_reader import KernelReader
from .node_jobs import RING
from .slurm_report import SlurmReporter, is_same, rank
from .state_file import Memory
from .verdict_file import VerdictFiles

EVIDENCE_APART = 3600.0
"""Seconds until a check that comes back has another bundle, unless the class is worse."""
MOST_FINDINGS = 200
_CLOCK_SLACK = 60.0
_DEVICES, _DEVICE_SECONDS, _MOST_DEVICES = "device-evidence", 90.0, 16


@dataclass
class Outputs:
    """Hold the parts that write. `reporter` None: nothing is reported to Slurm. `children`: for the reader of device evidence."""

    files: VerdictFiles
    evidence: EvidenceStore
    reporter: SlurmReporter | None
    children: ProbeChildren
    log: KernelReader


class NodePublisher:
    """Publish for one node."""

    def __init__(self, settings: AgentSettings, paths: AgentPaths, memory: Memory, outputs: Outputs) -> None:
        """Continue from a memory: a state that an earlier process published has its evidence and report already."""
        self.settings, self.paths, self.memory, self.outputs = settings, paths, memory, outputs
        self.problems: dict[str, str] = {"state": memory.lost} if memory.lost else {}
        self.judgement: Judgement | None = None
        self._proposed = memory.report
        self._bundle: Bundle | None = None
        self._kept_at: dict[str, float] = {}
        self._collecting: Path | None = None

    @property
    def due(self) -> float | None:
        """Return the uptime of the reporter's next step."""
        return self.outputs.reporter.due if self.outputs.reporter else None

    def publish(self, judgement: Judgement, facts: NodeFacts, now: Moment) -> None:
        """Write the verdict, then keep evidence, then propose the report. UnwrittenVerdictError: the verdict is not the new one."""
        self.judgement = judgement
        report = self._report(judgement, facts, now)
        self._write(judgement, facts, now, report)
        new = _new_findings(judgement, self.memory.published, facts.boot)
        if new and self._is_wanted(new, judgement, now.uptime):
            self._keep_evidence(new, judgement, facts, now, report.jobs)
            report = replace(report, evidence=self._bundle.digest if self._bundle else "")
            self._write(judgement, facts, now, report)
        self.memory.published = report
        reporter = self.outputs.reporter
        is_late = self._proposed is not None and not _is_of_this_boot(self._proposed, now)
        if reporter is not None and (is_late or not is_same(self._proposed, report)):
            self._proposed = report
            reporter.propose(report, now.uptime, at_once=judgement.health_class == CANNOT_RUN, anew=is_late)

    def close_cycle(self, facts: NodeFacts, ages: Mapping[str, float]) -> None:
        """Write metrics and state after a cycle, and cut the files that prolog and epilog append to."""
        job_ring.trim(self.paths.run / RING)
        passed_jobs.empty_if_large(self.paths.run / passed_jobs.FILE)
        self.save()
        if self.settings.textfile and self.judgement is not None:
            path = self.paths.below(self.settings.textfile)
            self._note("textfile", textfile.write(path, self._metrics(self.judgement, facts, ages)))

    def save(self) -> None:
        """Save the memory; a failure is a problem."""
        reporter = self.outputs.reporter
        if reporter is not None:
            self.memory.report = reporter.sent
        try:
            self.paths.state.mkdir(mode=0o750, parents=True, exist_ok=True)
            state_file.save(self.paths.state / "state.json", self.memory)
            self._note("state-unsaved", "")
        except OSError as error:
            self._note("state-unsaved", f"state.json: {error.strerror or error}")

    def step(self, uptime: float) -> bool:
        """Continue the report, and collect evidence of devices. Return whether a child of either runs."""
        for ended in self.outputs.children.poll():
            if ended.kind == _DEVICES and self._collecting is not None:
                data = ended.output or f'{{"error": "ended with {ended.code}"}}\n'.encode()
                self.outputs.evidence.add(self._collecting, "devices.json", data)
                self._collecting = None
        reporter = self.outputs.reporter
        if reporter is not None:
            reporter.step(uptime)
            self._note("report", reporter.problem)
        return bool(self.outputs.children.running) or (reporter is not None and reporter.is_running)

    def _write(self, judgement: Judgement, facts: NodeFacts, now: Moment, report: NodeReport) -> None:
        verdict = Verdict(
            judgement.status,
            facts.boot,
            int(now.uptime),
            self.settings.valid,
            judgement.health_class or NO_CLASS,
            judgement.text,
        )
        self.outputs.files.write(verdict, self._details(judgement, report, now, verdict))

    def _details(self, judgement: Judgement, report: NodeReport, now: Moment, verdict: Verdict) -> dict[str, Any]:
        bundle = self._bundle
        return {
            "version": 1,
            "node": self.settings.node,
            "boot": verdict.boot,
            "uptime": verdict.written,
            "time": utc(now.time),
            "valid": verdict.valid,
            "status": judgement.status,
            "class": judgement.health_class,
            "text": judgement.text,
            "checks": list(judgement.checks),
            "jobs": list(report.jobs),
            "evidence": report.evidence,
            "evidence_folder": bundle.folder.name if bundle and bundle.digest == report.evidence else "",
            "problems": self._problems(),
            "findings": to_json(judgement.findings[:MOST_FINDINGS]),
        }

    def _report(self, judgement: Judgement, facts: NodeFacts, now: Moment) -> NodeReport:
        """Return the report of a judgement. An unchanged state keeps its evidence, and its time unless the clock has been set since."""
        jobs = _jobs_of(judgement, self.memory.log.events, facts)
        checks = tuple(judgement.checks[:MOST_CHECKS])
        report = NodeReport(judgement.status, judgement.health_class, checks, int(now.time), facts.boot[:8], jobs)
        before = self.memory.published
        if before is None or not is_same(before, report):
            return replace(report, evidence=before.evidence if before is not None and checks else "")
        if not _is_of_this_boot(before, now):
            return replace(report, evidence=before.evidence)
        return replace(report, time=before.time, evidence=before.evidence)

    def _is_wanted(self, new: Sequence[HealthFinding], judgement: Judgement, uptime: float) -> bool:
        before = self.memory.published
        if before is None or rank(judgement.health_class) < rank(before.health_class):
            return True
        return any(uptime - self._kept_at.get(one.kind, -EVIDENCE_APART) >= EVIDENCE_APART for one in new)

    def _keep_evidence(
        self, new: Sequence[HealthFinding], judgement: Judgement, facts: NodeFacts, now: Moment, jobs: Sequence[int]
    ) -> None:
        readings = [asdict(one) for one in facts.readings]
        ring = job_ring.read(self.paths.run / RING)
        files = bundle_files(list(self.outputs.log.last), readings, to_json(judgement.findings[:MOST_FINDINGS]), ring)
        head = {"node": self.settings.node, "boot": facts.boot, "class": judgement.health_class, "jobs": list(jobs)}
        self._bundle = self.outputs.evidence.keep(new[0].kind, now, files, head)
        self._kept_at = {
            **dict(list(self._kept_at.items())[-63:]),
            **dict.fromkeys((one.kind for one in new), now.uptime),
        }
        if self._bundle is not None and self._collecting is None:
            devices = sorted({one.device for one in new if one.device})[:_MOST_DEVICES]
            if self.outputs.children.start(_DEVICES, partial(write, self.paths.root, devices), _DEVICE_SECONDS):
                self._collecting = self._bundle.folder

    def _metrics(self, judgement: Judgement, facts: NodeFacts, ages: Mapping[str, float]) -> list[Metric]:
        reporter = self.outputs.reporter
        agent = textfile.AgentState(
            facts.time,
            self.settings.interval,
            ages,
            self._problems(),
            reporter is not None and is_same(reporter.sent, self.memory.published),
            reporter is not None and reporter.is_foreign,
            passed_jobs.counted(self.paths.run / passed_jobs.FILE),
        )
        return textfile.metrics(judgement.status, judgement.health_class, judgement.findings, self.memory.xids, agent)

    def _problems(self) -> dict[str, str]:
        evidence = self.outputs.evidence.problem
        return {**self.problems, **({"evidence": evidence} if evidence else {})}

    def _note(self, part: str, problem: str) -> None:
        if problem:
            self.problems[part] = problem
        else:
            self.problems.pop(part, None)


def _is_of_this_boot(report: NodeReport, now: Moment) -> bool:
    """Return whether a report's time is one since the boot. If not, the clock has been set, and the limiter would misread the report."""
    return now.time - now.uptime - _CLOCK_SLACK <= report.time <= now.time + _CLOCK_SLACK


def _new_findings(judgement: Judgement, before: NodeReport | None, boot: str) -> list[HealthFinding]:
    """Return the findings above a note that the last published report does not have, the worst first."""
    known = before.checks if before is not None and before.boot == boot[:8] else ()
    return [
        one
        for one in judgement.findings
        if one.health_class != NOTE and (f"{one.kind}@{one.device}" if one.device else one.kind) not in known
    ]


def _jobs_of(judgement: Judgement, events: Iterable[KernelEvent], facts: NodeFacts) -> tuple[int, ...]:
    """Return the jobs of the events behind the findings, then the jobs that run."""
    kinds = {one.kind for one in judgement.findings if one.health_class != NOTE}
    found = [
        int(one.details["job"])
        for one in events
        if one.details.get("job", "").isdecimal() and f"{one.kind}-{one.code}" in kinds
    ]
    return tuple(dict.fromkeys((*reversed(found), *facts.running_jobs)))[:MOST_CHECKS]
