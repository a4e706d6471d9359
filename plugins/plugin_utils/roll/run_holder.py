# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the ansible-playbook process of a run, and check whether the process of another run on this control node has ended.

Machines and containers may share a name, and clones of a machine its machine id. Only the boot and the PID namespace say whether this
process would see the other one, so a process of another boot or namespace counts as running.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def holder(pid: int | None = None, proc: Path = Path("/proc")) -> str:
    """Return `<host>:<process>:<its start>:<boot>:<PID namespace>` of the process that started this worker: the same in all workers."""
    number = os.getppid() if pid is None else pid
    return ":".join((socket.gethostname(), str(number), _start(number, proc), *_view(proc)))


def is_gone(other: str, proc: Path = Path("/proc")) -> bool:
    """Return whether a holder was a process of this host, boot and PID namespace, and has ended; else False."""
    parts = other.rsplit(":", 4)
    if len(parts) != 5:
        return False
    host, number, start, *view = parts
    if host != socket.gethostname() or not number.isdecimal() or "" in view or view != _view(proc):
        return False
    now = _start(int(number), proc)
    return now != start and not (now == "" and _is_hidden(int(number)))


def busy(who: str, record: Mapping[str, Any], remedy: str) -> str:
    """Return why a run is refused while another one holds its record; `remedy` is for a process that has ended."""
    return (
        f"{who} works on the nodes: run {record['run']} of {record['holder']}, until {record['until']} at the latest. "
        f"Nothing was changed. Wait for it, or stop it and try again; if its process has ended, {remedy}"
    )


def _is_hidden(number: int) -> bool:
    """Return whether a process of another user exists; /proc may hide it (hidepid)."""
    try:
        os.kill(number, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _view(proc: Path) -> list[str]:
    """Return the first digits of the boot id, and the inode of the PID namespace; "" where it cannot be read."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii", errors="replace").partition("-")[0]
    except OSError:
        boot = ""
    try:
        # Such as pid:[4026531836].
        namespace = (proc / "self/ns/pid").readlink().name.partition("[")[2].rstrip("]")
    except OSError:
        namespace = ""
    return [boot, namespace]


def _start(number: int, proc: Path) -> str:
    """Return the start of a process in clock ticks since the boot, "" if there is no such process."""
    try:
        text = (proc / str(number) / "stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    # The name in parentheses may contain blanks.
    return text.rpartition(")")[2].split()[19]
