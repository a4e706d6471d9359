# SPDX-License-Identifier: GPL-3.0-or-later
"""Edits of a cluster file, one for each key: read from tests/kit/keys, put together to batches, halved to find the one that hurts."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import options

KEYS = Path(__file__).parent / "keys"
VERSION = "24.11"
PARTITION = "gpu"
"""The partition that is edited: that of the workload's jobs."""
SIZE = 20
"""Keys of one batch: a run takes 15 to 25 s on two idle cores."""

Place = tuple[str, ...]
_PLACES: dict[str, Place] = {
    "slurm": ("slurm", "options"),
    "partition": ("partitions", PARTITION, "options"),
    "cgroup": ("slurm", "cgroup"),
    "slurmdbd": ("slurm", "slurmdbd"),
}
"""Kind of option -> where the cluster file has it; of the other kinds bedplate writes whole lines."""


@dataclass(frozen=True)
class Edit:
    """One key with its other value: all places that it writes, and what is expected of the run."""

    kind: str
    name: str
    writes: Mapping[Place, Any] = field(hash=False)
    refused: str = ""
    waits: str = ""
    apart: str = ""
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.kind}.{self.name}"


@cache
def table() -> dict[str, dict[str, dict[str, Any]]]:
    """Return kind -> key -> entry of all files."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in sorted(KEYS.glob("*.yml")):
        found |= yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def place_of(kind: str, name: str) -> Place:
    """Return the place of a key in the cluster file; `kind` is cluster_file for a path.

    >>> place_of("cgroup", "ConstrainCores")
    ('slurm', 'cgroup', 'ConstrainCores')
    """
    return (*_PLACES[kind], name) if kind in _PLACES else tuple(name.split("."))


def _place_of_path(path: str) -> Place:
    """Return the place of `slurm.Epilog`, an option with its kind, or of `racks.r1.row`, a path."""
    kind, _, name = path.partition(".")
    is_option = kind in _PLACES and options.canonical(kind, name) is not None
    return place_of(kind, name) if is_option else place_of("cluster_file", path)


def edits() -> list[Edit]:
    """Return an edit for every key that has another value."""
    found = []
    for kind, entries in table().items():
        for name, entry in entries.items():
            if "to" in entry:
                place = _place_of_path(entry["at"]) if "at" in entry else place_of(kind, name)
                writes = {place: entry["to"]}
                writes |= {_place_of_path(path): value for path, value in entry.get("with", {}).items()}
                words = {key: entry[key] for key in ("refused", "waits", "apart", "alone") if key in entry}
                found.append(Edit(kind, name, writes, **words))
    return found


def batches(wanted: Iterable[Edit], size: int = SIZE) -> list[list[Edit]]:
    """Return the edits in batches of at most `size`, none with two that exclude each other.

    Those that are refused are together, for all mistakes are reported at once, and so are those that wait. One that stands alone is in a
    batch by itself.
    What is refused comes first: what slurmctld refuses does not take back the database's files, so a batch before it must not change them.
    """
    filled: list[list[Edit]] = []
    lonely: list[list[Edit]] = []
    for edit in wanted:
        if edit.alone:
            lonely.append([edit])
            continue
        same = (one for one in filled if _alike(one[0], edit) and len(one) < size)
        batch = next((one for one in same if fits(edit, one)), None)
        if batch is None:
            filled.append(batch := [])
        batch.append(edit)
    return sorted([*filled, *lonely], key=lambda batch: not batch[0].refused)


def _alike(one: Edit, other: Edit) -> bool:
    return (one.kind, bool(one.refused), bool(one.waits)) == (other.kind, bool(other.refused), bool(other.waits))


def fits(edit: Edit, batch: Iterable[Edit]) -> bool:
    """Return whether an edit neither excludes another of the batch nor writes another value to the same place."""
    for other in batch:
        if edit.apart and edit.apart == other.apart:
            return False
        for place, value in edit.writes.items():
            for taken, there in other.writes.items():
                shorter = min(len(place), len(taken))
                if place[:shorter] == taken[:shorter] and (place, value) != (taken, there):
                    return False
    return True


def edited(base: Mapping[str, Any], batch: Iterable[Edit], words: Mapping[str, str]) -> dict[str, Any]:
    """Return the cluster file with a batch's values; `words` are what stands for @script and the like.

    None takes a key away, except in a map of Slurm's options, where it takes bedplate's own value away.
    """
    result: dict[str, Any] = copy.deepcopy(dict(base))
    for edit in batch:
        for place, value in edit.writes.items():
            there = result
            for step in place[:-1]:
                if there.get(step) is None:
                    there[step] = {}
                there = there[step]
            if value is None and place[:-1] not in _PLACES.values():
                there.pop(place[-1], None)
            else:
                there[place[-1]] = _filled(value, words)
    return result


def _filled(value: Any, words: Mapping[str, str]) -> Any:
    """Return a value with the words put in."""
    if isinstance(value, str) and value.startswith("@"):
        return words[value[1:]]
    if isinstance(value, dict):
        return {key: _filled(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    return copy.deepcopy(value)


def bisect(batch: Sequence[Edit], hurts: Callable[[Sequence[Edit]], bool]) -> list[list[Edit]]:
    """Return the smallest parts of a batch that hurt by themselves; of a part whose halves do not, the whole.

    `batch` is known to hurt. `hurts` makes the edits on a cluster as it was before.
    """
    if len(batch) == 1:
        return [list(batch)]
    middle = len(batch) // 2
    found = []
    for half in (batch[:middle], batch[middle:]):
        if hurts(half):
            found += bisect(half, hurts)
    return found or [list(batch)]
