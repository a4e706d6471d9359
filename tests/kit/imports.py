# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test file reaches by its imports: whether ansible-core or a mark is among it."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

from tests.kit import ROOT

_COLLECTION = "ansible_collections.bedplate.cluster."
_ANSIBLE = re.compile(r"ansible\b")
_OWN_IMPORT = re.compile(r"^from (tests\.[\w.]+) import", re.MULTILINE)


@functools.cache
def may_have_mark(path: Path, mark: str) -> bool:
    """Return whether a test file, or a file of tests/ that it imports from, names a mark."""
    text = path.read_text(encoding="utf-8")
    imported = (_file_of(name) for name in _OWN_IMPORT.findall(text))
    return any(
        f"mark.{mark}" in one for one in (text, *(file.read_text(encoding="utf-8") for file in imported if file))
    )


def needs_ansible_core(path: Path) -> bool:
    """Return whether a file, its folder's conftest.py or a file of the project that one of both imports uses ansible-core itself.

    No further: what such a file imports in turn has tests that import it (tests/unit/kit/test_imports.py). A file that cannot be read as
    Python needs ansible-core: what is not known is tested.
    """
    fixtures = path.with_name("conftest.py")
    read = [_read(one) for one in (path, fixtures) if one == path or one.is_file()]
    return any(uses or any(_read(one)[0] for one in imported) for uses, imported in read)


def users_of_ansible_core(folder: Path) -> set[Path]:
    """Return the files below a folder that import or run ansible-core themselves."""
    return {path for path in folder.rglob("*.py") if _read(path)[0]}


def imports_of(path: Path) -> tuple[Path, ...]:
    """Return the project's files that a file imports."""
    return _read(path)[1]


@functools.cache
def _read(path: Path) -> tuple[bool, tuple[Path, ...]]:
    """Return whether a file itself uses ansible-core, and the project's files that it imports."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return True, ()
    modules = _modules(tree, path)
    # A command that is run, or a module that is loaded by its name, stands in a string.
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    uses = any(_ANSIBLE.match(text) for text in [*modules, *strings])
    return uses, tuple(file for file in map(_file_of, modules) if file)


def _modules(tree: ast.AST, path: Path) -> list[str]:
    """Return the full names of what is imported; `from x import y` may mean a module x.y."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = path.relative_to(ROOT).parts[: -node.level]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def _file_of(name: str) -> Path | None:
    """Return the project's file of a module, if it is the project's."""
    where = ROOT / name.removeprefix(_COLLECTION).replace(".", "/")
    return next((one for one in (where.with_suffix(".py"), where / "__init__.py") if one.is_file()), None)
