# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a daemon of Slurm and wait until it answers, without systemd's limit: slurmdbd may convert its tables for hours."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ...common.files import atomic_write
from ...primitives.units.unit_log import last_lines

RUNTIME = Path("/run/systemd/system")
_DROP_IN = "bedplate-upgrade.conf"
_TEXT = """# For the first start of a new release: it may convert its data for longer than systemd waits.
[Service]
TimeoutStartSec=infinity
"""
_QUICK = 30.0
_RESTARTS = 3
_LOG_LINES = 12
_SETTLED = 3.0  # seconds that a daemon may take from its start to its first state
Run = Callable[..., Outcome]


@dataclass(frozen=True)
class Served:
    """Hold whether a daemon answers, after how many seconds, and if not why, with the end of its log."""

    up: bool
    seconds: float
    why: str = ""
    log: str = ""

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """A command whose success, with a pattern in its output, shows that a daemon serves."""

    argv: Sequence[str]
    pattern: str = ""
    environment: Mapping[str, str] | None = None

    def is_answered(self, run: Run) -> bool:
        """Return whether the daemon answers now."""
        done = run(self.argv, _QUICK, environment=self.environment)
        return done.code == 0 and re.search(self.pattern, done.stdout) is not None


class DaemonStart:
    """The start of one unit."""

    def __init__(
        self,
        unit: str,
        question: Question,
        run: Run = command.run,
        runtime: Path = RUNTIME,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.unit = unit
        self._question = question
        self._run, self._sleep, self._clock = run, sleep, clock
        self._drop_in = runtime / f"{unit}.d" / _DROP_IN

    def is_up(self) -> bool:
        """Return whether the unit runs and answers."""
        return self._state()["ActiveState"] == "active" and self._question.is_answered(self._run)

    def serve(self, deadline: float, log: Path | None = None) -> Served:
        """Start the unit unless it runs, and wait until it answers, fails, or the deadline in seconds is over."""
        begun, wall = self._clock(), time.time()
        self._without_limit()
        try:
            if self._state()["ActiveState"] != "active":
                self._systemctl("reset-failed", self.unit)
                self._systemctl("start", "--no-block", self.unit)
            why = self._wait(begun, deadline)
        finally:
            self._drop_in.unlink(missing_ok=True)
            self._systemctl("daemon-reload")
        seconds = round(self._clock() - begun, 1)
        return Served(not why, seconds, why, self._log(log, wall) if why else "")

    def _wait(self, begun: float, deadline: float) -> str:
        """Return why it does not serve, "" once it does."""
        while True:
            state = self._state()
            active, since = state["ActiveState"], self._clock() - begun
            if active == "active" and self._question.is_answered(self._run):
                return ""
            if active == "failed" or int(state.get("NRestarts") or 0) >= _RESTARTS:
                return f"{self.unit} ended: {state.get('Result', 'failed')}"
            if active == "inactive" and since > _SETTLED:
                return f"{self.unit} is not running"
            if since > deadline:
                return f"{self.unit} did not answer within {deadline:.0f} s"
            self._sleep(1.0)

    def _state(self) -> dict[str, str]:
        show = "--property=ActiveState,SubState,Result,NRestarts"
        said = self._run(["systemctl", "show", self.unit, show], _QUICK).stdout
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        return {"ActiveState": "unknown", **found}

    def _without_limit(self) -> None:
        self._drop_in.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        atomic_write(self._drop_in, _TEXT, mode=0o644)
        self._systemctl("daemon-reload")

    def _systemctl(self, *arguments: str) -> None:
        self._run(["systemctl", *arguments], 120.0)

    def _log(self, path: Path | None, since: float) -> str:
        """Return the end of the daemon's log file, or of its journal."""
        try:
            lines = path.read_text(errors="replace").splitlines() if path else []
        except OSError:
            lines = []
        return "\n".join(lines[-_LOG_LINES:]) or last_lines(self._run, self.unit, since)


def running(units: Sequence[str], run: Run = command.run) -> list[str]:
    """Return the units that run."""
    return [one for one in units if run(["systemctl", "is-active", "--quiet", one], _QUICK).code == 0]


def stop(units: Sequence[str], run: Run = command.run) -> list[str]:
    """Stop the units that run, and return their names. Raises OSError if one still runs."""
    found = running(units, run)
    if not found:
        return []
    # slurmctld saves its state before it ends.
    done = run(["systemctl", "stop", *found], 300.0)
    if still := running(found, run):
        raise OSError(f"{', '.join(still)} still runs: {done.error_line}")
    return found
