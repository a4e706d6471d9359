# SPDX-License-Identifier: GPL-3.0-or-later
"""Run probes as disposable children: output in a file, a deadline by polling, and no wait that could block.

A child that hangs in a driver survives SIGKILL. A pipe that it holds open, or a wait for it, would block the agent as well.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from .forked_child import ForkedChild, fork
from .leftovers import PROC, UNKNOWN, Leftover, find_leftovers, group_is_gone, is_hanging, process_state, save

RECORDS = "children.json"
GRACE = 0.5
"""Seconds after SIGKILL in which a child may still end."""
_LARGEST = 1 << 20  # bytes of output
_PAUSE = 0.01


@dataclass(frozen=True)
class Ended:
    """Describe how a probe ended. `code` None: it missed its deadline. `problem`: why it could not be started, or its last error line."""

    kind: str
    code: int | None
    output: bytes
    problem: str = ""


Process = Union["subprocess.Popen[bytes]", ForkedChild]
Task = Union[Sequence[str], Callable[[], None]]
"""Command of a child, or a function that a forked child runs."""


@dataclass
class _Child:
    kind: str
    process: Process
    record: Leftover
    files: tuple[Path, Path]
    deadline: float
    killed: float | None = None
    is_late: bool = False


def kill_group(pid: int) -> None:
    """Send SIGKILL to a process group."""
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


class ProbeChildren:
    """Start probes and collect their output; at most one child of a kind exists at a time.

    `folder` is in tmpfs and survives a restart of the agent. `leftovers`: kind to the child that did not die; such a kind is not started
    again while that child exists, and no kind is while a child of unknown kind hangs. `missed`: kind to the number of deadlines that it
    missed in a row.
    """

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        kill: Callable[[int], None] = kill_group,
        proc: Path = PROC,
        cgroup: Path | None = None,
    ) -> None:
        """Use a folder for output and records, and this process's cgroup to find hanging children.

        `kill` and `proc` are replaced in tests: an unkillable child needs a frozen kernel.
        """
        self.folder, self.clock, self.kill, self.proc, self.cgroup = folder, clock, kill, proc, cgroup
        self.leftovers: dict[str, Leftover] = {}
        self.missed: dict[str, int] = {}
        self._running: dict[str, _Child] = {}
        self._abandoned: list[Process] = []
        self._failed: list[Ended] = []
        self._number = 0

    def adopt(self) -> list[Leftover]:
        """Find and kill the children of an earlier process of the agent. Return the children that stay; their kinds are not started again.

        A child of an earlier process counts as one missed deadline. This takes at most GRACE seconds.
        """
        end = self.clock() + GRACE
        while True:
            found = find_leftovers(self.folder / RECORDS, self.cgroup, self.proc)
            for one in found:
                if one.kind != UNKNOWN:
                    self.kill(one.pid)
            if not found or self.clock() >= end:
                break
            time.sleep(_PAUSE)
        self.leftovers = {one.kind: one for one in found}
        self.missed = dict.fromkeys(self.leftovers, 1)
        self._save()
        return found

    @property
    def running(self) -> list[str]:
        """Return the kinds that run or whose end was not collected."""
        return [*self._running, *(one.kind for one in self._failed)]

    def start(self, kind: str, task: Task, seconds: float, environment: Mapping[str, str] | None = None) -> bool:
        """Start a probe with a deadline. Return False if its last child still exists; a leftover counts as a missed deadline."""
        self._forget_leftovers()
        if kind in self.leftovers or UNKNOWN in self.leftovers:
            self.missed[kind] = self.missed.get(kind, 0) + 1
            return False
        if kind in self._running:
            return False
        self._number += 1
        files = (self.folder / f"{self._number}.out", self.folder / f"{self._number}.err")
        try:
            process = fork(task, files, _limit_output) if callable(task) else _popen(task, files, environment)
        except (OSError, subprocess.SubprocessError) as error:
            self._remove(files)
            name = kind if callable(task) else task[0]
            self._failed.append(Ended(kind, 127, b"", f"{name}: {getattr(error, 'strerror', '') or error}"))
            return True
        state = process_state(process.pid, self.proc)
        record = Leftover(process.pid, state.started if state else 0, kind)
        self._running[kind] = _Child(kind, process, record, files, self.clock() + seconds)
        self._save()
        return True

    def is_unkillable(self, kind: str) -> bool:
        """Return whether /proc shows the leftover of a kind, or a process of its group in the same cgroup, in state D."""
        left = self.leftovers.get(kind)
        return left is not None and is_hanging(left, self.cgroup, self.proc)

    def poll(self) -> list[Ended]:
        """Return the probes that ended since the last call. Never blocks."""
        ended, self._failed = self._failed, []
        for child in list(self._running.values()):
            outcome = self._look(child)
            if outcome is not None:
                del self._running[child.kind]
                ended.append(outcome)
        self._forget_leftovers()
        if ended:
            self._save()
        return ended

    def stop(self) -> None:
        """Send SIGKILL to all children, and wait for none."""
        for child in self._running.values():
            self.kill(child.process.pid)

    def _look(self, child: _Child) -> Ended | None:
        """Return the end of a child, None while it runs. At its deadline, its group is killed."""
        now, pid = self.clock(), child.process.pid
        code = child.process.poll()
        if code is not None and child.killed is None and group_is_gone(pid, self.proc):
            self.missed[child.kind] = 0
            return self._ended(child, code)
        if child.killed is None:
            if code is not None or now >= child.deadline:
                # Where the probe itself ended, processes that it started remain.
                self.kill(pid)
                child.killed, child.is_late = now, code is None
            return None
        if group_is_gone(pid, self.proc) and code is not None:
            self.missed[child.kind] = self.missed.get(child.kind, 0) + 1 if child.is_late else 0
            return self._ended(child, None if child.is_late else code)
        if now - child.killed < GRACE:
            return None
        self.leftovers[child.kind] = child.record
        self.missed[child.kind] = self.missed.get(child.kind, 0) + 1
        self._abandoned.append(child.process)
        return self._ended(child, None)

    def _ended(self, child: _Child, code: int | None) -> Ended:
        output, errors = (_content(path) for path in child.files)
        self._remove(child.files)
        lines = errors.decode("utf-8", "replace").strip().splitlines()
        return Ended(child.kind, code, output, lines[-1][:200] if lines and code != 0 else "")

    def _forget_leftovers(self) -> None:
        """Free the kinds whose leftover ended at last."""
        self._abandoned = [one for one in self._abandoned if one.poll() is None]
        gone = [kind for kind, one in self.leftovers.items() if not self._exists(one)]
        for kind in gone:
            del self.leftovers[kind]

    def _exists(self, one: Leftover) -> bool:
        state = process_state(one.pid, self.proc)
        if one.kind == UNKNOWN:
            return state is not None and state.state == "D" and state.started == one.started
        if state is not None and state.state not in ("Z", "X"):
            return state.started == one.started
        return not group_is_gone(one.pid, self.proc)

    def _save(self) -> None:
        records = (child.record for child in self._running.values())
        save(self.folder / RECORDS, [*self.leftovers.values(), *records])

    @staticmethod
    def _remove(files: Iterable[Path]) -> None:
        for path in files:
            with suppress(OSError):
                path.unlink()


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


def _popen(
    argv: Sequence[str], files: tuple[Path, Path], environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    with files[0].open("wb") as out, files[1].open("wb") as err:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd="/",
            env={**os.environ, "LC_ALL": "C.UTF-8", **(environment or {})},
            start_new_session=True,
            preexec_fn=_limit_output,
        )


def _limit_output() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST, _LARGEST))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
