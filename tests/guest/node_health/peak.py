# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the most memory that any process of the agent had: "KiB, number of processes". Children do not count. Usage: peak.py FILE"""

from __future__ import annotations

import re
import sys
import time
from contextlib import suppress
from pathlib import Path

PROCS = Path("/sys/fs/cgroup/system.slice/bedplate-health.service/cgroup.procs")
WANTED = re.compile(r"Name:\tpython3\n.*\nPPid:\t1\n.*\nVmHWM:\s*(\d+) kB\n", re.DOTALL)


def main(file: Path) -> None:
    """Look twice a second, until the end of the machine."""
    most, seen = 0, set()
    while True:
        with suppress(OSError):
            for pid in PROCS.read_text().split():
                found = WANTED.search(Path("/proc", pid, "status").read_text())
                if found:
                    most = max(most, int(found[1]))
                    seen.add(pid)
            file.write_text(f"{most} {len(seen)}")
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
