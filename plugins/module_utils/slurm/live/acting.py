# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the controller that is in charge of a cluster, as one machine sees it.

`scontrol ping` alone does not show it: a standby answers UP before and after it takes the control. A controller in charge answers queries,
and writes its index into the heartbeat file of StateSaveLocation every quarter of SlurmctldTimeout, at least every 30 s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...common import command
from ..conf.conf_reader import read
from .pings import Heartbeat, Ping, parse_pings, read_heartbeat
from .slurm_commands import drop_login_variables

_PING = ("scontrol", "ping")
# Answered by the controller in charge alone. While none is, the command itself waits, for half of SlurmctldTimeout each time.
_QUERY = ("scontrol", "show", "config")
_SECONDS = 20.0
_QUERY_SECONDS = 10.0
_PAUSE = 2.0
# Seconds beyond SlurmctldTimeout in which a standby takes the control: it pings in intervals of a third of it, and reads the state.
TAKES = 30
_LATE = 5


@dataclass(frozen=True)
class View:
    """Hold what one machine sees of the controllers.

    `serves`: a controller answered a query. `writer`: index of the last writer of the heartbeat file, None if it cannot be read. `beats`:
    the file changed while it was watched; it is watched only where the pings do not show who is in charge.
    """

    pings: tuple[Ping, ...] = ()
    serves: bool = False
    writer: int | None = None
    beats: bool = False

    @property
    def acting(self) -> str:
        """Return the controller in charge, "" without one, or if it cannot be known."""
        if not self.pings:
            return ""
        if self.pings[0].up:
            return self.pings[0].host  # a primary is never a standby
        if self.beats:
            return self.writer_name
        up = [one.host for one in self.pings if one.up]
        if not self.serves or not up:
            return ""
        return self.writer_name if self.writer_name in up else up[0] if len(up) == 1 else ""

    @property
    def writer_name(self) -> str:
        """Return the controller that wrote the heartbeat file last, "" if it is unknown."""
        return self.pings[self.writer].host if self.writer is not None and self.writer < len(self.pings) else ""

    def is_up(self, name: str) -> bool:
        """Return whether the slurmctld of a controller answers here."""
        return any(one.up for one in self.pings if one.host == name)

    def index(self, name: str) -> int:
        """Return the index of a controller in SlurmctldHost. ValueError: slurm.conf does not name it."""
        return [one.host for one in self.pings].index(name)

    def facts(self) -> dict[str, Any]:
        """Return the view as plain data."""
        return {
            "acting": self.acting,
            "controllers": [one.host for one in self.pings],
            "up": [one.host for one in self.pings if one.up],
            "writer": self.writer_name,
        }


@dataclass(frozen=True)
class Controllers:
    """The controllers of a slurm.conf. `sleep` and `clock` are replaced in tests."""

    slurm_conf: Path
    user: str = "slurm"
    run: Callable[[Sequence[str], float], command.Outcome] | None = None
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    _options: dict[str, str] = field(default_factory=dict)

    @property
    def timeout(self) -> int:
        """Return SlurmctldTimeout in seconds."""
        value = self._option("SlurmctldTimeout", "120")
        return int(value) if value.isdecimal() else 120

    @property
    def beat(self) -> int:
        """Return the seconds in which the heartbeat file changes for certain, if a controller is in charge."""
        return min(self.timeout // 4, 30) + _LATE

    def heartbeat(self) -> Heartbeat | None:
        """Read the heartbeat file."""
        return read_heartbeat(Path(self._option("StateSaveLocation", "/var/spool")), self.user)

    def look(self) -> View:
        """Return what this machine sees now, without watching the heartbeat file. Without slurm.conf or scontrol it sees nothing."""
        if not self.slurm_conf.exists():
            return View()
        pings = parse_pings(self._ask(_PING, _SECONDS).stdout)
        serves = any(one.up for one in pings) and self._ask(_QUERY, _QUERY_SECONDS).code == 0
        heartbeat = self.heartbeat() if len(pings) > 1 else None
        return View(pings, serves, heartbeat.index if heartbeat else None)

    def watched(self, view: View) -> View:
        """Return the view with `beats`: whether a controller writes the heartbeat file, also if it does not answer here.

        No clock is compared: the file changes while it is watched, or not.
        """
        if not view.writer_name:
            return view
        before, end = self.heartbeat(), self.clock() + self.beat
        while self.clock() < end:
            self.sleep(1)
            now = self.heartbeat()
            if now != before and now is not None:
                return replace(view, writer=now.index, beats=True)
        return view

    def settled(self, patience: float | None = None) -> View:
        """Return the view once a controller is in charge; wait for a standby that is about to take the control.

        `patience` is in seconds; None is SlurmctldTimeout and what a standby needs beyond it.
        """
        end = self.clock() + (self.timeout + TAKES if patience is None else patience)
        while True:
            view = self.look()
            if not view.acting:
                # A standby does not take the control from a primary that it alone cannot reach: the heartbeat shows that one.
                view = self.watched(view)
            is_pending = any(one.up for one in view.pings) and self.timeout > 0
            if view.acting or not is_pending or self.clock() >= end:
                return view
            self.sleep(_PAUSE)

    def _ask(self, argv: Sequence[str], seconds: float) -> command.Outcome:
        if self.run:
            return self.run(argv, seconds)
        drop_login_variables()
        return command.run(argv, seconds, environment={"SLURM_CONF": str(self.slurm_conf)})

    def _option(self, name: str, default: str) -> str:
        if name not in self._options:
            self._options[name] = read(self.slurm_conf).option(name) or default
        return self._options[name]
