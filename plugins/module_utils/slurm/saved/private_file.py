# SPDX-License-Identifier: GPL-3.0-or-later
"""Let a command write a file that only root can read, or read one: a dump may be larger than the memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ...common import command
from ...common.command import Outcome

Run = Callable[[Sequence[str], float], Outcome]
_TAIL = 4096


def output_to(argv: Sequence[str], path: Path, seconds: float, run: Run = command.run) -> Outcome:
    """Run a command with its output in a file of mode 0600, which replaces the old one if the command succeeds."""
    part = path.with_name(path.name + ".part")
    done = run(["sh", "-c", 'umask 077; target=$1; shift; exec "$@" >"$target"', "sh", str(part), *argv], seconds)
    if done.code != 0:
        with suppress(OSError):
            part.unlink()
        return done
    descriptor = os.open(part, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    part.replace(path)
    return done


def input_from(argv: Sequence[str], path: Path, seconds: float, run: Run = command.run) -> Outcome:
    """Run a command with a file as its input."""
    return run(["sh", "-c", 'source=$1; shift; exec "$@" <"$source"', "sh", str(path), *argv], seconds)


def last_line(path: Path) -> str:
    """Return the last line of a file that is not empty, "" without one."""
    with path.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - _TAIL))
        lines = stream.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
