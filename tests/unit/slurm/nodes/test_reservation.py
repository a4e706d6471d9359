# SPDX-License-Identifier: GPL-3.0-or-later
"""The maintenance reservation of a run: its commands, and how it is read back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.reservation import (
    ReservationError,
    create,
    name_of,
    parse,
    remove,
)

# scontrol --oneliner show reservations of Slurm 24.11.
SHOWN = (
    "ReservationName=course StartTime=2026-11-26T08:00:00 EndTime=2026-11-26T12:00:00 Nodes=n9 State=ACTIVE\n"
    "ReservationName=bedplate_roll_r1 StartTime=2026-11-27T22:00:00 EndTime=2026-11-28T02:00:00 Duration=04:00:00 Nodes=n[1-2] NodeCnt=2 "
    "CoreCnt=4 Features=(null) PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES TRES=cpu=4 Users=root State=INACTIVE\n"
)


def test_a_reservation_is_read_by_its_name():
    found = parse(SHOWN, name_of("roll", "r1"))
    assert found is not None
    assert (found.nodes, found.start, found.end, found.active) == (
        ("n1", "n2"),
        "2026-11-27T22:00:00",
        "2026-11-28T02:00:00",
        False,
    )
    assert parse(SHOWN, name_of("roll", "r2")) is None
    assert parse("No reservations in the system\n", "course") is None


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
