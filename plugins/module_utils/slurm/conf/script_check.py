# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that this machine can run the scripts that Slurm's options name.

Sources: execve(2) and env(1) for the first line, slurm.conf(5) for the user that each option runs as, and slurmctld's power saving
(src/slurmctld/power_save.c, Slurm 22.05 to 26.05), which switches itself off if group or others may write its programs.
"""

from __future__ import annotations

import glob
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...common.finding import Finding
from . import interpreter
from .conf_reader import Conf

_EXECUTABLE = "an executable regular file"
_INSTALL = "Install it on that host, or add it to slurm.scripts"
_INTERPRETER = "Install the interpreter there, or correct the first line of the script"
_NOT_FOUND = "no such file"

# The finding and its remedy.
Problem = tuple[str, str]

_FLAWS: dict[str, Problem] = {
    interpreter.EMPTY: ("an empty file", "Write the script, or remove the option"),
    interpreter.TEXT: ("text without #! in its first line", "Write #!/bin/sh or the like in its first line"),
    interpreter.CR_LF: (
        "a first line that ends in CR LF, so that its interpreter is not found",
        "Remove the carriage returns: sed -i 's/\\r$//'",
    ),
    interpreter.NO_PATH: ("a first line without the path of an interpreter", "Write #!/bin/sh or the like there"),
    interpreter.ENV_ARGUMENT: (
        "a first line in which env has an argument but not -S",
        "Write `#!/usr/bin/env -S` there, or the path of the interpreter",
    ),
}


def findings_of(scripts: Iterable[Mapping[str, Any]], directory: Path) -> list[Finding]:
    """Return a finding for each script that cannot be run here; relative names are in `directory`, Slurm's own.

    A script: option, path, glob; user (root, slurm, job), search (directories of env), by_shell, strict_mode as in plugin_utils/slurm/
    script_table.py; first_line if bedplate installs the script, so that only its interpreter is checked.
    """
    return [finding for script in scripts for finding in _findings(script, directory)]


def in_force(conf: Conf, options: Sequence[str]) -> dict[str, str]:
    """Return the options that a slurm.conf sets, option -> value."""
    values = {name: conf.option(name) for name in options}
    return {name: value for name, value in values.items() if value is not None}


def _findings(script: Mapping[str, Any], directory: Path) -> Iterator[Finding]:
    if "first_line" in script:
        problem = _lacks(script["first_line"].encode(), script)
        if problem:
            yield Finding("slurm-script", script["option"], f"{script['path']} to have its interpreter", *problem)
        return
    path = str(directory / script["path"])
    paths = _matches(path) if script["glob"] and glob.has_magic(path) else [path]
    # Slurm runs all matching files; if none matches, slurmd fails every job.
    problems = [problem for each in paths if (problem := _problem(each, script))] if paths else [(_NOT_FOUND, _INSTALL)]
    for found, remedy in dict.fromkeys(problems):
        yield Finding("slurm-script", script["option"], f"{path} to be {_EXECUTABLE}", found, remedy)


def _matches(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))  # noqa: PTH207 - Slurm's own call; pathlib takes no absolute pattern


def _problem(path: str, script: Mapping[str, Any]) -> Problem | None:
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file", _INSTALL
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        if not status.st_mode & 0o111:
            return f"not executable (mode {mode})", f"chmod 0755 {path}"
        with Path(path).open("rb") as stream:
            start = stream.read(interpreter.START)
    except OSError as error:
        return (error.strerror or str(error)).lower(), _INSTALL
    flaw = interpreter.flaw(start)
    if flaw and not (flaw == interpreter.TEXT and script.get("by_shell")):
        return _FLAWS[flaw]
    return _lacks(start, script) or _permissions(Path(path), status.st_mode, start, script)


def _lacks(start: bytes, script: Mapping[str, Any]) -> Problem | None:
    name = interpreter.missing(start, script.get("search", ()))
    return (f"without its interpreter {name}", _INTERPRETER) if name else None


def _permissions(path: Path, mode: int, start: bytes, script: Mapping[str, Any]) -> Problem | None:
    """Return the reason why Slurm does not run a script that root may run."""
    if script.get("strict_mode") and mode & 0o022:
        return (
            f"writable by group or others (mode {stat.S_IMODE(mode):04o}): slurmctld does not run it",
            f"chmod go-w {path}",
        )
    if script.get("user", "root") == "root":
        return None
    # Group bits are also the mask of an access list: without them only the owner has access.
    needed = [(path, bit) for bit in ((0o011, 0o044) if start.startswith(b"#!") else (0o011,))]
    needed += [(folder, 0o011) for folder in path.resolve().parents]
    for one, bits in needed:
        status = one.stat()
        if status.st_uid == 0 and not status.st_mode & bits:
            who = "the job's user" if script["user"] == "job" else f"user {script['user']}"
            return (
                f"{one} accessible to root only (mode {stat.S_IMODE(status.st_mode):04o}), but {script['option']} runs as {who}",
                f"chmod a+rx {one}" if one == path else "Move the script to a directory that all users may enter",
            )
    return None
