# SPDX-License-Identifier: GPL-3.0-or-later
"""Drain and resume nodes by what they report, within limits; only on the controller in charge.

bedplate-health-control.service runs it on every controller. Usage: python3 -m
ansible_collections.bedplate.cluster.plugins.module_utils.health.control.health_control SETTINGS [--plan] [--conf SLURM_CONF]. SETTINGS is
JSON, as plugins/plugin_utils/health writes it. `--plan` prints what one tick would do, and changes nothing.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path

from ...common.files import atomic_write
from ..report import prometheus_text, service_notify
from . import control_metrics, control_status, limiter_memory
from .cluster_view import ClusterView, ViewError
from .control_metrics import ControlState
from .control_settings import ControlSettings, SettingsError, load
from .limiter import DRAIN, RESUME, Action, Decision, decide
from .limiter_memory import Memory
from .slurm_link import SlurmLink

SLURM_CONF = Path("/etc/slurm/slurm.conf")
_INDEX_LINES = 5000


class Controller:
    """One controller: its settings, its link to Slurm, and the folder that all controllers share."""

    def __init__(self, settings: ControlSettings, link: SlurmLink, clock: Callable[[], float] = time.time) -> None:
        self.settings, self.link, self.clock = settings, link, clock
        self.folder = Path(settings.state)
        self.totals: Counter[str] = Counter()

    def tick(self) -> list[str]:
        """Read, decide and act once; return the problems. A controller that is not in charge does nothing."""
        problems: list[str] = []
        try:
            if not self.link.is_acting():
                self._write_metrics(control_status.idle_state(self.settings, self.clock(), self._acts()))
                return []
            with self._alone() as is_alone:
                if not is_alone:
                    return [f"{self.folder}/lock: another process acts; nothing was done"]
                problems = self._tick()
        except (OSError, ViewError, ValueError) as error:
            problems = [f"{type(error).__name__}: {error}"]
        return problems

    def plan(self) -> tuple[ClusterView, Decision]:
        """Return all nodes and what would be done now."""
        view, now = self.link.view(), self.clock()
        return view, decide(view, self.memory(), self.settings, now, acts=self._acts())

    def _acts(self) -> bool:
        return self.settings.acts(date.fromtimestamp(self.clock()))

    def memory(self) -> Memory:
        """Return the memory that the last controller in charge has left."""
        with suppress(OSError, UnicodeDecodeError):
            return limiter_memory.from_text((self.folder / "memory.json").read_text(encoding="utf-8"))
        return Memory()

    def _tick(self) -> list[str]:
        view, decision = self.plan()
        # Before any change: after a crash a drain counts that was not made, never the other way round.
        atomic_write(self.folder / "memory.json", decision.memory.text(), mode=0o640)
        problems = list(self._act(decision)) if decision.acts else []
        now = self.clock()
        atomic_write(
            self.folder / "status.json",
            json.dumps(control_status.status(view, decision, problems, now), indent=1),
            mode=0o644,
        )
        self._write_metrics(control_status.acting_state(self.settings, view, decision, self.totals, problems, now))
        return problems

    def _write_metrics(self, state: ControlState) -> None:
        if self.settings.textfile:
            text = prometheus_text.text_of(control_metrics.control_metrics(state))
            atomic_write(Path(self.settings.textfile), text, mode=0o644, sync=False)

    def _act(self, decision: Decision) -> Iterator[str]:
        for action in decision.actions:
            if problem := self._note_evidence(action):
                yield problem
            if problem := self.link.apply(action):
                yield problem
            else:
                report = action.seen.report
                name = report.health_class if action.kind == DRAIN and report else action.kind
                self.totals[name] += action.kind in (DRAIN, RESUME)

    def _note_evidence(self, action: Action) -> str:
        """Write which evidence a drain is for, before the drain. A full disk is reported and stops no drain."""
        report = action.seen.report
        if action.kind != DRAIN or report is None:
            return ""
        row = {
            **{"time": round(self.clock()), "node": action.node, "class": report.health_class},
            **{"checks": report.checks, "jobs": report.jobs, "evidence": report.evidence, "boot": report.boot},
        }
        path = self.folder / "evidence.jsonl"
        try:
            old = path.read_text(encoding="utf-8").splitlines()[-_INDEX_LINES:] if path.exists() else []
            atomic_write(path, "".join(f"{line}\n" for line in [*old, json.dumps(row)]), mode=0o640)
        except (OSError, UnicodeDecodeError) as error:
            return f"{path}: {error}"
        return ""

    @contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the lock of the shared folder; False if another process has it."""
        self.folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True
        finally:
            os.close(handle)


def serve(controller: Controller) -> int:
    """Tick until SIGTERM."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
    while not ended:
        start = time.monotonic()
        for problem in controller.tick():
            print(problem, flush=True)
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("settings", type=Path)
    parser.add_argument("--plan", action="store_true", help="print what one tick would do, and change nothing")
    parser.add_argument("--conf", type=Path, default=SLURM_CONF, help="slurm.conf of the cluster")
    options = parser.parse_args(arguments)
    try:
        settings = load(options.settings)
    except SettingsError as error:
        print(f"{options.settings}: {error}", file=sys.stderr)
        return 1
    controller = Controller(settings, SlurmLink(options.conf))
    return show(controller) if options.plan else serve(controller)


if __name__ == "__main__":
    sys.exit(main())
