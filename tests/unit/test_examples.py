"""Examples in docstrings (`>>>`) give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = "ansible_collections.bedplate.cluster.plugins"
FOLDERS = {f"{PACKAGE}.{name}": ROOT / "plugins" / name for name in ("module_utils", "plugin_utils")} | {
    name: ROOT / name for name in ("lab", "tools")
}
MODULES = sorted(
    ".".join((package, *path.relative_to(folder).with_suffix("").parts))
    for package, folder in FOLDERS.items()
    for path in folder.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
