# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource trees of BMCs on disk, and a reader of them.

A tree of this folder is VENDOR/tree.json: {path: resource}. SOURCE.md beside it has what it was written from. Foreign trees are read in two
further forms: DMTF's mockups (`.../index.json` below a folder for `/redfish/v1`) and flat captures (`_redfish_v1_Systems_1.json`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.reader import MissingResourceError

FOLDER = Path(__file__).parent
VENDORS = tuple(sorted(path.parent.name for path in FOLDER.glob("*/tree.json")))
Tree = dict[str, dict[str, Any]]


def tree_of(vendor: str) -> Tree:
    """Return a copy of a tree of this folder, for a test to change."""
    found: Tree = json.loads((FOLDER / vendor / "tree.json").read_text(encoding="utf-8"))
    return found


def foreign_tree(folder: Path) -> Tree:
    """Return the resources of a mockup or of a flat capture, by the path that each states for itself, or that its file's name means."""
    mockup = sorted(folder.rglob("index.json"))
    files = {file: _mockup_path(file.parent.relative_to(folder)) for file in mockup} or {
        file: file.stem.replace("_", "/") for file in sorted(folder.glob("_redfish_v1*.json"))
    }
    read = {file: json.loads(file.read_text(encoding="utf-8")) for file in files}
    # A registry states no path, and an underscore in its name is not a slash: a registry file has its path.
    places = [
        one["Uri"]
        for resource in read.values()
        if isinstance(resource, dict)
        for one in resource.get("Location") or ()
        if "Uri" in one
    ]
    by_stem = {str(place).replace("/", "_"): str(place) for place in places}
    return {
        str(resource.get("@odata.id") or by_stem.get(file.stem) or path): resource
        for (file, path), resource in zip(files.items(), read.values(), strict=True)
        if isinstance(resource, dict)
    }


def _mockup_path(folder: Path) -> str:
    return f"/redfish/v1/{folder.as_posix().removeprefix('.').removeprefix('redfish/v1').strip('/')}"


class Reader:
    """Read a tree as a BMC answers: without regard to letter case and to a slash at the end. `paths` has each path that was read."""

    def __init__(self, tree: Tree) -> None:
        self._resources = {_key(path): resource for path, resource in tree.items()}
        self.paths: list[str] = []

    def __call__(self, path: str) -> Mapping[str, Any]:
        self.paths.append(path)
        try:
            return self._resources[_key(path)]
        except KeyError:
            raise MissingResourceError(path) from None


def _key(path: str) -> str:
    return path.partition("#")[0].rstrip("/").lower()
