# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of a cluster: what is installed on which machine, which options name them, and which paths must be there.

A script's path on the machines has the digest of its content: another content is another path, so the old script stays until the
option that names the new one is in force, and an option whose value is in force names a script of exactly this content.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .health_additions import ALWAYS, with_health
from .tables.conf_text import HEADER, text_of
from .tables.script_table import CLIENTS, CONTROLLERS, NODES, ScriptOption, by_option, files_beside, script_options

if TYPE_CHECKING:  # the cluster's groups are made with this module
    from ..cluster import Cluster

DIRECTORY = "/etc/slurm/scripts"


def options(cluster: Cluster) -> dict[str, str]:
    """Return the options of slurm.conf that `slurm.scripts` implies, option -> value."""
    found = {row.option: _paths(cluster, row)[0] for row in _rows(cluster)}
    for kind, beside in files_beside().items():
        if beside.option and cluster.slurm.scripts.get(kind):
            stated = _stated(cluster, beside.option)
            plugins = [name for name in stated.split(",") if name]
            found[beside.option] = ",".join([*plugins, *([] if beside.plugin in plugins else [beside.plugin])])
    return found


def beside(cluster: Cluster) -> dict[str, str]:
    """Return the files of `slurm.scripts` beside slurm.conf, name -> text."""
    return {
        one.file: "".join(_text(entry["file"]) for entry in cluster.slurm.scripts[kind])
        for kind, one in files_beside().items()
        if cluster.slurm.scripts.get(kind)
    }


def files(cluster: Cluster, host: str) -> list[dict[str, str]]:
    """Return the scripts of a machine as entries of bedplate.cluster.files."""
    places = _places(cluster, host)
    return [
        {"path": path, "content": text, "mode": "0755"}
        for row in _rows(cluster)
        if row.where in places
        for path, text in _paths(cluster, row)[1].items()
    ]


def expected(cluster: Cluster, host: str) -> list[dict[str, Any]]:
    """Return the scripts that a machine must be able to run, as module_utils/slurm/conf/script_check.py takes them.

    Of a script that bedplate installs, `path` is the file on this machine, and `first_line` names its interpreter.
    """
    places = _places(cluster, host)
    site = [
        {**_checked(row), "path": path, "glob": row.glob, "by_shell": row.by_shell, "strict_mode": row.strict_mode}
        for row, path in _site_paths(cluster)
        if (CONTROLLERS if not path.startswith("/") else row.where) in places
    ]
    own = [
        {**_checked(row), "path": entry["file"], "glob": False, "first_line": _text(entry["file"]).partition("\n")[0]}
        for row in _rows(cluster)
        if row.where in places
        for entry in with_health(cluster)[row.kind]
        if entry.get("file")
    ]
    return site + own


def node_options(cluster: Cluster) -> dict[str, str]:
    """Return the options whose scripts run on nodes or clients, option -> value."""
    rows = {row.option: row for row in script_options().values() if row.where != CONTROLLERS}
    stated = {row.option: _stated(cluster, row.option) for row in rows.values()}
    return {name: value for name, value in {**stated, **options(cluster)}.items() if name in rows and value}


def stated(cluster: Cluster) -> list[str]:
    """Return the options that name scripts and are set by the cluster file."""
    return [
        row.option for row in by_option().values() if row.kind in with_health(cluster) or _stated(cluster, row.option)
    ]


def hosts(cluster: Cluster) -> list[str]:
    """Return the nodes and login hosts that have a script to be installed or checked before the controllers change."""
    wheres = {row.where for row in _rows(cluster)} | {row.where for row, _path in _site_paths(cluster)}
    found = [node.name for node in cluster.nodes] if wheres & {NODES, CLIENTS} else []
    return list(dict.fromkeys([*found, *(cluster.client_hosts if CLIENTS in wheres else ())]))


def _checked(row: ScriptOption) -> dict[str, Any]:
    return {"option": row.option, "user": row.user, "search": list(row.search)}


def _rows(cluster: Cluster) -> list[ScriptOption]:
    given = with_health(cluster)
    return [row for kind, row in script_options().items() if given.get(kind)]


def _places(cluster: Cluster, host: str) -> set[str]:
    found = {CLIENTS} if host in cluster.client_hosts else set()
    if any(node.name == host for node in cluster.nodes):
        found |= {NODES, CLIENTS}
    if host in cluster.services.controllers:
        found |= {CONTROLLERS, CLIENTS}
    return found


def _stated(cluster: Cluster, option: str) -> str:
    """Return the value of an option in `slurm.options`, written in any case; empty if it is missing."""
    found = [value for name, value in cluster.slurm.options.items() if str(name).lower() == option.lower()]
    return text_of(found[-1]) if found and found[-1] is not None else ""


def _site_paths(cluster: Cluster) -> list[tuple[ScriptOption, str]]:
    """Return the paths that the cluster file names and bedplate does not install, each with its option."""
    found = []
    for row in by_option().values():
        value = _stated(cluster, row.option)
        # Several of one option, and arguments after a program, are both written with blanks or commas.
        words = value.split(",") if row.glob else value.split()[:1]
        found += [(row, word.strip()) for word in words if word.strip() and word.strip().lower() != "none"]
    for row in _rows(cluster):
        found += [(row, entry["path"]) for entry in with_health(cluster)[row.kind] if entry.get("path")]
    return found


def _paths(cluster: Cluster, row: ScriptOption) -> tuple[str, dict[str, str]]:
    """Return the value of an option and the files it needs, path -> text."""
    entries = with_health(cluster)[row.kind]
    texts = {number: _text(entry["file"]) for number, entry in enumerate(entries, 1) if entry.get("file")}
    if len(entries) == 1 and not texts:
        return entries[0]["path"], {}
    named = [entry.get("path") or Path(entry["file"]).name for entry in entries]
    directory = f"{DIRECTORY}/{row.kind}-{_digest(named, texts)}"
    if len(entries) == 1:
        path = f"{directory}/{named[0]}"
        return path, {path: texts[1]}
    paths = [
        entry.get("path") or f"{directory}/{number:02}-{named[number - 1]}" for number, entry in enumerate(entries, 1)
    ]
    installed = {paths[number - 1]: text for number, text in texts.items()}
    runner = f"{directory}/run"
    always = [ALWAYS in entry for entry in entries]
    return runner, {**installed, runner: _lasting_runner(paths, always) if any(always) else _runner(paths)}


def _runner(paths: Sequence[str]) -> str:
    """Return a script that runs others in order and ends with the status of the first that fails."""
    calls = "".join(f'{shlex.quote(path)} "$@" || exit\n' for path in paths)
    return f"#!/bin/sh\n{HEADER}{calls}"


def _lasting_runner(paths: Sequence[str], always: Sequence[bool]) -> str:
    """Return a script as `_runner`, in which some scripts run after a failure, too, and do not change the status."""
    calls = [
        f'{shlex.quote(path)} "$@"\n' if lasts else f'[ "$status" != 0 ] || {shlex.quote(path)} "$@" || status=$?\n'
        for path, lasts in zip(paths, always, strict=True)
    ]
    return f'#!/bin/sh\n{HEADER}status=0\n{"".join(calls)}exit "$status"\n'


def _digest(named: Sequence[str], texts: Mapping[int, str]) -> str:
    parts = [*named, *(f"{number}:{text}" for number, text in texts.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")
