# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait until slurmctld has heard a node's slurmd of the new release, and compare the gap with SlurmdTimeout."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from ...common import command
from ...common.command import Outcome
from ..live.release_window import release_of

_QUICK = 30.0
_VERSION = re.compile(r"\bVersion=(\S+)")
_STATE = re.compile(r"\bState=(\S+)")
_TIMEOUT = re.compile(r"^SlurmdTimeout\s*=\s*(\d+)", re.MULTILINE)
Run = Callable[..., Outcome]


class RegistrationError(Exception):
    """The node is not back, or was away for too long; the text is complete."""


class Registration:
    """One node, as slurmctld has it; queried on the node itself, which proves its commands too."""

    def __init__(
        self,
        name: str,
        release: str,
        run: Run = command.run,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._name, self._release = name, release
        self._run, self._sleep, self._clock = run, sleep, clock

    def wait(self, since: float, deadline: float) -> float:
        """Return the seconds from `since` until the node was heard. Raises RegistrationError."""
        begun = self._clock()
        while why := self._missing():
            if self._clock() - begun > deadline:
                raise RegistrationError(f"{self._name}: {why}, after {deadline:.0f} s")
            self._sleep(1.0)
        gap = round(self._clock() - since, 1)
        limit = self.timeout()
        if limit and gap > limit:
            raise RegistrationError(
                f"{self._name}: slurmd was away for {gap:.0f} s, longer than SlurmdTimeout ({limit} s): its jobs may have ended"
            )
        return gap

    def timeout(self) -> int:
        """Return SlurmdTimeout in seconds, 0 for no limit. Raises RegistrationError."""
        done = self._run(["scontrol", "show", "config"], _QUICK)
        if done.code != 0 or not (found := _TIMEOUT.search(done.stdout)):
            raise RegistrationError(f"{self._name}: scontrol show config: {done.error_line}")
        return int(found[1])

    def _missing(self) -> str:
        """Return why the node is not back, or ""."""
        done: Any = self._run(["scontrol", "--oneliner", "show", "node", self._name], _QUICK)
        if done.code != 0:
            return f"scontrol show node: {done.error_line}"
        version, state = _VERSION.search(done.stdout), _STATE.search(done.stdout)
        if not version or release_of(version[1]) != self._release:
            return f"slurmctld has it with release {version[1] if version else 'unknown'}"
        if state and ("*" in state[1] or "NOT_RESPONDING" in state[1]):
            return f"slurmctld has it as {state[1]}"
        return ""
