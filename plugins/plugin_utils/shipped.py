# SPDX-License-Identifier: GPL-3.0-or-later
"""Code of module_utils that runs on nodes without Ansible, as in a unit at boot: which files that takes."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

_PACKAGE = "ansible_collections.bedplate.cluster.plugins.module_utils"
_HERE = Path(__file__).parents[1] / "module_utils"
LIBRARY = "/usr/local/lib/bedplate/lib"
"""What a node's Python is told as PYTHONPATH."""


def command(module: str) -> str:
    """Return what runs a module of module_utils there: `tuning.apply`."""
    return f"/usr/bin/python3 -m {_PACKAGE}.{module}"


@cache
def files(module: str) -> tuple[tuple[str, str], ...]:
    """Return (path on the node, text) of a module and of all that it imports of ours."""
    texts: dict[str, str] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        if name in texts:
            continue
        texts[name] = (_HERE / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8")
        todo += _imports(texts[name])
    folder = f"{LIBRARY}/{_PACKAGE.replace('.', '/')}"
    return tuple((f"{folder}/{name.replace('.', '/')}.py", texts[name]) for name in sorted(texts))


def _imports(text: str) -> list[str]:
    """Return the modules that a text imports, by their names below module_utils."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(_PACKAGE):
            continue
        base = (node.module or "")[len(_PACKAGE) + 1 :]
        names = [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
        # `from package import module`, or `from module import name`.
        found += [one for one in names if (_HERE / f"{one.replace('.', '/')}.py").exists()] or [base]
    return found
