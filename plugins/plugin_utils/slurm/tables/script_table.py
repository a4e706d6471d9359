# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's options that name a script: where it runs, and how the option may name it. The table is script_options.json."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

NODES, CONTROLLERS, CLIENTS = "nodes", "controllers", "clients"
# Where glibc looks without PATH, and the PATH that systemd gives to a daemon.
_WITHOUT_PATH = ("/bin", "/usr/bin")
_OF_SYSTEMD = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")


@dataclass(frozen=True)
class ScriptOption:
    """One option of slurm.conf that names a script, and its kind in `slurm.scripts`.

    `where`: nodes, controllers, or clients (wherever srun is called: nodes, login hosts, controllers). `glob`: the value may be a
    pattern. `relative`: the release from which a relative name, beside slurm.conf on the controllers, reaches the nodes; empty: never.
    `user`: who runs it: root, slurm, or job (the user of the job, or of srun). `bare`: Slurm runs it without PATH in its environment
    (docs/html/prolog_epilog of Slurm, and its execve calls). `by_shell`: Slurm runs it by system(3), which takes text without `#!`.
    `strict_mode`: slurmctld refuses it if group or others may write it.
    """

    kind: str
    option: str
    where: str
    glob: bool = False
    relative: str = ""
    user: str = "root"
    bare: bool = False
    by_shell: bool = False
    strict_mode: bool = False

    @property
    def search(self) -> tuple[str, ...]:
        """Return the directories in which env(1) looks for a name; empty where the user's own PATH counts."""
        if self.user == "job":
            return ()
        return _WITHOUT_PATH if self.bare else _OF_SYSTEMD


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
