# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the programs that a build needs, and name what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..common.command import find, run


class BuildError(Exception):
    """A build that failed. The text has the command, its exit status and its last lines."""


def need(packages: Mapping[str, str]) -> None:
    """Raise BuildError if a program is missing. `packages` is program -> the Debian package that has it."""
    missing = [package for program, package in packages.items() if find(program) is None]
    if missing:
        raise BuildError(f"Missing on this machine: {', '.join(sorted(set(missing)))}. Install the packages by apt.")


def call(argv: Sequence[str], seconds: float = 300.0, environment: Mapping[str, str | None] | None = None) -> str:
    """Run a program and return its output. Raises BuildError if it fails or needs longer than `seconds`."""
    done = run(argv, seconds, environment=environment)
    if done.code != 0:
        raise BuildError(
            f"{' '.join(argv)}: {'no end' if done.code is None else f'exit status {done.code}'}\n{done.text}"
        )
    return done.stdout
