# SPDX-License-Identifier: GPL-3.0-or-later
"""Run programs whose input and output are pipes of this process: a dump goes through it to gpg, and no disk has it in plain."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Optional

from ...common.command import SEARCH_PATH, Outcome

_CHUNK = 1 << 16  # bytes; as much as a pipe holds
_GRACE = 10.0  # seconds
File = Optional[IO[bytes]]


class PipeError(Exception):
    """A program cannot be started, failed, or did not end in time; the text is complete."""


class Program:
    """A program in a separate session. `source` and `target` are its input and output; without one, this process writes or reads."""

    def __init__(
        self,
        argv: Sequence[str],
        seconds: float,
        source: File = None,
        target: File = None,
        secret: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it. It is killed after `seconds`. The text {secret} in `argv` becomes the number of a descriptor with `secret`."""
        self._end = time.monotonic() + seconds
        self._seconds = seconds
        self._name = argv[0]
        # Messages may be long, and one with a session key must not be on a disk.
        self._messages = os.memfd_create("messages", os.MFD_CLOEXEC)
        passed = [_memory(secret)] if secret else []
        try:
            self._process = subprocess.Popen(
                [one.replace("{secret}", str(passed[0])) if passed else one for one in argv],
                stdin=source or subprocess.PIPE,
                stdout=target or subprocess.PIPE,
                stderr=self._messages,
                bufsize=0,
                env={**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C.UTF-8", **(environment or {})},
                cwd="/",
                start_new_session=True,
                pass_fds=passed,
            )
        except (OSError, subprocess.SubprocessError) as error:
            os.close(self._messages)
            raise PipeError(f"{argv[0]}: {getattr(error, 'strerror', '') or error}") from error
        finally:
            for one in passed:
                os.close(one)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                os.set_blocking(pipe.fileno(), False)

    def write(self, data: bytes) -> int:
        """Give it all of this input. Raises PipeError if it ends before, or does not read in time."""
        pipe = self._process.stdin
        if pipe is None:
            raise PipeError(f"{self._name} has no input")
        rest = memoryview(data)
        while rest:
            self._wait(pipe, selectors.EVENT_WRITE)
            try:
                rest = rest[os.write(pipe.fileno(), rest[:_CHUNK]) :]
            except BrokenPipeError:
                # Its message says more.
                raise PipeError(self.finish().error_line) from None
        return len(data)

    def chunks(self) -> Iterator[bytes]:
        """Yield its output until it closes it."""
        pipe = self._process.stdout
        if pipe is None:
            return
        while True:
            self._wait(pipe, selectors.EVENT_READ)
            data = os.read(pipe.fileno(), _CHUNK)
            if not data:
                return
            yield data

    def finish(self) -> Outcome:
        """Close its input, wait for its end, and return it; without its output."""
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            code: int | None = self._process.wait(max(0.1, self._end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            code = None
        messages = self.messages()
        self._close()
        late = "" if code is not None else f"\nstopped after {self._seconds:g} s"
        return Outcome(code, "", f"{messages}{late}".strip() or (f"{self._name} ended with {code}" if code else ""))

    def succeed(self) -> str:
        """Wait for its end and return its messages. Raises PipeError if it failed."""
        done = self.finish()
        if done.code != 0:
            raise PipeError(f"{self._name}: {done.error_line}")
        return done.stderr

    def messages(self) -> str:
        """Return what it wrote to its standard error so far."""
        if self._messages < 0:
            return ""
        size = os.fstat(self._messages).st_size
        return os.pread(self._messages, size, 0).decode("utf-8", "replace").strip()

    def kill(self) -> None:
        """End it and its children; a program that no signal ends is abandoned."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)

    def abandon(self) -> None:
        """Kill it if it runs, and close its pipes: the work that it was for has failed."""
        if self._process.poll() is None:
            self.kill()
        self._close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_error: object) -> None:
        self.abandon()

    def _wait(self, pipe: IO[bytes], event: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if not selector.select(max(0.0, self._end - time.monotonic())):
                self.kill()
                raise PipeError(f"{self._name}: stopped after {self._seconds:g} s")

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(OSError):
                    pipe.close()
        if self._messages >= 0:
            os.close(self._messages)
            self._messages = -1


def _memory(data: bytes) -> int:
    """Return a descriptor from which this data is read; it is in no file and in no argument."""
    descriptor = os.memfd_create("secret", os.MFD_CLOEXEC)
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def private_folder() -> Path:
    """Return a folder in memory for a temporary folder that only this user can read."""
    for one in (Path(f"/run/user/{os.geteuid()}"), Path("/run"), Path("/dev/shm")):
        if one.is_dir() and os.access(one, os.W_OK):
            return one
    return Path("/tmp")
