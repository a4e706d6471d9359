# SPDX-License-Identifier: GPL-3.0-or-later
"""Run commands of this machine with a timeout."""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

# A module that is started over SSH may have a PATH without the sbin directories, where visudo, sshd and nginx are.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin", "/bin"])
NOT_STARTED = 127
"""`Outcome.code` of a command that cannot be started: the exit status that a shell uses."""
_QUICK = 30.0  # seconds
# A command that ends closes its output, and this wakes up the loop. A command that closed its output earlier is polled at intervals of an
# eighth of the time since then, and at most fifty times a second.
_PAUSES, _PART = (0.0005, 0.02), 8
_GRACE = 0.5
_PIPE = 1 << 20  # bytes; one read takes all that a pipe holds


@dataclass(frozen=True)
class Outcome:
    """Describe how a command ended. A command that was stopped has no `code`."""

    code: int | None
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Return the output of both pipes, cut to its end if it is long."""
        return "\n".join(part.strip() for part in (self.stdout, self.stderr) if part.strip())[-4000:]

    @property
    def error_line(self) -> str:
        """Return on one line why the command failed: its last output, or how it ended."""
        if self.code is None:
            return ", ".join(["no answer", *self.stderr.splitlines()[-1:]])
        return " ".join((self.stderr or self.stdout).split()) or f"ended with {self.code}"


Runner = Callable[[Sequence[str]], Outcome]
"""Function that runs a command. Tests use one that returns recorded output."""


@dataclass(eq=False)
class _Started:
    """Hold a running command and its output so far."""

    process: subprocess.Popen[bytes]
    stdout: bytearray = field(default_factory=bytearray)
    stderr: bytearray = field(default_factory=bytearray)

    def pipes(self) -> list[tuple[IO[bytes], bytearray]]:
        """Return each pipe of the command with the buffer that its output is appended to."""
        pairs = ((self.process.stdout, self.stdout), (self.process.stderr, self.stderr))
        return [(pipe, text) for pipe, text in pairs if pipe]


def find(program: str) -> str | None:
    """Return the path of a program of this machine."""
    return shutil.which(program, path=SEARCH_PATH)


def run(
    argv: Sequence[str],
    timeout: float = 120.0,
    *,
    cwd: str | os.PathLike[str] = "/",
    environment: Mapping[str, str | None] | None = None,
    enter: Callable[[], object] | None = None,
) -> Outcome:
    """Run a command without a shell, with LC_ALL=C and an empty standard input. A command that hangs in a driver is abandoned.

    `environment` is added to the environment of this process; None removes a variable. `enter` is called in the new process before the
    command.
    """
    return _finish([_start(argv, cwd, environment, enter)], timeout)[0]


def run_quick(argv: Sequence[str]) -> Outcome:
    """Run a command that needs only a moment, for at most 30 s."""
    return run(argv, _QUICK)


def run_together(commands: Sequence[Sequence[str]], seconds: float) -> list[Outcome]:
    """Run commands in parallel, and stop all that have not ended after `seconds` in total."""
    return _finish((_start(command, "/", None, None) for command in commands), seconds)


class Daemon:
    """Run a daemon for a test, in a separate session, with its output in a file."""

    def __init__(
        self,
        argv: Sequence[str],
        output: Path,
        *,
        cwd: Path,
        environment: Mapping[str, str | None] | None = None,
        enter: Callable[[], object] | None = None,
    ) -> None:
        """Start the program. Raises OSError or SubprocessError if it cannot be started."""
        with output.open("wb") as stream:
            self.process = _popen(argv, stream, subprocess.STDOUT, cwd, environment, enter)

    def __enter__(self) -> Daemon:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the program and its children: SIGTERM, and SIGKILL one second later."""
        for number, patience in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 10.0)):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                return


def _start(
    argv: Sequence[str],
    cwd: str | os.PathLike[str],
    environment: Mapping[str, str | None] | None,
    enter: Callable[[], object] | None,
) -> _Started | Outcome:
    try:
        started = _Started(_popen(argv, subprocess.PIPE, subprocess.PIPE, cwd, environment, enter))
    except (OSError, subprocess.SubprocessError) as error:
        return Outcome(NOT_STARTED, "", f"{argv[0]}: {getattr(error, 'strerror', '') or error}")
    for pipe, _text in started.pipes():
        os.set_blocking(pipe.fileno(), False)
    return started


def _popen(
    argv: Sequence[str],
    out: IO[bytes] | int,
    err: int,
    cwd: str | os.PathLike[str],
    environment: Mapping[str, str | None] | None,
    enter: Callable[[], object] | None,
) -> subprocess.Popen[bytes]:
    own = {"PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8", "SYSTEMD_COLORS": "0", "SYSTEMD_PAGER": ""}
    variables = {**os.environ, **own, **(environment or {})}
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        bufsize=0,
        env={name: value for name, value in variables.items() if value is not None},
        cwd=cwd,
        start_new_session=True,
        preexec_fn=enter,
    )


def _finish(commands: Iterable[_Started | Outcome], seconds: float) -> list[Outcome]:
    """Wait for commands, and abandon all that do not end in time.

    `commands` may be an iterator that starts them one by one. If it fails, the commands that already run are stopped. A process in
    uninterruptible sleep ignores signals, and a process that waits for it hangs as well (timeout(1) does). So each command has its own
    session and no open file of this process: neither the caller nor SSH waits for an abandoned command. Children of a command are not
    waited for either, such as a daemon that keeps its output open.
    """
    begun: list[_Started | Outcome] = []
    started: list[_Started] = []
    try:
        for one in commands:
            begun.append(one)
            started += [one] if isinstance(one, _Started) else []
        stopped = _wait(started, seconds)
    except BaseException:
        _stop(started)
        raise
    _stop(stopped)
    return [one if isinstance(one, Outcome) else _outcome(one, one in stopped, seconds) for one in begun]


def _wait(running: Sequence[_Started], seconds: float) -> list[_Started]:
    """Read until all commands have ended or the time is over. Return the commands that have not ended."""
    start = last = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for one in running:
            for pipe, text in one.pipes():
                selector.register(pipe, selectors.EVENT_READ, text)
        while True:
            running = [one for one in running if one.process.poll() is None]
            now = time.monotonic()
            if not running or now - start >= seconds:
                return list(running)
            pause = min(max((now - last) / _PART, _PAUSES[0]), _PAUSES[1], seconds - (now - start))
            for key, _events in selector.select(pause):
                last = time.monotonic()
                if not _read(key.fd, key.data):
                    selector.unregister(key.fileobj)


def _read(pipe: int, text: bytearray) -> bool:
    """Append the available output of a pipe. Return whether more output may follow."""
    try:
        data = os.read(pipe, _PIPE)
    except BlockingIOError:
        return True
    text += data
    return bool(data)


def _stop(commands: Sequence[_Started]) -> None:
    """Kill running commands. A command that no signal ends is abandoned."""
    running = [one for one in commands if one.process.poll() is None]
    for one in running:
        with suppress(OSError):
            os.killpg(one.process.pid, signal.SIGKILL)
    for one in _wait(running, _GRACE):
        one.process.returncode = -signal.SIGKILL  # an abandoned command must not be polled again


def _outcome(one: _Started, stopped: bool, seconds: float) -> Outcome:
    for pipe, text in one.pipes():
        _read(pipe.fileno(), text)
        pipe.close()
    stdout, stderr = one.stdout.decode("utf-8", "replace"), one.stderr.decode("utf-8", "replace")
    if stopped:
        return Outcome(None, stdout, "\n".join([*stderr.splitlines(), f"stopped after {round(seconds, 1):g} s"]))
    return Outcome(one.process.returncode, stdout, stderr)
