# SPDX-License-Identifier: GPL-3.0-or-later
"""The MIG profiles of GPUs, from mig.json, and whether instances of them fit on one GPU together."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .json_dataclasses import typed


@dataclass(frozen=True)
class InstanceShape:
    """Size and places of an instance: its memory slices, and the slices at which it may begin."""

    size: int
    at: tuple[int, ...]


@dataclass(frozen=True)
class Card:
    """A GPU by model and memory (GB): shape and greatest number by name of the profile."""

    model: str
    memory_gb: int
    profiles: Mapping[str, tuple[InstanceShape, int]]

    @property
    def name(self) -> str:
        """Return such as a100 of 40 GB."""
        return f"{self.model} of {self.memory_gb} GB"

    def fits(self, layout: Mapping[str, int]) -> bool:
        """Return whether all instances of a layout, by name of the profile, fit on one GPU."""
        if any(name not in self.profiles or count > self.profiles[name][1] for name, count in layout.items()):
            return False
        # Of the profiles with all media engines there is one instance, whatever its size.
        if sum(count for name, count in layout.items() if name.endswith("+me")) > 1:
            return False
        return _place([self.profiles[name][0] for name in in_order(layout)], 0)

    def examples(self) -> str:
        """Return the profiles with how many of each fit: 1g.10gb (7), 2g.20gb (3)."""
        return ", ".join(f"{name} ({most})" for name, (_unused, most) in self.profiles.items())


@dataclass(frozen=True)
class MigTable:
    """mig.json: the GPUs with MIG, and the models without it."""

    cards: tuple[Card, ...]
    without: tuple[str, ...]

    def of_model(self, model: str) -> list[Card]:
        """Return the rows of a model, one for each size of its memory."""
        return [card for card in self.cards if card.model == model]


def _place(shapes: Sequence[InstanceShape], taken: int) -> bool:
    """Try to place the shapes into the memory slices that are not taken; `taken` has a bit for each slice."""
    if not shapes:
        return True
    first, rest = shapes[0], shapes[1:]
    for start in first.at:
        mask = ((1 << first.size) - 1) << start
        if not taken & mask and _place(rest, taken | mask):
            return True
    return False


def in_order(layout: Mapping[str, int]) -> list[str]:
    """Return one profile per instance, in the order in which nvidia-smi must make them: large ones first.

    >>> in_order({"1g.10gb": 2, "3g.40gb": 1})
    ['3g.40gb', '1g.10gb', '1g.10gb']
    """
    names = [name for name, count in layout.items() for _unused in range(count)]
    return sorted(names, key=lambda name: (-_numbers(name)[0], -_numbers(name)[1], name))


def _numbers(profile: str) -> tuple[int, int]:
    slices, _unused, rest = profile.partition("g.")
    return int(slices), int(rest.partition("gb")[0])


def gres_type(profile: str) -> str:
    """Return the name that slurmd's AutoDetect=nvml ends a device's type with: it has slices and memory, no engines.

    >>> gres_type("1g.10gb+me")
    '1g.10gb'
    """
    return profile.partition("+")[0]


@lru_cache(maxsize=1)
def default() -> MigTable:
    """Return the table of this collection."""
    return build(json.loads(Path(__file__).with_name("mig.json").read_text(encoding="utf-8")))


def build(data: Mapping[str, Any]) -> MigTable:
    """Return the table that mig.json holds; mig.schema.json and the tests check it."""
    shapes = {name: typed(InstanceShape, row) for name, row in data["shapes"].items()}
    rows = [
        {**row, "profiles": {name: (shapes[shape], most) for name, (shape, most) in row["profiles"].items()}}
        for row in data["gpus"]
    ]
    return typed(MigTable, {"cards": rows, "without": data["without"]["models"]})
