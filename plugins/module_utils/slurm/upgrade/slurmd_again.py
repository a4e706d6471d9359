# SPDX-License-Identifier: GPL-3.0-or-later
"""Let systemd start slurmd again where the run that stopped it has ended: without slurmd Slurm ends a node's jobs after SlurmdTimeout."""

from __future__ import annotations

from collections.abc import Callable

from ...common import command
from ...common.command import Outcome

SLURMD = "slurmd.service"
UNIT = "bedplate-slurmd-again"
_QUICK = 30.0
_MARGIN = 15  # seconds in which slurmd starts and registers
Run = Callable[..., Outcome]


def prepare(timeout: int, run: Run = command.run) -> int:
    """Let systemd start slurmd in some seconds, also if this run has ended, and return them; `timeout` is SlurmdTimeout, 0 for no limit.

    Raises OSError if systemd refuses it: then slurmd must not be stopped.
    """
    cancel(run)
    if not timeout:
        return 0
    # slurmctld hears a node every third of SlurmdTimeout, so the last time may have been that long ago.
    seconds = max(timeout // 2, timeout * 2 // 3 - _MARGIN)
    timer = [f"--unit={UNIT}", f"--on-active={seconds}", "--timer-property=AccuracySec=1s"]
    done = run(
        ["systemd-run", "--quiet", "--collect", *timer, "systemctl", "start", "--no-block", SLURMD],
        _QUICK,
    )
    if done.code != 0:
        raise OSError(
            f"systemd-run: {done.error_line}. {SLURMD} was not stopped: nothing would start it if this run ended"
        )
    return seconds


def cancel(run: Run = command.run) -> None:
    """Remove the timer, also that of an earlier run."""
    run(["systemctl", "stop", f"{UNIT}.timer"], _QUICK)
