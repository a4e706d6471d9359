# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files below a root without leaving it, and ask what may never answer without waiting for it."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import SEARCH_PATH

_LINKS = 40  # as many as the kernel follows
_POLL, _GRACE = 0.02, 0.5  # seconds
_PATIENCE = 30.0


@dataclass(frozen=True)
class Outcome:
    """How a command ended. `code` is None when it did not end in time."""

    code: int | None
    stdout: str
    stderr: str


Runner = Callable[[Sequence[str]], Outcome]
"""Runs a command; the tests have one that answers with what was recorded."""


@dataclass
class _Started:
    """A command under way, and where its output goes."""

    process: subprocess.Popen[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


class Root:
    """The tree of a machine below a directory. All that could not be read is in `problems`, one text each."""

    def __init__(self, top: str) -> None:
        self.top = Path(top)
        self.problems: list[str] = []

    def find(self, path: str) -> Path:
        """Return where a path of the machine is here. An absolute link means the machine's root, and `..` ends there."""
        todo, at, links = [part for part in reversed(path.split("/")) if part], self.top, 0
        while todo:
            part = todo.pop()
            if part == "..":
                at = at.parent if at != self.top else at
            elif part != ".":
                try:
                    target = os.readlink(at / part)  # noqa: PTH115 - Path.readlink came with 3.9, and drops a final dot
                except OSError:
                    at = at / part
                    continue
                links += 1
                if links > _LINKS:
                    return at / part
                at = self.top if target.startswith("/") else at
                todo += [part for part in reversed(target.split("/")) if part]
        return at

    def name(self, path: Path) -> str:
        """Return the path that a file has on the machine."""
        return f"/{path.relative_to(self.top)}"

    def exists(self, path: str) -> bool:
        """Tell whether a path is there, a dangling link is not."""
        return self.find(path).exists()

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none where there is no directory."""
        try:
            return sorted(os.listdir(self.find(path)))  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            self.problem(path, error)
            return []

    def raw(self, path: str, *, needed: bool = True) -> bytes | None:
        """Return what is in a file; None when it cannot be read, and a problem unless it may be missing and is."""
        try:
            return self.find(path).read_bytes()
        except FileNotFoundError as error:
            if needed:
                self.problem(path, error)
        except OSError as error:
            self.problem(path, error)
        return None

    def text(self, path: str, *, needed: bool = True) -> str | None:
        """Return the text of a file without the space around it; None as with `raw`."""
        data = self.raw(path, needed=needed)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def lines(self, path: str, *, needed: bool = False) -> list[str]:
        """Return the lines of a text file as they are, so that their numbers are those of the file; none when it cannot be read."""
        data = self.raw(path, needed=needed)
        return [] if data is None else data.decode("utf-8", "replace").splitlines()

    def link(self, path: str) -> str | None:
        """Return the last name of what a link points to; None when there is no link."""
        try:
            return os.readlink(self.find(str(Path(path).parent)) / Path(path).name).rstrip("/").rsplit("/", 1)[-1]  # noqa: PTH115
        except FileNotFoundError:
            return None
        except OSError as error:
            self.problem(path, error)
            return None

    def texts(self, paths: list[str], seconds: float) -> tuple[dict[str, str], list[str]]:
        """Return the texts of files of a driver that may hang, and which did not answer within so many seconds.

        A read that hangs in the kernel cannot be ended from inside this process, so that others read.
        """
        outcomes = run_detached([["cat", "--", str(self.find(path))] for path in paths], seconds)
        found, hung = {}, []
        for path, outcome in zip(paths, outcomes):
            if outcome.code == 0:
                found[path] = outcome.stdout
            elif outcome.code is None:
                hung.append(path)
                self.problems.append(f"/{path}: the driver did not answer a read within {seconds:g} s; it hangs")
            else:
                said = outcome.stderr.strip().rsplit(": ", 1)[-1] or f"cat ended with {outcome.code}"
                self.problems.append(f"/{path}: {said}")
        return found, hung

    def problem(self, path: str, error: OSError) -> None:
        """Note why a path could not be read."""
        self.problems.append(f"/{path}: {error.strerror or error}")


def run(command: Sequence[str]) -> Outcome:
    """Run a command; one that hangs in a driver is left behind."""
    return run_detached([list(command)], _PATIENCE)[0]


def said(outcome: Outcome) -> str:
    """Return what a command that failed said, on one line."""
    if outcome.code is None:
        return f"no answer within {_PATIENCE:g} s"
    text = " ".join((outcome.stderr or outcome.stdout).split())
    return text or f"ended with {outcome.code}"


def run_detached(commands: list[list[str]], seconds: float) -> list[Outcome]:
    """Run commands side by side, and leave those behind that do not end within so many seconds altogether.

    A process in uninterruptible sleep takes no signal, and whoever waits for it hangs as well (so does timeout(1)).
    Each has its own session and holds nothing of this process: neither the caller nor SSH waits for one left behind.
    """
    started = [_start(command) for command in commands]
    end = time.monotonic() + seconds
    _poll(started, end)
    for one in started:
        if isinstance(one, _Started) and one.process.poll() is None:
            with suppress(OSError):
                os.killpg(one.process.pid, signal.SIGKILL)
    killed = {id(one) for one in started if isinstance(one, _Started) and one.process.returncode is None}
    if killed:
        _poll(started, time.monotonic() + _GRACE)
    return [one if isinstance(one, Outcome) else _outcome(one, id(one) in killed) for one in started]


def _start(command: list[str]) -> _Started | Outcome:
    environment = {**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C"}
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - the process outlives this function
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=environment, cwd="/", start_new_session=True
        )
    except OSError as error:
        out.close()
        err.close()
        return Outcome(127, "", f"{command[0]}: {error.strerror}")
    return _Started(process, out, err)


def _poll(started: list[_Started | Outcome], end: float) -> None:
    """Look until all have ended, or it is time."""
    running = [one.process for one in started if isinstance(one, _Started)]
    while True:
        running = [process for process in running if process.poll() is None]
        if not running or time.monotonic() >= end:
            return
        time.sleep(_POLL)


def _outcome(one: _Started, killed: bool) -> Outcome:
    texts = []
    for stream in (one.stdout, one.stderr):
        stream.seek(0)
        texts.append(stream.read().decode("utf-8", "replace"))
        stream.close()
    if one.process.returncode is None:
        one.process.returncode = -signal.SIGKILL  # nobody is to ask again for one that is left behind
    return Outcome(None if killed else one.process.returncode, *texts)
