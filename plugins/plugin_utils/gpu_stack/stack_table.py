# SPDX-License-Identifier: GPL-3.0-or-later
"""The one reader of stack.json. stack.schema.json and the tests check the table, so it is not checked here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .json_dataclasses import typed
from .stack_model import FAMILIES, Model, Platform, StackSystem, StackTable


@lru_cache(maxsize=1)
def default() -> StackTable:
    """Return our own table, read once."""
    return build(json.loads(Path(__file__).with_name("stack.json").read_text(encoding="utf-8")))


def build(data: Mapping[str, Any]) -> StackTable:
    """Return the table that stack.json holds."""
    architectures, cuda = data["architectures"], data["cuda"]
    rows = {
        **data,
        "architectures": {name: {family: row[family] for family in FAMILIES} for name, row in architectures.items()},
        "systems": {
            name: typed(StackSystem, {**row, "name": name, "kernels": _kernels(row, architectures)})
            for name, row in data["systems"].items()
        },
        "models": {name: _model(name, row, data["generations"]) for name, row in data["models"].items()},
        "platforms": {
            name: typed(Platform, {**row, "name": name, "fabric": row, "nvlink5": row.get("nvlink5", row)})
            for name, row in data["platforms"].items()
        },
        "cuda_least": {major: least for major, least in cuda["least"].items() if major.isdigit()},
        "cuda_of_driver": sorted((int(least), major) for least, major in cuda["of_driver"].items() if least.isdigit()),
        "metapackages": cuda["metapackages"]["patterns"],
        "cuda": cuda["offers"],
        "branches": [{**row, "source": row["from"]} for row in data["branches"]],
    }
    return typed(StackTable, rows)


def _kernels(system: Mapping[str, Any], architectures: Mapping[str, Any]) -> dict[str, str]:
    """Return package versions by kernel release: one source package makes the kernels of all architectures."""
    names = [row[system["family"]] for row in architectures.values()]
    return {key.format(arch=name): one for key, one in system.get("kernels", {}).items() for name in names}


def _model(name: str, row: Mapping[str, Any], generations: Mapping[str, Any]) -> Model:
    generation = row["generation"]
    return typed(Model, {**row, "name": name, "generation": {**generations[generation], "name": generation}})
