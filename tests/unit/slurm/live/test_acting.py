# SPDX-License-Identifier: GPL-3.0-or-later
"""Which controller is in charge, as one machine sees it: the pings, a query, and a heartbeat that changes."""

from __future__ import annotations

import getpass
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.acting import TAKES, Controllers, View
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.pings import Ping

TIMEOUT = 20


def view(*up: bool, serves: bool = True, writer: int | None = None, beats: bool = False) -> View:
    pings = tuple(Ping(f"ctl{number}", state, number == 1) for number, state in enumerate(up, 1))
    return View(pings, serves, writer, beats)


@pytest.mark.parametrize(
    ("seen", "acting"),
    [
        (view(True, True, writer=0), "ctl1"),
        (view(True, False, writer=0), "ctl1"),
        # The primary has just taken the control back; the file is still of the standby.
        (view(True, True, writer=1), "ctl1"),
        (view(False, True, writer=1), "ctl2"),
        (view(False, True), "ctl2"),
        # A standby answers pings before it takes the control.
        (view(False, True, serves=False, writer=0), ""),
        # Cut off from a primary that works.
        (view(False, True, serves=False, writer=0, beats=True), "ctl1"),
        (view(False, False, serves=False, writer=1, beats=True), "ctl2"),
        (view(False, False, serves=False, writer=1), ""),
        (view(False, True, True, writer=2), "ctl3"),
        (view(False, True, True, writer=1), "ctl2"),
        # One of two serves, and nothing shows which.
        (view(False, True, True, writer=0), ""),
        (view(False, True, True), ""),
        (view(), ""),
        (view(False, True, serves=True, writer=7), "ctl2"),
    ],
)
def test_the_controller_in_charge(seen: View, acting: str):
    assert seen.acting == acting


def test_facts_of_a_view():
    assert view(False, True, writer=1).facts() == {
        "acting": "ctl2",
        "controllers": ["ctl1", "ctl2"],
        "up": ["ctl2"],
        "writer": "ctl2",
    }
    assert view().facts() == {"acting": "", "controllers": [], "up": [], "writer": ""}


class Machine:
    """A controller with a clock of its own; `events` are called with the time, and change what is seen."""

    def __init__(self, folder: Path, up: Sequence[bool], serves: bool, writer: int) -> None:
        self.folder, self.up, self.serves, self.writer = folder, list(up), serves, writer
        self.now = 0.0
        self.beating = False
        self.event: Callable[[float], None] = lambda _now: None
        (folder / "slurm.conf").write_text(f"SlurmctldTimeout={TIMEOUT}\nStateSaveLocation={folder}\n")
        self.beat(1)

    def beat(self, time: int) -> None:
        (self.folder / "heartbeat").write_bytes(struct.pack(">QQ", time, self.writer))

    def run(self, argv: Sequence[str], _seconds: float) -> Outcome:
        if argv[1] == "ping":
            roles = ("primary", "backup")
            lines = [
                f"Slurmctld({roles[n]}) at ctl{n + 1} is {'UP' if up else 'DOWN'}\n" for n, up in enumerate(self.up)
            ]
            return Outcome(0 if any(self.up) else 1, "".join(lines), "")
        return Outcome(0 if self.serves else 1, "", "")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.event(self.now)
        if self.beating and int(self.now) % (TIMEOUT // 4) == 0:
            self.beat(int(self.now))

    def controllers(self) -> Controllers:
        return Controllers(self.folder / "slurm.conf", getpass.getuser(), self.run, self.sleep, lambda: self.now)


def test_a_cluster_in_order_needs_no_wait(tmp_path: Path):
    machine = Machine(tmp_path, [True, True], serves=True, writer=0)
    assert (machine.controllers().settled().acting, machine.now) == ("ctl1", 0)


def test_a_standby_in_charge_needs_no_wait(tmp_path: Path):
    machine = Machine(tmp_path, [False, True], serves=True, writer=1)
    assert (machine.controllers().settled().acting, machine.now) == ("ctl2", 0)


def test_a_standby_that_is_about_to_take_the_control_is_waited_for(tmp_path: Path):
    machine = Machine(tmp_path, [False, True], serves=False, writer=0)

    def take(now: float) -> None:
        if now >= TIMEOUT:
            machine.serves, machine.writer, machine.beating = True, 1, True

    machine.event = take
    assert machine.controllers().settled().acting == "ctl2"
    assert TIMEOUT <= machine.now <= TIMEOUT + 15


def test_a_standby_that_never_takes_the_control_is_waited_for_once(tmp_path: Path):
    machine = Machine(tmp_path, [False, True], serves=False, writer=0)
    assert machine.controllers().settled().acting == ""
    assert TIMEOUT + TAKES <= machine.now <= TIMEOUT + TAKES + 15


def test_a_standby_that_is_cut_off_from_the_primary_sees_its_heartbeat(tmp_path: Path):
    machine = Machine(tmp_path, [False, True], serves=False, writer=0)
    machine.beating = True
    seen = machine.controllers().settled()
    assert (seen.acting, seen.beats) == ("ctl1", True)
    assert machine.now <= TIMEOUT


def test_a_primary_that_sees_no_controller_sees_the_heartbeat_of_the_standby(tmp_path: Path):
    machine = Machine(tmp_path, [False, False], serves=False, writer=1)
    machine.beating = True
    assert machine.controllers().settled().acting == "ctl2"


def test_controllers_that_are_all_down_are_not_waited_for(tmp_path: Path):
    machine = Machine(tmp_path, [False, False], serves=False, writer=1)
    assert machine.controllers().settled().acting == ""
    assert machine.now <= TIMEOUT // 4 + 6


def test_a_machine_without_slurm_sees_no_controller(tmp_path: Path):
    assert Controllers(tmp_path / "slurm.conf").settled() == View()


def test_a_single_controller_has_no_heartbeat(tmp_path: Path):
    machine = Machine(tmp_path, [True], serves=True, writer=0)
    assert machine.controllers().settled().writer is None


@pytest.mark.parametrize(("timeout", "beat"), [(20, 10), (120, 35), (600, 35)])
def test_a_heartbeat_changes_in_a_quarter_of_the_timeout(tmp_path: Path, timeout: int, beat: int):
    (tmp_path / "slurm.conf").write_text(f"slurmctldtimeout={timeout}\n")
    assert Controllers(tmp_path / "slurm.conf").beat == beat
