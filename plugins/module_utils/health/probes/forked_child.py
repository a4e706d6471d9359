# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a function in a forked child: without a new Python, a probe costs a tenth. Only a process with one thread may fork so."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1)


class ForkedChild:
    """Hold a forked child, with the members of Popen that ProbeChildren uses."""

    def __init__(self, pid: int) -> None:
        """Hold a child by its pid."""
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, the negative signal that ended the child, or None while it runs. Never blocks."""
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                self.returncode = 1  # it was collected elsewhere, so its end is not known to be good
                return self.returncode
            if pid:
                self.returncode = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self.returncode


def fork(function: Callable[[], None], files: tuple[Path, Path], prepare: Callable[[], None]) -> ForkedChild:
    """Run a function in a child with its own session, its output in two files, and no other open file. OSError: it cannot start."""
    with files[0].open("wb") as out, files[1].open("wb") as err:
        pid = os.fork()
        if pid:
            return ForkedChild(pid)
        code = 1
        try:
            _become_child(out.fileno(), err.fileno())
            prepare()
            function()
            sys.stdout.flush()
            code = 0
        except BaseException:
            with suppress(BaseException):
                os.write(2, traceback.format_exc().encode("utf-8", "replace"))
        finally:
            # Neither handlers at exit nor buffers of the parent may run here.
            os._exit(code)


def _become_child(out: int, err: int) -> None:
    os.setsid()
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    empty = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((empty, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd")), default=2) + 1)  # noqa: PTH208 - numbers
    os.chdir("/")
    # The parent's objects may have text in their buffers.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
