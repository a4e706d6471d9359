# SPDX-License-Identifier: GPL-3.0-or-later
"""Kill the agent again and again, every other time while it writes a file, and read what it leaves.

Usage: kill_often.py SECONDS. Prints a JSON object: kills, kills beside a temporary file, reads, and the files that could not be read.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line

RUN, STATE = "/run/bedplate/health", "/var/lib/bedplate/health"
READERS = (
    (Path(RUN, "verdict"), verdict_line.parse),
    (Path(RUN, "verdict.json"), json.loads),
    (Path(STATE, "state.json"), json.loads),
)
COMMAND = ("systemctl", "show", "--property=MainPID", "--value", "bedplate-health.service")
LONGEST_WAIT = 12.0
"""Seconds until a tick writes, at most."""
LATER = 6.0
XID, RESET = (
    "<4>NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=python3, GPU has fallen off the bus.\n",
    "<4>bedplate-health: reset of 0000:3b:00.0 done\n",
)


def log(text: str) -> None:
    """Write a record to the kernel's log, so that the agent has something to write."""
    Path("/dev/kmsg").write_text(text)


def is_writing() -> bool:
    """Return whether a temporary file is there."""
    return any(name.endswith(".tmp") for folder in (RUN, STATE) for name in os.listdir(folder))  # noqa: PTH208 - fast


def unreadable() -> list[str]:
    """Return the files that cannot be read, with the reasons."""
    found = []
    for path, read in READERS:
        try:
            read(path.read_text())
        except (OSError, ValueError) as error:
            found.append(f"{path}: {error}")
    return found


def main(seconds: float) -> dict[str, object]:
    """Kill for `seconds`; return the counts."""
    kills, writing, reads = 0, 0, 0
    problems: set[str] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid = int(subprocess.run(COMMAND, capture_output=True, check=True).stdout)
        if not pid:
            continue
        until = time.monotonic() + (LONGEST_WAIT if kills % 2 else random.uniform(0, 5))
        log(RESET if kills % 4 < 2 else XID)
        was_writing = False
        if kills % 4 == 3:
            # A write of a later tick, and no first one.
            time.sleep(LATER)
        while time.monotonic() < until and not was_writing:
            if kills % 2:
                was_writing = is_writing()
            else:
                problems.update(unreadable())
                reads += 1
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            kills, writing = kills + 1, writing + was_writing
        problems.update(unreadable())
    log(RESET)
    return {"kills": kills, "writing": writing, "reads": reads, "problems": sorted(problems)}


if __name__ == "__main__":
    print(json.dumps(main(float(sys.argv[1]))))
