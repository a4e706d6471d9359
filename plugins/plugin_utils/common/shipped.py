# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the files of programs of module_utils that run on nodes without Ansible, as in a unit at boot."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath

_PACKAGE = "ansible_collections.bedplate.cluster.plugins.module_utils"
_HERE = Path(__file__).parents[2] / "module_utils"
_LIBRARIES = "/usr/local/lib/bedplate"
# Rooms whose programs run on different machines, by different roles: each room below has its own library.
_SPLIT = ("health",)
# To parse each module takes twenty times as long, in every run.
_IMPORT = re.compile(r"^[ \t]*from (\.*)([\w.]*) import (\([^)]*\)|[^\n]+)", re.MULTILINE)
_IMPORTED_NAME = re.compile(r"(\w+)(?: as \w+)?")
# A module that reads a table beside it has the name of the file as a text.
_TABLE = re.compile(r"\"([a-z0-9_]+\.json)\"")


def library(module: str) -> str:
    """Return the PYTHONPATH of a program on a node.

    Each has its own: roles are updated one after the other, and a file that another program still needs, as `gpu/devices.py` of an older
    release, would hide the folder `gpu/devices` of this one.

    >>> library("tuning.apply_tuning")
    '/usr/local/lib/bedplate/tuning'
    >>> library("health.agent.node_health")
    '/usr/local/lib/bedplate/health_agent'
    """
    room, below = module.split(".")[:2]
    return f"{_LIBRARIES}/{room}_{below}" if room in _SPLIT else f"{_LIBRARIES}/{room}"


def command(module: str) -> str:
    """Return what runs a module of module_utils there: `tuning.apply_tuning`."""
    return f"/usr/bin/python3 -m {_PACKAGE}.{module}"


@cache
def files(module: str) -> tuple[tuple[str, str], ...]:
    """Return (path on the node, text) of a module, of all modules of module_utils that it imports, directly or not, and of their tables."""
    texts: dict[str, str] = {}
    tables: dict[str, str] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        if name in texts:
            continue
        texts[name] = _path(name).read_text(encoding="utf-8")
        todo += imported(name, texts[name])
        tables |= _tables(name, texts[name])
    folder = f"{library(module)}/{_PACKAGE.replace('.', '/')}"
    modules = {f"{name.replace('.', '/')}.py": texts[name] for name in sorted(texts)}
    return tuple((f"{folder}/{name}", text) for name, text in {**modules, **tables}.items())


def entries(module: str) -> list[dict[str, str]]:
    """Return the files of a program as entries of bedplate.cluster.files, with their folders.

    A folder that somebody else may write to is somebody else's code, which root runs at boot: its owner and mode are stated.
    """
    top = library(module)
    folders = {str(parent) for path, _text in files(module) for parent in PurePosixPath(path).parents}
    below = sorted(folder for folder in folders if f"{folder}/".startswith(f"{top}/"))
    return [
        *({"path": folder, "state": "directory", "owner": "root", "group": "root", "mode": "0755"} for folder in below),
        *({"path": path, "content": text} for path, text in files(module)),
    ]


def imported(module: str, text: str) -> list[str]:
    """Return the modules that the text of a module imports, by their names below module_utils."""
    package = module.split(".")[:-1]
    found = []
    for dots, of, listed in _IMPORT.findall(text):
        base = of.split(".") if of else []
        if dots:
            base = [*package[: len(package) - len(dots) + 1], *base]
        elif of.startswith(_PACKAGE):
            base = base[_PACKAGE.count(".") + 1 :]
        else:
            continue
        names = [".".join([*base, name]) for name in _IMPORTED_NAME.findall(re.sub("#.*", "", listed))]
        # `from package import module`, or `from module import name`.
        found += [one for one in names if _path(one).exists()] or [".".join(base)]
    return found


def _tables(module: str, text: str) -> dict[str, str]:
    """Return the tables that a module reads: the path below module_utils -> the text."""
    folder = _path(module).parent
    paths = [folder / name for name in _TABLE.findall(text)]
    return {str(path.relative_to(_HERE)): path.read_text(encoding="utf-8") for path in paths if path.exists()}


def _path(module: str) -> Path:
    return _HERE / f"{module.replace('.', '/')}.py"
