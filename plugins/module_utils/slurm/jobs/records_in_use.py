# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the nodes and partitions in force on a controller with the desired ones, and find all that jobs still use."""

from __future__ import annotations

import hashlib
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

from ...common.hostlist import expand, fold
from ..conf.conf_reader import Conf, parse, read
from ..live import slurm_commands
from ..live.slurmctld_report import Live
from . import hardware_in_use
from .cluster_identity import Identity, find_problems
from .fence import (
    OWNER,
    Closed,
    Fence,
    active,
    lift,
    raise_commands,
    raised_by_others,
    settled,
    targets,
    used_partitions,
    without_others,
)
from .kept_lines import (
    Answer,
    changing_notes,
    holding_reasons,
    job_ending_options,
    kept_reasons,
    leaving_notes,
    other_run_notes,
    unasked_problems,
)
from .removed_records import leaving, retain


class Module(Protocol):
    """The part of an AnsibleModule that is used here, with the parameters of bedplate.cluster.slurm_in_use."""

    params: dict[str, Any]
    check_mode: bool

    def warn(self, warning: str) -> None:
        """Show a warning."""


def _digests(directory: Path) -> dict[str, str]:
    """Return the digest of each Slurm file in a directory; keys are not read."""
    found = sorted(path for path in directory.iterdir() if path.suffix in (".conf", ".lua") and path.is_file())
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


class InForce:
    """Configuration in force on this controller, compared with the desired one."""

    def __init__(self, module: Module, slurm_conf: Path) -> None:
        """Read the files, and query slurmctld. Raises HostlistError or OSError if they cannot be read."""
        self.module, self.params, self.slurm_conf = module, module.params, slurm_conf
        self.read_back, self.unasked = self.params["read_back"], self.params["unasked"]
        # Check mode and verify neither reopen nor close anything.
        self.may_write = not (module.check_mode or self.read_back)
        self.nodes = _nodes(module)
        # Computed before the files are read: a file written in between differs from its digest and is not overwritten.
        self.files = _digests(slurm_conf.parent)
        self.conf, self.gres = read(slurm_conf), read(slurm_conf.with_name("gres.conf"))
        self.live = slurm_commands.query(slurm_conf)
        self.gone = leaving(self.conf, self.live, self.nodes, self.params["partitions"])
        self.plan = self._hardware()
        self.closed = Closed(Path(self.params["state_directory"]))

    def find(self) -> tuple[Answer, list[str]]:
        """Return the lines to keep, and the problems that prevent the change."""
        answer = self._counts()
        problems = [] if self.read_back else self._problems()  # verify changes nothing
        if self.live is None:
            return answer, problems
        answer.up, answer.loaded = self.live.up, self.live.has_loaded_file
        others = self._take_over(answer, self.live)
        if problems:
            return answer, [*problems, *(self._lift(self.live, answer.fence) if self.may_write else [])]
        live, problems = self._fenced(answer, self.live, others)
        if live is None:
            return Answer(), problems
        if not problems:
            self._keep(answer, live)
        return answer, problems

    def _hardware(self) -> hardware_in_use.HardwarePlan:
        nodes, gres = (parse("\n".join(self.params[name])) for name in ("node_lines", "gres_lines"))
        if not nodes.lines:
            return hardware_in_use.HardwarePlan()
        return hardware_in_use.compare(self.conf, self.gres, self.live, nodes, gres)

    def _counts(self) -> Answer:
        """Return the answer with the nodes whose hardware must be counted first."""
        answer = Answer(count=self.plan.to_count(), new=self.plan.new, files=self.files)
        answer.has_state = self.live is not None or self.unasked or _has_state(self.module)
        if not (answer.has_state or self.read_back):
            answer.count = list(dict.fromkeys([*answer.count, *self.nodes]))
        return answer

    def _problems(self) -> list[str]:
        """Return the problems that prevent the change."""
        problems = find_problems(_identity(self.module), self.conf, self.live, self.unasked)
        if self.live is None and not self.unasked:
            problems += unasked_problems(self.conf, *self.gone, list(self.plan.changes))
        if self.live is not None or not self.unasked:
            problems += job_ending_options(self.params["guarded"], self.conf, self.live)
        return problems

    def _take_over(self, answer: Answer, live: Live) -> Fence:
        """Add to the answer the nodes and partitions that a killed run has fenced; return the fence of a run that may still be running."""
        on_record = [] if self.read_back else self.closed.names()
        found = active(live, self.conf, on_record)
        others = raised_by_others(live, found, self.params["run"], self.closed.origin(), datetime.now(timezone.utc))
        answer.fence = without_others(found, others)
        if self.may_write:
            self.closed.remove(settled(live, self.conf, on_record))
        return others

    def _fenced(self, answer: Answer, live: Live, others: Fence) -> tuple[Live | None, list[str]]:
        """Set a fence if requested; return slurmctld's report after that, and the problems that prevent the change."""
        changing, fence = self._changing(live), self.params["fence"]
        exposed = targets(live, changing.nodes, changing.partitions)
        answer.exposed = bool(exposed.nodes or exposed.partitions)
        if others.nodes or others.partitions:
            # The other run reopens its nodes and partitions when it ends, possibly before this run writes.
            if fence and (answer.exposed or changing.overlaps(others)):
                return live, [other_run_notes(others)]
            if not self.read_back:
                self.module.warn(other_run_notes(others))
        if not (answer.exposed and fence) or self.module.check_mode:
            return live, []
        behind, problems = self._raise(exposed)
        if behind is None:
            return None, problems
        # A job that has ended meanwhile keeps its node for this run: nothing keeps the next job off that node.
        behind.jobs = list(dict.fromkeys([*behind.jobs, *live.jobs]))
        answer.raised = bool(exposed.nodes or exposed.partitions)
        answer.fence = Fence([*answer.fence.nodes, *exposed.nodes], [*answer.fence.partitions, *exposed.partitions])
        return behind, []

    def _changing(self, live: Live) -> Fence:
        """Return the nodes and partitions that change or are removed; unchanged ones need no fence, with or without jobs."""
        kept = retain(self.conf, self.gres, *self.gone, live)
        held = holding_reasons(self.plan, live.jobs_by_node(), self.params["counted"])
        nodes, partitions = self.gone
        free = [name for name in nodes if name not in kept.nodes]
        return Fence([*free, *(name for name in self.plan.changes if name not in held)], list(partitions))

    def _raise(self, fence: Fence) -> tuple[Live | None, list[str]]:
        """Set the fence; return slurmctld's report after that, and the failures. Reopen nodes and partitions that got a job meanwhile."""
        now = datetime.now(timezone.utc)
        try:
            if fence.partitions:
                self.closed.add(fence.partitions, self.params["run"], now)
        except OSError as error:
            return None, [
                f"partitions {', '.join(fence.partitions)} cannot be closed, because {self.closed.path} cannot be written: {error}"
            ]
        failed = self._drain(fence, now)
        behind = slurm_commands.query(self.slurm_conf)
        if behind is None:
            return None, [_unanswered(fence, failed)]
        if failed:
            return None, [failed, *self._lift(behind, fence)]
        busy, used = behind.jobs_by_node(), used_partitions(behind)
        late = Fence(
            [name for name in fence.nodes if name in busy], [name for name in fence.partitions if name in used]
        )
        if late.nodes or late.partitions:
            for left in self._lift(behind, late):
                self.module.warn(left)
        fence.nodes = [name for name in fence.nodes if name not in busy]
        fence.partitions = [name for name in fence.partitions if name not in used]
        return behind, []

    def _drain(self, fence: Fence, now: datetime) -> str:
        """Drain nodes and close partitions; return the failure, or ""."""
        for command in raise_commands(fence, self.params["run"], now):
            if refusal := slurm_commands.change(command, self.slurm_conf):
                return f"`{' '.join(command)}` failed, so a job could start on a node whose line changes: {refusal}"
        return ""

    def _lift(self, live: Live, fence: Fence) -> list[str]:
        return lift(self.slurm_conf, live, self.conf, fence, self.closed)

    def _keep(self, answer: Answer, live: Live) -> None:
        """Add to the answer the lines that jobs need, and the changes."""
        answer.kept = retain(self.conf, self.gres, *self.gone, live)
        jobs = live.jobs_by_node()
        waits = holding_reasons(self.plan, jobs, self.params["counted"])
        if self.read_back:
            waits = kept_reasons(self.plan, jobs, self.slurm_conf.read_text(errors="replace"))
        slurm, gres = hardware_in_use.kept_lines(self.plan, self.gres, waits)
        answer.kept.slurm += slurm
        answer.kept.gres += gres
        answer.changing = hardware_in_use.grouped(self.plan, waits, jobs)
        for note in leaving_notes(answer.kept, live) + changing_notes(answer.changing):
            self.module.warn(note)


def _nodes(module: Module) -> list[str]:
    return expand(module.params["nodes"]) if module.params["nodes"] else []


def _identity(module: Module) -> Identity:
    names = ("cluster", "state_save_location", "slurmd_spool_dir", "controllers")
    cluster, state, spool, controllers = (module.params[name] for name in names)
    return Identity(cluster, state, spool, tuple(controllers))


def _has_state(module: Module) -> bool:
    """Return whether the desired StateSaveLocation holds jobs."""
    return (Path(module.params["state_save_location"]) / "job_state").exists()


def _unanswered(fence: Fence, failed: str) -> str:
    """Return the message for a slurmctld that does not answer after a fence was set; `failed` is an earlier failure."""
    nodes = f" Nodes {fold(fence.nodes)} may be drained with the reason `{OWNER}`." if fence.nodes else ""
    partitions = f" Partitions {', '.join(fence.partitions)} may be closed." if fence.partitions else ""
    text = failed or "slurmctld no longer answers. Start it, then run again."
    return (
        text
        + nodes
        + partitions
        + (" A run more than ten minutes from now reopens them." if nodes or partitions else "")
    )


def find(module: Module) -> tuple[Answer, list[str]]:
    """Return the lines to keep, and the problems that prevent the change."""
    slurm_conf = Path(module.params["directory"]) / "slurm.conf"
    if slurm_conf.exists():
        return InForce(module, slurm_conf).find()
    nodes = _nodes(module)
    fresh = Answer(count=nodes, new=nodes, has_state=_has_state(module))
    return fresh, find_problems(_identity(module), Conf(), None, unasked=True)
