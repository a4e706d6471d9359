# SPDX-License-Identifier: GPL-3.0-or-later
"""Drain and resume nodes by what they report, within limits; only on the controller in charge.

bedplate-health-control.service runs it on every controller. Usage: python3 -m
ansible_collections.bedplate.cluster.plugins.module_utils.health.control.health_control SETTINGS [--plan | --once] [--conf SLURM_CONF].
SETTINGS is JSON, as plugins/plugin_utils/health writes it. `--plan` prints what one tick would do, and changes nothing; `--once` ends
after one tick, with 1 if it had problems.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path

from ...common.files import atomic_write
from ..facts.health_finding import CANNOT_RUN
from ..report import prometheus_text, service_notify
from . import control_metrics, control_status
from .cluster_view import ClusterView, ViewError
from .control_metrics import ControlState
from .control_settings import ControlSettings, SettingsError, load
from .limiter import DRAIN, RESUME, Action, Decision, decide
from .limiter_memory import Memory
from .shared_folder import SharedFolder
from .slurm_link import Result, SlurmLink

SLURM_CONF = Path("/etc/slurm/slurm.conf")
# With the bounds of all other commands of a tick this is below WatchdogSec of the unit, 180 s.
_ACT_SECONDS = 45.0


class Controller:
    """One controller: its settings, its link to Slurm, and the folder that all controllers share."""

    def __init__(
        self,
        settings: ControlSettings,
        link: SlurmLink,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.link, self.clock, self.timer = settings, link, clock, timer
        self.folder = SharedFolder(Path(settings.state))
        self.totals: Counter[str] = Counter()
        self.news: list[str] = []
        """Lines about the last tick that the tick before it did not have."""
        self._lines: list[str] = []
        self._unsaved: Memory | None = None
        """The memory of the last tick if it could not be saved."""

    def tick(self) -> list[str]:
        """Read, decide and act once; return the problems. A controller that is not in charge does nothing."""
        problems: list[str] = []
        self.news = []
        try:
            if not self.link.is_acting():
                self._unsaved = None
                self._write_metrics(control_status.idle_state(self.settings, self.clock(), self._acts()), problems)
                return problems
            with self.folder.alone() as is_alone:
                if not is_alone:
                    return [f"{self.folder.path}/lock: another process acts; nothing was done"]
                problems = self._tick()
        except (OSError, ViewError, ValueError) as error:
            problems = [f"{type(error).__name__}: {error}"]
        return problems

    def plan(self) -> tuple[ClusterView, Decision]:
        """Return all nodes and what would be done now."""
        return self._decide(self._unsaved or self.folder.memory())

    def _decide(self, memory: Memory) -> tuple[ClusterView, Decision]:
        view, now = self.link.view(), self.clock()
        return view, decide(view, memory, self.settings, now, acts=self._acts())

    def _acts(self) -> bool:
        return self.settings.acts(date.fromtimestamp(self.clock()))

    def _tick(self) -> list[str]:
        before = self._unsaved or self.folder.memory()
        view, decision = self._decide(before)
        earlier, self._lines = self._lines, control_status.lines(decision)
        self.news = [line for line in self._lines if line not in earlier]
        # Before any change: after a crash a drain counts that was not made, never the other way round.
        problems = self._save(decision.memory)
        if decision.acts:
            counted = decision.memory.text()
            problems += list(self._act(decision, before))
            if decision.memory.text() != counted:
                problems += self._save(decision.memory)
        if view.malformed:
            problems.append(
                f"sinfo: {len(view.malformed)} nodes with unreadable rows: {', '.join(sorted(view.malformed)[:3])}"
            )
        now = self.clock()
        status = control_status.status(view, decision, problems, now)
        _try("status", lambda: self.folder.write_status(status), problems)
        state = control_status.acting_state(self.settings, view, decision, self.totals, problems, now)
        self._write_metrics(state, problems)
        return problems

    def _save(self, memory: Memory) -> list[str]:
        """Save the memory; on a full disk keep it here, so that the rate holds."""
        problems: list[str] = []
        is_saved = _try("memory", lambda: self.folder.save(memory), problems)
        self._unsaved = None if is_saved else memory
        return problems

    def _write_metrics(self, state: ControlState, problems: list[str]) -> None:
        path = self.settings.textfile
        if path:
            text = prometheus_text.text_of(control_metrics.control_metrics(state))
            _try(path, lambda: _write_text_file(Path(path), text), problems)

    def _act(self, decision: Decision, before: Memory) -> Iterator[str]:
        """Make the changes; yield the problems. A change that is not made does not count, and is decided again in the next tick."""
        end, late = self.timer() + _ACT_SECONDS, 0
        for action in decision.actions:
            if self.timer() >= end:
                late += 1
                decision.give_back(action, before)
                continue
            problem = self._note_evidence(action)
            is_held = problem and _waits_for_evidence(action)
            result = Result(may_be_made=False) if is_held else self.link.apply(action)
            yield from filter(None, (problem, result.problem))
            if not result.may_be_made:
                decision.give_back(action, before)
            elif result.problem:
                # slurmctld did not answer in time; the next command would wait as well.
                end = self.timer()
            else:
                decision.note_made(action)
                self._count(action)
        if late:
            yield f"{late} changes wait for the next tick"

    def _count(self, action: Action) -> None:
        report = action.seen.report
        if action.kind == DRAIN and report:
            self.totals[report.health_class] += 1
        self.totals[RESUME] += action.kind == RESUME

    def _note_evidence(self, action: Action) -> str:
        """Write which evidence a drain is for, before the drain; return why it could not be written."""
        report = action.seen.report
        if action.kind != DRAIN or report is None:
            return ""
        row = {
            **{"time": round(self.clock()), "node": action.node, "class": report.health_class},
            **{"checks": report.checks, "jobs": report.jobs, "evidence": report.evidence, "boot": report.boot},
        }
        problems: list[str] = []
        _try(f"index of evidence for {action.node}", lambda: self.folder.note_evidence(row), problems)
        return "".join(problems)


def _try(part: str, write: Callable[[], None], problems: list[str]) -> bool:
    """Return whether a file could be written; a problem says why not."""
    try:
        write()
    except OSError as error:
        problems.append(f"{part}: {error.strerror or error}")
        return False
    return True


def _write_text_file(path: Path, text: str) -> None:
    # The directory is node exporter's, whose package may be installed later.
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(path, text, mode=0o644, sync=False)


def _waits_for_evidence(action: Action) -> bool:
    """Return whether a drain waits until its evidence can be noted: all that jobs can still run on."""
    report = action.seen.report
    return action.kind == DRAIN and report is not None and report.health_class != CANNOT_RUN


def serve(controller: Controller) -> int:
    """Tick until SIGTERM."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    while not ended:
        start = time.monotonic()
        problems = controller.tick()
        for line in (*controller.news, *problems):
            print(line, flush=True)
        # Ready after the first tick: what verify reads then is of this process.
        service_notify.notify(service_notify.READY, service_notify.WATCHDOG)
        while not ended and time.monotonic() - start < controller.settings.tick:
            time.sleep(min(1.0, max(0.05, controller.settings.tick / 20)))
    return 0


def show(controller: Controller) -> int:
    """Print what a tick would do now."""
    try:
        view, decision = controller.plan()
    except ViewError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(control_status.status(view, decision, [], controller.clock()), indent=1))
    return 0


def once(controller: Controller) -> int:
    """Run one tick; return 1 if it had problems."""
    problems = controller.tick()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("settings", type=Path)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--plan", action="store_true", help="print what one tick would do, and change nothing")
    only.add_argument("--once", action="store_true", help="end after one tick")
    parser.add_argument("--conf", type=Path, default=SLURM_CONF, help="slurm.conf of the cluster")
    options = parser.parse_args(arguments)
    try:
        settings = load(options.settings)
    except SettingsError as error:
        print(f"{options.settings}: {error}", file=sys.stderr)
        return 1
    controller = Controller(settings, SlurmLink(options.conf))
    return show(controller) if options.plan else once(controller) if options.once else serve(controller)


if __name__ == "__main__":
    sys.exit(main())
