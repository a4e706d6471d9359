# SPDX-License-Identifier: GPL-3.0-or-later
"""Program of the workload's jobs: runs on a node, in each task; Python of the node, nothing imported of bedplate.

It writes /run/bedplate-kit/<job>.<task>.<restarts>: a line for each change of what its GPUs answer and for each signal. The time
of the file says when the task last ran.
"""

import errno
import os
import pathlib
import signal
import sys
import time

BEAT = 2.0  # seconds
BURN = 0.2  # share of a burning job's time

folder = pathlib.Path("/run/bedplate-kit")
folder.mkdir(exist_ok=True)
own = [os.environ.get(name, "0") for name in ("SLURM_JOB_ID", "SLURM_PROCID", "SLURM_RESTART_COUNT")]
record = folder / ".".join(own)


def answers() -> str:
    """Return what opening each GPU answers: ENXIO for one of the job (no driver is behind it), EPERM for any other."""
    found = []
    for path in sorted(map(str, pathlib.Path("/dev").glob("nvidia[0-9]*"))):
        try:
            os.close(os.open(path, os.O_RDWR))
            answer = "opened"
        except OSError as problem:
            answer = errno.errorcode[problem.errno or 0]
        found.append(path + "=" + answer)
    return "devices " + " ".join(found)


def write(line: str) -> None:
    """Append a line to the task's record."""
    with record.open("a") as stream:
        stream.write(f"{time.time():.0f} {line}\n")


def checkpoint(number: int, frame: object) -> None:
    """Keep what a real job would keep, and end well."""
    write(f"signal {number}")
    (folder / (record.name + ".checkpoint")).write_text("saved\n")
    sys.exit(0)


signal.signal(signal.SIGTERM, checkpoint)
last = ""
while True:
    seen = answers()
    if seen != last:
        write(seen)
        last = seen
    os.utime(record)
    until = time.monotonic() + BEAT * BURN
    while "burn" in sys.argv and time.monotonic() < until:
        pass
    time.sleep(BEAT)
