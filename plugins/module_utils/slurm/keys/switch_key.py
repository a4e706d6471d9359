# SPDX-License-Identifier: GPL-3.0-or-later
"""Switch this machine to its staged key, munged at a time that all machines share.

No munged accepts two keys. A credential of the old key is refused by a munged with the new one, and an `srun` that meets such a refusal
fails. So for some seconds no munged answers: all are stopped by SIGSTOP, replace the key, and start again. Meanwhile clients of munge wait:
libmunge waits 2 s for an answer, five times, and Slurm calls it twenty times more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ...common.command import Runner
from .key_files import KeyFiles, KeyTurnError

LONGEST = 900.0
"""Seconds that a machine waits at most for its time."""
# The lock is taken so many seconds before the pause: other runs of bedplate wait for it a minute at most.
_BEFORE = 5.0


@dataclass(frozen=True)
class Clock:
    """Time in seconds since 1970, and how to wait. Tests replace both."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def wait_until(self, moment: float) -> None:
        """Wait until a time; return at once if it is over."""
        left = moment - self.now()
        if left > 0:
            self.sleep(left)


def switch_at(
    files: KeyFiles,
    unit: str,
    pause_at: float,
    switch_at: float,
    is_pending: Callable[[], bool],
    run: Runner,
    clock: Clock,
) -> float:
    """Pause a daemon, replace its key and start it again; return for how many seconds it did not answer.

    `pause_at` and `switch_at` are seconds since 1970. `is_pending` raises KeyTurnError for a wrong staged key. The lock is taken before
    the pause: another run of bedplate on this machine may hold it for a while.
    """
    if max(pause_at, switch_at) - clock.now() > LONGEST:
        raise KeyTurnError(f"the time to switch is more than {LONGEST:.0f} s away. Compare the clocks of this machine")
    clock.wait_until(pause_at - _BEFORE)
    with files.locked():
        if not is_pending():
            return 0.0
        clock.wait_until(pause_at)
        began = clock.now()
        _systemctl(run, "kill", "--signal=STOP", unit)
        try:
            clock.wait_until(switch_at)
            files.put()
        except BaseException:
            _systemctl(run, "kill", "--signal=CONT", unit)
            raise
    # By SIGKILL: after SIGTERM it would answer requests that wait, with the old key.
    _systemctl(run, "kill", "--signal=KILL", unit)
    _restart(run, unit)
    return clock.now() - began


def switch_now(files: KeyFiles, is_pending: Callable[[], bool]) -> None:
    """Replace a key. Its daemons read it when they start."""
    with files.locked():
        if is_pending():
            files.put()


def _restart(run: Runner, unit: str) -> None:
    # After SIGKILL systemd may count a failure, and refuse a start that follows too soon.
    run(["systemctl", "reset-failed", unit])
    done = run(["systemctl", "restart", unit])
    if done.code != 0:
        raise KeyTurnError(
            f"{unit} does not start on the new key: {done.error_line}. The new key is installed. Read `journalctl -u {unit}`, "
            "start the unit, and run playbooks/turn_keys.yml again"
        )


def _systemctl(run: Runner, *words: str) -> None:
    # A unit that is not running has no process to stop; it is started on the new key in any case.
    run(["systemctl", *words])
