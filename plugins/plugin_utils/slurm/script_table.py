# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's options that name a script: where it runs, and how the option may name it. The table is script_options.json."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

NODES, CONTROLLERS, CLIENTS = "nodes", "controllers", "clients"


@dataclass(frozen=True)
class ScriptOption:
    """One option of slurm.conf that names a script, and its kind in `slurm.scripts`.

    `where`: nodes, controllers, or clients (wherever srun is called: nodes, login hosts, controllers). `glob`: the value may be a
    pattern. `relative`: the release from which a relative name, beside slurm.conf on the controllers, reaches the nodes; empty: never.
    """

    kind: str
    option: str
    where: str
    glob: bool = False
    relative: str = ""


@dataclass(frozen=True)
class FileBeside:
    """A file that Slurm finds by its name beside slurm.conf; with the plugin that reads it and the option that names that."""

    kind: str
    file: str
    option: str = ""
    plugin: str = ""


@functools.cache
def _table() -> dict[str, list[dict[str, object]]]:
    data: dict[str, list[dict[str, object]]] = json.loads(
        Path(__file__).with_name("script_options.json").read_text(encoding="utf-8")
    )
    return data


@functools.cache
def script_options() -> dict[str, ScriptOption]:
    """Return the options by kind."""
    return {str(row["kind"]): ScriptOption(**row) for row in _table()["scripts"]}  # type: ignore[arg-type]


@functools.cache
def files_beside() -> dict[str, FileBeside]:
    """Return the files beside slurm.conf by kind."""
    return {str(row["kind"]): FileBeside(**row) for row in _table()["beside"]}  # type: ignore[arg-type]


@functools.cache
def by_option() -> dict[str, ScriptOption]:
    """Return the options by their name in small letters."""
    return {one.option.lower(): one for one in script_options().values()}
