# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is back once slurmctld has heard its new slurmd, and a gap above SlurmdTimeout is a failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.node_registration import (
    Registration,
    RegistrationError,
)

SHOWN = "NodeName=n1 Arch=x86_64 State={state} Version={version} ThreadsPerCore=1"


def registration(*shown: str, timeout: int | None = 300) -> Registration:
    rows, ticks = list(shown), iter(range(1000, 9000))

    def run(argv: Sequence[str], *_seconds: float, **_more: Any) -> Outcome:
        if "config" in argv:
            if timeout is None:
                return Outcome(1, "", "no answer")
            return Outcome(0, f"Configuration\nSlurmdTimeout           = {timeout} sec\n", "")
        text = rows.pop(0) if len(rows) > 1 else rows[0]
        return Outcome(0 if text else 1, text, "" if text else "no answer")

    return Registration("n1", "26.05", run, lambda _seconds: None, lambda: float(next(ticks)))


def test_it_waits_for_the_release_and_an_answer():
    found = registration(
        "",
        SHOWN.format(state="ALLOCATED", version="24.11.5"),
        SHOWN.format(state="ALLOCATED*", version="26.05.5"),
        SHOWN.format(state="ALLOCATED+NOT_RESPONDING", version="26.05.5"),
        SHOWN.format(state="ALLOCATED", version="26.05.5"),
    ).wait(990.0, 100)
    assert found == 15.0


def test_a_gap_above_slurmdtimeout_is_a_failure_and_none_is_no_limit():
    back = SHOWN.format(state="DOWN", version="26.05.5")
    with pytest.raises(RegistrationError, match=r"slurmd was away for 41 s, longer than SlurmdTimeout \(30 s\)"):
        registration(back, timeout=30).wait(960.0, 100)
    assert registration(back, timeout=0).wait(960.0, 100) == 41.0


def test_a_limit_that_cannot_be_read_is_a_failure():
    with pytest.raises(RegistrationError, match="n1: scontrol show config: no answer"):
        registration(SHOWN.format(state="IDLE", version="26.05.5"), timeout=None).wait(990.0, 10)


def test_a_node_that_is_not_back_is_a_failure():
    with pytest.raises(RegistrationError, match=r"n1: slurmctld has it with release 24.11.5, after 10 s"):
        registration(SHOWN.format(state="IDLE", version="24.11.5")).wait(990.0, 10)
