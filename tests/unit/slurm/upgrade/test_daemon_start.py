# SPDX-License-Identifier: GPL-3.0-or-later
"""A daemon serves once it answers; one that ends, or that does not answer in time, is reported with the end of its log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade import daemon_start
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.daemon_start import DaemonStart, Question

UP = "Slurmctld(primary) at ctl1 is UP\n"


class Systemd:
    """A fake systemd: the states of a unit after its start, one a look, and from which look on the daemon answers."""

    def __init__(self, runtime: Path, states: Sequence[str], answers_at: int = 0, first: str = "inactive") -> None:
        self._runtime, self._states, self._answers_at = runtime, list(states), answers_at
        self._state = first
        self.calls: list[str] = []
        self.questions = 0
        self.limit_at_start = ""
        self.restarts = 0

    def __call__(self, argv: Sequence[str], *_seconds: float, **_more: Any) -> Outcome:
        self.calls.append(" ".join(argv))
        if argv[0] == "scontrol":
            self.questions += 1
            return Outcome(0, UP if self.questions >= self._answers_at else "is DOWN", "")
        if "start" in argv:
            self.limit_at_start = "".join(path.read_text() for path in self._runtime.rglob("*.conf"))
            self._state = ""
        if argv[1] == "show":
            if not self._state:
                state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
                return Outcome(0, f"ActiveState={state}\nSubState=x\nResult=exit-code\nNRestarts={self.restarts}\n", "")
            return Outcome(0, f"ActiveState={self._state}\nNRestarts=0\n", "")
        return Outcome(0, "journal" if argv[0] == "journalctl" else "", "")


def start(tmp_path: Path, systemd: Systemd) -> DaemonStart:
    ticks = iter(range(10_000))
    return DaemonStart(
        "slurmctld.service",
        Question(["scontrol", "ping"], r"\) at ctl1 is UP"),
        systemd,
        tmp_path,
        lambda _seconds: None,
        lambda: float(next(ticks)),
    )


def test_it_waits_until_the_daemon_answers_and_systemd_has_no_limit_meanwhile(tmp_path: Path):
    systemd = Systemd(tmp_path, ["activating", "active"], answers_at=3)
    found = start(tmp_path, systemd).serve(100)
    assert (found.up, found.why, systemd.questions) == (True, "", 3)
    assert "TimeoutStartSec=infinity" in systemd.limit_at_start
    assert list(tmp_path.rglob("*.conf")) == []
    assert systemd.calls[-1] == "systemctl daemon-reload"


@pytest.mark.parametrize(
    ("states", "why"),
    [
        (["activating", "failed"], "slurmctld.service ended: exit-code"),
        (["inactive"], "slurmctld.service is not running"),
        (["activating"], "slurmctld.service did not answer within 20 s"),
    ],
)
def test_why_it_does_not_serve(tmp_path: Path, states: list[str], why: str):
    log = tmp_path / "slurmctld.log"
    log.write_text("".join(f"line {number}\n" for number in range(40)) + "fatal: broken\n")
    found = start(tmp_path / "run", Systemd(tmp_path / "run", states, 99)).serve(20, log)
    assert (found.up, found.why) == (False, why)
    assert found.log.endswith("fatal: broken")
    assert len(found.log.splitlines()) == 12


def test_a_daemon_that_systemd_starts_again_and_again_does_not_serve(tmp_path: Path):
    """Without an end the way back would wait for the whole deadline, two hours by default."""
    systemd = Systemd(tmp_path, ["activating"], 99)
    systemd.restarts = 3
    found = start(tmp_path, systemd).serve(1000)
    assert (found.up, found.why) == (False, "slurmctld.service ended: exit-code")
    assert found.seconds < 10


def test_without_a_log_file_it_is_the_journal(tmp_path: Path):
    found = start(tmp_path, Systemd(tmp_path, ["failed"])).serve(20, tmp_path / "none.log")
    assert "journal" in found.log


def test_a_daemon_that_runs_is_not_started_again(tmp_path: Path):
    systemd = Systemd(tmp_path, ["active"], first="active")
    assert start(tmp_path, systemd).is_up()
    assert start(tmp_path, systemd).serve(20).up
    assert not [call for call in systemd.calls if " start " in call]


def test_a_unit_that_does_not_stop_is_an_error():
    def stubborn(argv: Sequence[str], *_seconds: float) -> Outcome:
        return Outcome(0, "", "")

    with pytest.raises(OSError, match=r"slurmdbd\.service still runs"):
        daemon_start.stop(["slurmdbd.service"], stubborn)
    assert daemon_start.stop(["slurmdbd.service"], lambda *_: Outcome(3, "", "")) == []
