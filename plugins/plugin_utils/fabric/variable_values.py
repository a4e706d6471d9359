# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the variables of the fabric's playbooks, before a plan, a command or a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..common.run_variables import SWITCH
from .compare.comparison import FATAL
from .port_names.port_dialects import dialects
from .topology.slurm_topology import TopologyError, release

DIRECTORY = "fabric_directory"
# Value of fabric_adopt.
UPDATE = "update"

# The directory beside a cluster file that ansible.cfg leaves out of the inventory.
USUAL = "fabric"


def directory_of(path: str, directory: str) -> str:
    """Return where the files of the fabric of a cluster file go, as an absolute path; ValueError says where they may not.

    >>> directory_of("/site/a.bedplate.yml", "")
    '/site/fabric'
    """
    inventory = Path(path).expanduser().resolve().parent
    usual = inventory / USUAL
    found = (Path(directory).expanduser() if directory else usual).resolve()
    if found.is_relative_to(inventory) and not found.is_relative_to(usual):
        raise ValueError(
            f"{directory} is inside the directory of the inventory, {inventory}: Ansible would read the files of the fabric as "
            f"inventory, and no later run would begin. Allowed: a directory elsewhere, or {usual}, which ansible.cfg leaves out and "
            "which is the default"
        )
    return str(found)


def mistakes(variables: Mapping[str, Any], cluster_file: str) -> list[str]:
    """Return a line for each `fabric_...` variable whose value no playbook takes; null counts as missing."""
    found = []
    try:
        directory_of(cluster_file, str(variables.get(DIRECTORY) or ""))
    except ValueError as error:
        found.append(f"this run: {DIRECTORY}: {error}")
    for name, judge in _JUDGES.items():
        value = variables.get(name)
        if value is not None and (why := judge(value)):
            found.append(f"this run: {name}: {why}")
    return found


def _version(value: object) -> str:
    try:
        release(str(value))
    except TopologyError as error:
        return str(error)
    return ""


def _fail_on(value: object) -> str:
    return "" if str(value) in FATAL else f"{value!r} cannot end a run; allowed: {', '.join(FATAL)}"


def _adopt(value: object) -> str:
    return (
        ""
        if str(value) in ("", UPDATE)
        else f"{value!r} is unknown; allowed: {UPDATE}, which replaces a list that differs"
    )


def _switch(value: object) -> str:
    # Ansible takes any other word as false, and the run would do less than it was started for without a word.
    return "" if SWITCH.takes(value) else f"{value!r} is unknown; allowed: {SWITCH.allowed}"


def _saved(value: object) -> str:
    """Return why files cannot be read: the name of one is empty."""
    for files in value.values() if isinstance(value, Mapping) else [value]:
        names = files.split(",") if isinstance(files, str) else files if isinstance(files, Sequence) else [None]
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            return f"{files!r} has an empty name of a file; allowed: files with commas or as a list, or fabric -> those"
    return ""


def _number(value: object) -> str:
    right = not isinstance(value, bool) and re.fullmatch(r"[1-9][0-9]{0,8}", str(value))
    return "" if right else f"{value!r} is not a number; allowed: 1 or more"


def _dialect(value: object) -> str:
    known = [row.name for row in dialects()]
    return "" if str(value) in known else f"{value!r} is not a way to name ports; allowed: {', '.join(known)}"


def _pattern(value: object) -> str:
    try:
        re.compile(str(value))
    except re.error as error:
        return f"{value!r} is not a regular expression: {error}"
    return ""


_JUDGES: dict[str, Callable[[object], str]] = {
    "fabric_slurm_version": _version,
    "fabric_adopt": _adopt,
    "fabric_fail_on": _fail_on,
    "fabric_record": _switch,
    "fabric_saved": _saved,
    "fabric_topology_partial": _switch,
    "fabric_port_dialect": _dialect,
    "fabric_port_step": _number,
    "fabric_simulation_timeout": _number,
    "fabric_host_pattern": _pattern,
    "fabric_storage_pattern": _pattern,
    "fabric_group_pattern": _pattern,
}
# The value of this one is a fabric of the cluster file.
NAME = "fabric_name"
NAMES = (*_JUDGES, DIRECTORY, NAME)
