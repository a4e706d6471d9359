# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the scripts which Slurm's options name are executable files on this machine."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf_reader import Conf

_EXECUTABLE = "an executable regular file"


def findings_of(scripts: Iterable[Mapping[str, Any]], directory: Path) -> list[Finding]:
    """Return a finding for each script that cannot be run here; relative names lie in `directory`, Slurm's own."""
    found = []
    for one in scripts:
        path = str(directory / one["path"])
        paths = _matches(path) if one["glob"] and glob.has_magic(path) else [path]
        # Slurm runs what matches; where nothing does, slurmd fails every job.
        problems = [problem for each in paths if (problem := _problem(each))] if paths else ["no such file"]
        found += [
            Finding(kind="slurm-script", where=one["option"], expected=f"{path} to be {_EXECUTABLE}", found=problem)
            for problem in dict.fromkeys(problems)
        ]
    return found


def in_force(conf: Conf, options: Sequence[str]) -> dict[str, str]:
    """Return the options that a slurm.conf sets, option -> value."""
    values = {name: conf.option(name) for name in options}
    return {name: value for name, value in values.items() if value is not None}


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))  # noqa: PTH207 - Slurm's own call; pathlib takes no absolute pattern


def _problem(path: str) -> str:
    try:
        status = Path(path).stat()
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    if not status.st_mode & 0o111:
        return f"not executable (mode {stat.S_IMODE(status.st_mode):04o})"
    try:
        with Path(path).open("rb") as stream:
            first = stream.readline(256)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    if first.startswith(b"#!"):
        words = first[2:].decode(errors="replace").split()
        if not words or not os.access(words[0], os.X_OK):
            return f"without its interpreter {words[0] if words else '(none)'}"
    return ""
