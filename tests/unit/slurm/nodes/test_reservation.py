# SPDX-License-Identifier: GPL-3.0-or-later
"""The maintenance reservation of a run: its commands, and how it is read back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import reservation_name
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes import reservation
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reservation import (
    Reservation,
    ReservationError,
    create,
    overlapping,
    parse,
    remove,
)
from ansible_collections.bedplate.cluster.plugins.modules import slurm_reservation
from tests.kit.module import Module, result_of

# scontrol --oneliner show reservations of Slurm 24.11.
SHOWN = (
    "ReservationName=course StartTime=2026-11-26T08:00:00 EndTime=2026-11-26T12:00:00 Nodes=n9 State=ACTIVE\n"
    "ReservationName=bedplate_roll_r1 StartTime=2026-11-27T22:00:00 EndTime=2026-11-28T02:00:00 Duration=04:00:00 Nodes=n[1-2] NodeCnt=2 "
    "CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=4 Users=root State=INACTIVE\n"
)


def test_a_reservation_is_read_by_its_name():
    found = parse(SHOWN)[reservation_name("roll", "r1")]
    assert (found.nodes, found.start, found.end, found.active) == (
        ("n1", "n2"),
        "2026-11-27T22:00:00",
        "2026-11-28T02:00:00",
        False,
    )
    assert list(parse(SHOWN)) == ["course", "bedplate_roll_r1"]
    assert parse("No reservations in the system\n") == {}


def test_it_begins_at_a_time_and_lets_running_jobs_go_on():
    commands: list[list[str]] = []

    def change(argv: Sequence[str]) -> str:
        commands.append(list(argv))
        return ""

    create("b", "n[1-2]", "now+2hours", 240, change)
    remove("b", change)
    assert commands == [
        [
            *("scontrol", "create", "reservation", "ReservationName=b", "StartTime=now+2hours", "Duration=240"),
            *("Nodes=n[1-2]", "Users=root", "Flags=MAINT,IGNORE_JOBS"),
        ],
        ["scontrol", "delete", "ReservationName=b"],
    ]


def test_what_slurm_refuses_is_an_error():
    with pytest.raises(ReservationError, match=r"reservation b of n1 from 2020-01-01T00:00:00: Invalid time"):
        create("b", "n1", "2020-01-01T00:00:00", 60, lambda argv: "Invalid time")
    with pytest.raises(ReservationError, match=r"reservation b: access denied"):
        remove("b", lambda argv: "access denied")


OWN = Reservation("own", ("n1", "n2"), "2026-11-27T22:00:00", "2026-11-28T02:00:00")


@pytest.mark.parametrize(
    ("nodes", "start", "end", "flag", "shared"),
    [
        ("n[2-3]", "2026-11-28T01:00:00", "2026-11-28T09:00:00", "", ("n2",)),
        ("n[2-3]", "2026-11-20T01:00:00", "2026-12-28T09:00:00", "", ("n2",)),
        ("n3", "2026-11-28T01:00:00", "2026-11-28T09:00:00", "", None),
        ("n2", "2026-11-28T02:00:00", "2026-11-28T09:00:00", "", None),
        ("n2", "2026-11-27T20:00:00", "2026-11-27T22:00:00", "", None),
        # Licenses only.
        ("(null)", "2026-11-27T20:00:00", "2026-11-28T22:00:00", "", None),
        # Its next time is over before, and a later one may not be.
        *(
            ("n2", "2026-11-26T23:00:00", "2026-11-27T00:00:00", flag, ("n2",))
            for flag in ("HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY", "TIME_FLOAT")
        ),
        ("n2", "2026-11-29T23:00:00", "2026-11-30T00:00:00", "DAILY", None),
    ],
)
def test_reservations_that_have_its_nodes_at_its_time_overlap(
    nodes: str, start: str, end: str, flag: str, shared: tuple[str, ...] | None
):
    line = f"ReservationName=course StartTime={start} EndTime={end} Nodes={nodes} Flags=MAINT,{flag},SPEC_NODES"
    others = parse(f"{line} State=INACTIVE")
    assert overlapping(OWN, {"own": OWN, **others}) == ({"course": shared} if shared else {})


class Controller:
    """A slurmctld with the reservation of a course; it makes and removes others as it is ordered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines = {
            "course": "ReservationName=course StartTime=2026-11-28T01:00:00 EndTime=2026-11-28T09:00:00 Nodes=n2-ib State=INACTIVE"
        }
        self.commands: list[list[str]] = []
        self.silent = self.silent_after_create = False
        self.refuses = ""
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(reservation, "run", lambda _argv, _seconds, environment: self.show(environment))
        monkeypatch.setattr(slurm_reservation.slurm_commands, "change", self.change)

    def show(self, environment: Mapping[str, str]) -> Outcome:
        """Print the reservations; a clock of another zone than UTC is nine hours ahead."""
        assert not [name for name in os.environ if name.startswith("SLURM_")]
        if self.silent:
            return Outcome(1, "", "Unable to contact slurm controller")
        text = "\n".join(self.lines.values())
        return Outcome(0, text if environment.get("TZ") == "UTC0" else text.replace("27T22:", "28T07:"), "")

    def change(self, argv: Sequence[str], slurm_conf: object) -> str:
        del slurm_conf
        self.commands.append(list(argv))
        if argv[1] == self.refuses:
            return "access denied"
        if argv[1] == "delete":
            del self.lines[argv[2].partition("=")[2]]
            return ""
        pairs = dict(word.split("=", 1) for word in argv[3:])
        times = "StartTime=2026-11-27T22:00:00 EndTime=2026-11-28T02:00:00"
        name = pairs["ReservationName"]
        self.silent = self.silent_after_create
        self.lines[name] = f"ReservationName={name} {times} Nodes={pairs['Nodes']} State=INACTIVE"
        return ""

    def reserve(self, nodes: str = "n[1-2]-ib", check: bool = False, **more: Any) -> dict[str, Any]:
        """Run the module for the run r1."""
        params = {
            "kind": "roll",
            "run": "r1",
            "state": "present",
            "nodes": nodes,
            "start": "now+2hours",
            "minutes": 240,
        }
        module = Module({**params, "reserved": False, "directory": "/etc/slurm", **more}, check)
        return result_of(self.monkeypatch, slurm_reservation, module)


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    return Controller(monkeypatch)


def test_a_reservation_that_takes_nodes_of_another_one_is_removed_at_once(controller: Controller):
    result = controller.reserve()
    assert result["failed"]
    assert "course (n2-ib)" in result["msg"]
    assert list(controller.lines) == ["course"]


def test_a_reservation_that_cannot_be_compared_with_others_is_removed(controller: Controller):
    controller.silent_after_create = True
    assert "Unable to contact" in controller.reserve()["msg"]
    assert list(controller.lines) == ["course"]


def test_an_overlapping_reservation_that_stays_is_named_with_what_to_do(controller: Controller):
    controller.refuses = "delete"
    message = controller.reserve()["msg"]
    assert "course (n2-ib)" in message
    assert "access denied. Remove it: scontrol delete ReservationName=bedplate_roll_r1" in message


def test_a_reservation_beside_others_stays(controller: Controller):
    assert controller.reserve("n1-ib")["changed"]
    result = controller.reserve("n1-ib")
    assert (result["changed"], result["exists"], result["start"]) == (False, True, "2026-11-27T22:00:00")
    assert result["overlaps"] == {}


def test_nodes_of_other_reservations_are_taken_on_request(controller: Controller):
    result = controller.reserve(reserved=True)
    assert (result["changed"], result["exists"]) == (True, True)
    # Slurm before 23.11 cannot read text after the last bracket.
    assert "Nodes=n1-ib,n2-ib" in controller.commands[0]
    # A run that was killed before it compared, or another reservation that was made since.
    assert controller.reserve()["failed"]
    assert controller.reserve(state=None)["overlaps"] == {"course": "n2-ib"}
    assert "bedplate_roll_r1" in controller.lines


def test_check_mode_makes_no_reservation(controller: Controller):
    result = controller.reserve(check=True)
    assert (result["changed"], result["exists"], controller.commands) == (True, False, [])


@pytest.mark.parametrize("state", [None, "present", "absent"])
def test_a_slurmctld_that_does_not_answer_is_a_failure_before_any_change(controller: Controller, state: str | None):
    """Without the other reservations it would take nodes out of them."""
    controller.silent = True
    result = controller.reserve("n1-ib", state=state)
    assert result["failed"]
    assert "Unable to contact slurm controller" in result["msg"]
    assert controller.commands == []


def test_a_reservation_that_slurm_does_not_remove_is_a_failure(controller: Controller):
    controller.reserve("n1-ib")
    controller.refuses = "delete"
    result = controller.reserve("n1-ib", state="absent")
    assert (result["failed"], result["msg"]) == (True, "reservation bedplate_roll_r1: access denied")
    controller.refuses = ""
    result = controller.reserve("n1-ib", state="absent")
    assert (result["changed"], result["exists"]) == (True, False)


def test_a_reservation_of_no_valid_nodes_is_an_error(controller: Controller):
    assert "n[1" in controller.reserve("n[1")["msg"]
    assert controller.commands == []
