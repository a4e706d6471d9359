# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise children that no signal ends: a process in uninterruptible sleep (state D) ignores SIGKILL until the driver answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
UNKNOWN = "unknown"
"""Kind of a process of this cgroup that hangs and that no record names."""
_ENDED = ("Z", "X", "")


@dataclass(frozen=True)
class Leftover:
    """Hold a child that did not die. `started`: clock ticks from boot to its start, so that its pid cannot be confused with a later one."""

    pid: int
    started: int
    kind: str


@dataclass(frozen=True)
class ProcessState:
    """Hold what /proc/PID/stat shows: state, process group and start in clock ticks since boot."""

    state: str
    group: int
    started: int


def process_state(pid: int, proc: Path = PROC) -> ProcessState | None:
    """Return the state of a process; None without one. /proc/PID/cmdline is not read: it blocks while the process hangs."""
    try:
        text = (proc / str(pid) / "stat").read_text("utf-8", "replace")
        # The name is in parentheses and may have any character in it.
        fields = text[text.rindex(")") + 2 :].split(" ")
        return ProcessState(fields[0], int(fields[2]), int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def group_is_gone(pid: int, proc: Path = PROC) -> bool:
    """Return whether a process group has no process, apart from ended processes that process 1 did not collect yet."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    states = (process_state(int(one.name), proc) for one in proc.glob("[0-9]*"))
    return not any(one is not None and one.group == pid and one.state not in _ENDED for one in states)


def save(path: Path, children: Iterable[Leftover]) -> None:
    """Write the children for the next process of the agent. A full filesystem is not an error: the cgroup names them as well."""
    rows = [{"pid": one.pid, "started": one.started, "kind": one.kind} for one in children]
    temporary = path.with_suffix(".new")
    with suppress(OSError):
        temporary.write_text(json.dumps(rows))
        temporary.replace(path)


def saved(path: Path) -> list[Leftover]:
    """Return the children that an earlier process wrote; an empty list if the file is missing or malformed."""
    try:
        rows = json.loads(path.read_bytes()[: 1 << 20])
        found = [Leftover(one["pid"], one["started"], one["kind"]) for one in rows]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return [one for one in found if _is_record(one)]


def _is_record(one: Leftover) -> bool:
    whole = all(isinstance(number, int) and not isinstance(number, bool) for number in (one.pid, one.started))
    return whole and one.pid > 1 and isinstance(one.kind, str)


def own_cgroup(proc: Path = PROC, cgroups: Path = CGROUPS) -> Path | None:
    """Return the folder of this process's cgroup, of version 2 or of systemd's own tree; None if it cannot be found."""
    with suppress(OSError):
        for line in (proc / "self/cgroup").read_text().splitlines():
            number, controllers, path = [*line.split(":", 2), "", ""][:3]
            if number == "0" and not controllers:
                return cgroups / path.lstrip("/")
            if controllers == "name=systemd":
                return cgroups / "systemd" / path.lstrip("/")
    return None


def find_leftovers(records: Path, cgroup: Path | None, proc: Path = PROC, own: int = 0) -> list[Leftover]:
    """Return the children of an earlier process of the agent that still exist.

    A recorded child counts while its pid has the recorded start time, or while a process of its group hangs in this cgroup. A process of
    this cgroup in state D that no record names counts with the kind `unknown`. `own`: pid that never counts, by default this process's.
    """
    hanging = _hanging(cgroup, proc, own or os.getpid())
    found: list[Leftover] = []
    for one in saved(records):
        state = process_state(one.pid, proc)
        lives = state is not None and state.started == one.started and state.state not in _ENDED
        members = [pid for pid, other in hanging.items() if other.group == one.pid]
        if lives or members:
            found.append(one)
        for pid in members:
            del hanging[pid]
        hanging.pop(one.pid, None)
    return [*found, *(Leftover(pid, state.started, UNKNOWN) for pid, state in hanging.items())]


def is_hanging(one: Leftover, cgroup: Path | None, proc: Path = PROC) -> bool:
    """Return whether a child is in state D, or a process of its group in this cgroup is."""
    state = process_state(one.pid, proc)
    if state is not None and state.state == "D" and state.started == one.started:
        return True
    return any(other.group == one.pid for other in _hanging(cgroup, proc, os.getpid()).values())


def _hanging(cgroup: Path | None, proc: Path, own: int) -> dict[int, ProcessState]:
    try:
        lines = (cgroup / "cgroup.procs").read_text().split() if cgroup else []
    except OSError:
        return {}
    pids = [int(one) for one in lines if one.isdecimal() and int(one) != own]
    states = ((pid, process_state(pid, proc)) for pid in pids)
    return {pid: state for pid, state in states if state is not None and state.state == "D"}
