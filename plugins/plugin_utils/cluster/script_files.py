# SPDX-License-Identifier: GPL-3.0-or-later
"""`slurm.scripts` of the cluster file: the scripts beside it, checked before any machine is touched."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import interpreter

from ..slurm.tables.script_table import by_option, files_beside, script_options
from .schema.fields import Mistakes, Path

_ABSOLUTE = re.compile(r"/[^\s*?\[]+")
# Those that Slurm reads by name, one of each.
_ONE = ("job_submit", "cli_filter")
_NO_INTERPRETER = "{} does not begin with the path of its interpreter. Write #!/bin/sh or the like in its first line."
_FLAWS = {
    interpreter.EMPTY: "{} is empty. Write the script, or remove the entry.",
    interpreter.TEXT: _NO_INTERPRETER,
    interpreter.NO_PATH: _NO_INTERPRETER,
    interpreter.CR_LF: "{0} has a first line that ends in CR LF, so Linux does not find its interpreter. "
    "Remove the carriage returns: sed -i 's/\\r$//' {0}",
    interpreter.ENV_ARGUMENT: "{} has an argument behind env, which reads all of it as one name. "
    "Write `#!/usr/bin/env -S` in its first line, or the path of the interpreter.",
}


def scripts_of(data: Mapping[str, Any] | None, file: str, mistakes: Mistakes) -> dict[str, list[dict[str, str]]]:
    """Return the scripts by kind, in order: `file`, absolute on this machine, or `path`, where a site has it already."""
    found: dict[str, list[dict[str, str]]] = {}
    for kind, entries in ((data or {}).get("scripts") or {}).items():
        path: Path = ("slurm", "scripts", kind)
        named = [(number, entry) for number, entry in enumerate(entries or []) if entry]
        if kind in _ONE and len(named) > 1:
            mistakes.add(path, f"Slurm reads one {files_beside()[kind].file}. Name one file.")
        read = [_entry(kind, entry, file, (*path, number), mistakes) for number, entry in named]
        found[kind] = [entry for entry in read if entry]
    return {kind: entries for kind, entries in found.items() if entries}


def check_scripts(scripts: Mapping[str, Any], options: Mapping[Any, Any], version: str, mistakes: Mistakes) -> None:
    """Note options that `slurm.scripts` sets as well, and names of scripts that no machine could find."""
    for key, value in options.items():
        row = by_option().get(str(key).lower())
        if row is None or value is None:
            continue
        path: Path = ("slurm", "options", key)
        if row.kind in scripts:
            mistakes.add(path, f"slurm.scripts.{row.kind} sets it as well. Remove one of them.")
        words = [str(word).strip() for word in (value if isinstance(value, list) else str(value).split(","))]
        for word in words if row.glob else [str(value).partition(" ")[0]]:
            if word and word.lower() != "none" and not word.startswith("/"):
                _relative(row.option, row.relative, word, version, path, mistakes)
            elif not row.glob and any(sign in word for sign in "*?["):
                mistakes.add(path, f"{word!r} is a pattern. Allowed for {row.option}: an absolute path.")


def _relative(option: str, since: str, word: str, version: str, path: Path, mistakes: Mistakes) -> None:
    if not since:
        mistakes.add(path, f"{word!r} is a relative name. Allowed for {option}: an absolute path.")
    elif version < since:
        mistakes.add(
            path, f"{word!r} is a relative name, which reaches nodes from Slurm {since} on. Use an absolute path."
        )
    elif any(sign in word for sign in "*?["):
        mistakes.add(path, f"{word!r} is a relative pattern, which reaches no node. Use an absolute path.")


def _entry(kind: str, entry: Mapping[str, Any], file: str, path: Path, mistakes: Mistakes) -> dict[str, str]:
    here, there = entry.get("file"), entry.get("path")
    if bool(here) == bool(there):
        mistakes.add(path, "needs either `file`, beside the cluster file, or `path`, absolute on the machines.")
        return {}
    if there:
        if kind not in script_options():
            mistakes.add(path, f"Slurm reads {files_beside()[kind].file} beside slurm.conf alone. Name a `file`.")
        elif not _ABSOLUTE.fullmatch(there):
            mistakes.add(path, f"{there!r} is not allowed. Allowed: an absolute path without blanks and patterns.")
        return {"path": there}
    directory = FilePath(file).absolute().parent
    source = directory / str(here)
    if problem := _problem(kind, source) or _inventory(directory, source):
        mistakes.add(path, f"{here}: {problem}")
        return {}
    return {"file": str(source)}


def _inventory(directory: FilePath, source: FilePath) -> str:
    """Return that Ansible would run a script on this machine as an inventory, or nothing."""
    inside = source.resolve().is_relative_to(directory.resolve()) and source.resolve().relative_to(directory.resolve())
    if not inside or "scripts" in inside.parts[:-1] or not source.stat().st_mode & 0o111:
        return ""
    return (
        f"{source} is executable, and Ansible runs each executable file of a directory of inventories on this machine. "
        "Move it into `scripts/` beside the cluster file, which ansible.cfg leaves out."
    )


def _problem(kind: str, source: FilePath) -> str:
    """Return the mistakes of a script on this machine, or an empty text."""
    try:
        status = source.stat()
        if not stat.S_ISREG(status.st_mode):
            return f"{source} is not a regular file. Name a script."
        content = source.read_bytes()
        content.decode()
    except OSError as error:
        return f"{source} cannot be read: {error.strerror}. Names are relative to the cluster file."
    except UnicodeDecodeError:
        return f"{source} is not text in UTF-8. Install a program on the machines and name its `path`."
    return _FLAWS.get(interpreter.flaw(content), "").format(source) if kind in script_options() else ""
