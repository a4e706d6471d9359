# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the ansible-playbook process of a run, and check whether the process of another run on this control node has ended."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def holder(pid: int | None = None, proc: Path = Path("/proc")) -> str:
    """Return `<host>:<process>:<its start>` of the process that started this worker: the same in all workers of a run."""
    number = os.getppid() if pid is None else pid
    return f"{socket.gethostname()}:{number}:{_start(number, proc)}"


def is_gone(other: str, proc: Path = Path("/proc")) -> bool:
    """Return whether a holder was a process of this machine and has ended; False for one of another machine."""
    host, number, start = [*other.rsplit(":", 2), "", ""][:3]
    if host != socket.gethostname() or not number.isdecimal():
        return False
    return _start(int(number), proc) != start


def _start(number: int, proc: Path) -> str:
    """Return the start of a process in clock ticks since the boot, "" if there is no such process."""
    try:
        text = (proc / str(number) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The name in parentheses may contain blanks.
    return text.rpartition(")")[2].split()[19]
