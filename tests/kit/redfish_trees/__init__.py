# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource trees of BMCs on disk, and a reader of them.

A tree of this folder is VENDOR/tree.json: {path: resource}. SOURCE.md beside it has what it was written from. Foreign trees are read in two
further forms: DMTF's mockups (`.../index.json` below a folder for `/redfish/v1`) and flat captures (`_redfish_v1_Systems_1.json`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
VENDORS = tuple(sorted(path.parent.name for path in FOLDER.glob("*/tree.json")))
Tree = dict[str, dict[str, Any]]


def tree_of(vendor: str) -> Tree:
    """Return a copy of a tree of this folder, for a test to change."""
    found: Tree = json.loads((FOLDER / vendor / "tree.json").read_text(encoding="utf-8"))
    return found


def foreign_tree(folder: Path) -> Tree:
    """Return the resources of a mockup or of a flat capture, by the path that each states for itself."""
    files = [*folder.rglob("index.json")] or [*folder.glob("_redfish_v1*.json")]
    found: Tree = {}
    for file in sorted(files):
        resource = json.loads(file.read_text(encoding="utf-8"))
        if isinstance(resource, dict):
            if file.name == "index.json":
                stated = "/redfish/v1/" + file.parent.relative_to(folder).as_posix().removeprefix(".").removeprefix(
                    "redfish/v1"
                )
            else:
                stated = file.stem.replace("_", "/")
            found[str(resource.get("@odata.id") or stated)] = resource
    return found


class Reader:
    """Read a tree as a BMC answers: without regard to letter case and to a slash at the end. `paths` has each path that was read.

    `actual` is a function that returns the tree at the time of a read; without it the tree itself.
    """

    def __init__(self, tree: Tree, actual: Callable[[], Tree] | None = None) -> None:
        self._tree = actual or (lambda: tree)
        self.paths: list[str] = []

    def __call__(self, path: str) -> Mapping[str, Any]:
        self.paths.append(path)
        by_key = {_key(one): resource for one, resource in self._tree().items()}
        try:
            return by_key[_key(path)]
        except KeyError:
            raise LookupError(path) from None


def _key(path: str) -> str:
    return path.partition("#")[0].rstrip("/").lower()
