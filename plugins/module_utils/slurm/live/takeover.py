# SPDX-License-Identifier: GPL-3.0-or-later
"""Put one controller in charge of a running cluster, or say why it is not.

The start of the primary's slurmctld takes the control back from a standby. A standby takes it by `scontrol takeover`, which ends the
primary's slurmctld. Both continue if the other controller does not answer, even if it works and is only cut off; two would then write one
StateSaveLocation. So nothing is done while a controller that does not answer here writes its heartbeat.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...common import command
from .acting import View
from .pings import shown

UNIT = "slurmctld.service"
_START_SECONDS = 120.0
_SECONDS = 60.0
_PAUSE = 1.0
# The file can be read within this time: slurmctld writes it anew, and it is short for a moment.
_HEARTBEAT_SECONDS = 5.0


class TakeoverError(Exception):
    """The controller is not in charge; the text says what was seen and what to do."""


class Watcher(Protocol):
    """Read the controllers of a cluster, as acting.Controllers does."""

    def look(self) -> View:
        """Return what this machine sees now."""

    def watched(self, view: View) -> View:
        """Return the view with the heartbeat watched."""


@dataclass
class Takeover:
    """Put the controller `name`, this machine, in charge within `deadline` seconds.

    `run` runs a command of this machine. `check` changes nothing. `actions` lists what was done, or in check mode would be.
    `lost_standby` is the controller that was in charge, if it does not answer as a standby of the primary.
    """

    name: str
    controllers: Watcher
    deadline: float
    check: bool = False
    run: Callable[[Sequence[str], float], command.Outcome] = command.run
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    actions: list[str] = field(default_factory=list)
    lost_standby: str = ""

    def take(self) -> tuple[View, View]:
        """Return the views before and after. TakeoverError: the controller is not in charge, or must not be."""
        before = self.controllers.look()
        try:
            index = before.index(self.name)
        except ValueError:
            names = ", ".join(one.host for one in before.pings) or "no controller"
            raise TakeoverError(
                f"{self.name}: slurm.conf there names {names}. Run playbooks/scheduler.yml first."
            ) from None
        if self._is_in_charge(before, index):
            return before, before
        self._refuse_two_writers(self._with_heartbeat(before))
        end = self.clock() + self.deadline
        self._start(before)
        if index:
            if not self.check:
                self._until(lambda view: view.is_up(self.name), end, "its slurmctld does not answer")
            self._change(f"scontrol takeover {index}")
        if self.check:
            return before, before
        after = self._until(lambda view: self._is_in_charge(view, index), end, "it is not in charge")
        return before, after if index else self._with_standby(before.acting, after, end)

    def _is_in_charge(self, view: View, index: int) -> bool:
        """Return whether this controller answers, is in charge, and wrote the last heartbeat."""
        return view.is_up(self.name) and view.acting == self.name and view.serves and view.writer in (index, None)

    def _with_heartbeat(self, view: View) -> View:
        """Return the view with the last writer. TakeoverError: the file cannot be read.

        Then StateSaveLocation is not mounted here: slurmctld would start without jobs, and end running ones. The playbook proves the
        storage before; --start-at-task and --skip-tags leave that out.
        """
        end = self.clock() + _HEARTBEAT_SECONDS
        while len(view.pings) > 1 and view.writer is None:
            if self.clock() >= end:
                raise TakeoverError(
                    f"{self.name}: the file heartbeat in StateSaveLocation cannot be read there, so the storage that controllers share is "
                    "not mounted, or not whole; slurmctld would start without jobs and end running ones. Nothing was changed. Mount it and "
                    "call this again."
                )
            self.sleep(_PAUSE)
            view = self.controllers.look()
        return view

    def _refuse_two_writers(self, view: View) -> None:
        writer = view.writer_name
        if writer in ("", self.name) or view.is_up(writer):
            return
        if self.controllers.watched(view).beats:
            raise TakeoverError(
                f"{writer} does not answer {self.name}, and it is in charge: it writes its heartbeat into StateSaveLocation. With "
                f"{self.name} two controllers would write one state. Nothing was changed. Repair the network between them, or stop "
                f"slurmctld on {writer} (`systemctl stop slurmctld`), and call this again."
            )

    def _start(self, view: View) -> None:
        """Start slurmctld here if it does not run."""
        if not view.is_up(self.name) and self.run(["systemctl", "is-active", "--quiet", UNIT], _SECONDS).code != 0:
            self._change(f"systemctl start {UNIT}", _START_SECONDS)

    def _change(self, line: str, seconds: float = _SECONDS) -> None:
        """Run a command that changes a state, but not in check mode. TakeoverError: it failed."""
        self.actions.append(line)
        if self.check:
            return
        outcome = self.run(line.split(), seconds)
        if outcome.code != 0:
            raise TakeoverError(f"{self.name}: `{line}`: {outcome.error_line}. {self._seen(self.controllers.look())}")

    def _until(self, holds: Callable[[View], bool], end: float, why: str) -> View:
        while True:
            view = self.controllers.look()
            if holds(view):
                return view
            if self.clock() >= end:
                raise TakeoverError(f"{self.name}: {why} after {self.deadline:.0f} s. {self._seen(view)}")
            self.sleep(_PAUSE)

    def _with_standby(self, former: str, view: View, end: float) -> View:
        """Return the view once the controller that was in charge answers as a standby, or at the deadline as it is then."""
        while former and not view.is_up(former) and self.clock() < end:
            self.sleep(_PAUSE)
            view = self.controllers.look()
        self.lost_standby = former if former and not view.is_up(former) else ""
        return view

    def _seen(self, view: View) -> str:
        writer = f"; {view.writer_name} has written the heartbeat last" if view.writer_name else ""
        return (
            f"`scontrol ping` on {self.name}: {shown(view.pings)}{writer}. See `journalctl -u slurmctld` on the controllers. Jobs "
            "continue to run meanwhile. If no controller answers, start slurmctld of the primary."
        )
