# SPDX-License-Identifier: GPL-3.0-or-later
"""Defaults of bedplate's releases: one frozen file a release in snapshots/, written by tools/release_defaults.py.

A snapshot is plain data:

- `variables`: role variable -> default, of the roles' argument specs.
- `keys`: key of the cluster file, as docs/cluster-file.md writes it -> default.
- `slurm`: `options`, `cgroup` or `slurmdbd` of the cluster file's `slurm` -> option -> value.
- `sysctl`: sysctl key -> value.
- `versions`: `driver SOURCE SYSTEM`, `dcgm` or `nccl` -> known versions; a branch in `gpu_stack` means the latest of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .renamed_names import ANY

SNAPSHOTS = Path(__file__).with_name("snapshots")
_SLURM_SECTIONS = {"slurm": "options", "cgroup": "cgroup", "slurmdbd": "slurmdbd"}


@cache
def snapshot(release: str) -> dict[str, Any] | None:
    """Return the defaults of a release; None if it has no snapshot."""
    path = SNAPSHOTS / f"{release}.json"
    if not re.fullmatch(r"[0-9.]+", release) or not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def released() -> list[str]:
    """Return the releases that have a snapshot, the oldest first."""
    return sorted((path.stem for path in SNAPSHOTS.glob("*.json")), key=release_numbers)


def release_numbers(release: str) -> tuple[int, ...]:
    """Return a release as numbers, so that 0.10.0 sorts after 0.9.0.

    >>> release_numbers("0.9.0") < release_numbers("0.10.0")
    True
    """
    return tuple(int(part) for part in re.findall("[0-9]+", release))


def defaults(
    options: Mapping[str, Mapping[str, Any]],
    schema: Mapping[str, Any],
    slurm: Mapping[str, Mapping[str, str]],
    sysctl: Mapping[str, str],
    versions: Mapping[str, Iterable[str]],
) -> dict[str, Any]:
    """Return the defaults of a tree as a snapshot has them.

    `options` are the roles' options by role and variable, `schema` the JSON Schema of the cluster file, `slurm` the options of slurm.conf,
    cgroup.conf and slurmdbd.conf by `slurm`, `cgroup` and `slurmdbd`.
    """
    found = {
        name: option["default"] for each in options.values() for name, option in each.items() if "default" in option
    }
    return {
        # A default that is a template names another variable.
        "variables": {name: value for name, value in sorted(found.items()) if "{{" not in str(value)},
        "keys": dict(sorted(schema_defaults(schema))),
        "slurm": {section: dict(slurm[kind]) for kind, section in _SLURM_SECTIONS.items()},
        "sysctl": dict(sysctl),
        "versions": {name: sorted(set(versions[name]), key=release_numbers) for name in sorted(versions)},
    }


def driver_name(source: str, system: str) -> str:
    """Return the key in `versions` for one source's drivers on one system."""
    return f"driver {source} {system}"


def schema_defaults(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of the cluster file that have a default, each with it."""
    for one in (schema, *schema.get("anyOf", ())):
        for name, below in one.get("properties", {}).items():
            key = f"{path}.{name}" if path else name
            if "default" in below and not isinstance(below["default"], dict):
                yield key, below["default"]
            yield from schema_defaults(below, key)
        if isinstance(one.get("additionalProperties"), Mapping):
            yield from schema_defaults(one["additionalProperties"], f"{path}.{ANY}")
        if isinstance(one.get("items"), Mapping):
            yield from schema_defaults(one["items"], path)
