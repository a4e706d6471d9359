# SPDX-License-Identifier: GPL-3.0-or-later
"""Running commands, saying what happens, and failing in words."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_STARTED = time.monotonic()


class LabError(Exception):
    """Error or instruction for the operator; the text is the whole message."""


def say(what: str, text: str) -> None:
    """Print one line of progress: seconds since the start, the subject, what happened."""
    print(f"[{time.monotonic() - _STARTED:5.0f}s] {what:<10} {text}", flush=True)


def capture(
    command: Sequence[str], *, stdin: str | bytes | None = None, why: str = "", timeout: float = 120, check: bool = True
) -> str:
    """Run a command quietly and return its output; a failure names the command, its reason and its last words."""
    data = stdin.encode() if isinstance(stdin, str) else stdin or b""
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=timeout, check=False)
    except FileNotFoundError:
        raise LabError(f"{command[0]} is not installed. `python3 -m lab up` installs it by apt.") from None
    except subprocess.TimeoutExpired:
        raise LabError(f"no answer within {timeout:.0f} s from: {shlex.join(command)}") from None
    if check and done.returncode:
        raise LabError(_complaint(command, done.returncode, done.stdout + done.stderr, why))
    return done.stdout.decode(errors="replace")


def succeeds(command: Sequence[str], timeout: float = 60) -> bool:
    """Return True if a command exits with 0; its output is discarded."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def stream(command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, quiet: bool = False) -> int:
    """Run a command with its output on the terminal (unless quiet) and in a log file; return its exit status."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                sink.write(line)
                sink.flush()
                if not quiet:
                    sys.stdout.buffer.write(line)
                    sys.stdout.flush()
        except KeyboardInterrupt:
            process.terminate()
            process.wait(timeout=30)
            raise
        return process.wait()


def _complaint(command: Sequence[str], status: int, output: bytes, why: str) -> str:
    tail = output.decode(errors="replace").strip().splitlines()[-15:]
    head = f"{why}\n" if why else ""
    return f"{head}command: {shlex.join(command)}\nexit status {status}:\n" + "\n".join(f"  {line}" for line in tail)
