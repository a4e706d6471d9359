# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-ins of an inventory, in the folder of its lab, and their keys at the paths of its cluster file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lab.machines import cluster_file, gpu_sections
from lab.paths import ROOT, state_of
from lab.shell import LabError
from lab.vendor.found import CANONICAL, table_with
from lab.vendor.repository import MIRROR, PARTS, Repository, build, of_table

SETTINGS = "vendor.json"
"""Beside a cluster file: the lab's machines get stand-ins. {} or any of drivers, more_drivers, broken: lists of driver versions;
systems: systems besides those of the cluster file, for tests that fetch from them.
compiler: true boots its GPU nodes with a compiler and headers, which takes a minute to install on each."""
_TABLE = ROOT / "plugins" / "plugin_utils" / "gpu_stack" / "stack.json"
COMPILER = "compiler"
SYSTEMS = "systems"
_KEYS = ("drivers", "more_drivers", "broken", SYSTEMS)


def prepare(inventory: Path, lab: str) -> Path | None:
    """Build the stand-ins of an inventory unless they exist, and write its keys; return the public folder, or None.

    LabError: settings that are wrong, or a driver that is not known.
    """
    path = cluster_file(inventory)
    settings = path.parent / SETTINGS
    if not settings.exists():
        return None
    wanted = {key: value for key, value in _read(settings).items() if key != COMPILER}
    sections = [section for section in gpu_sections(path).values() if section]
    systems = sorted({str(section["os"]) for section in sections if section.get("os")})
    if not systems:
        raise LabError(f"{settings}: {path} has no gpu_stack with an os, so it needs no stand-ins.")
    folder = state_of(lab) / "vendor"
    systems = sorted({*systems, *wanted.pop(SYSTEMS, ())})
    stamp = _stamp({**wanted, SYSTEMS: systems}, [f"{one.get('os')} {one.get('source')}" for one in sections])
    there = folder / "stamp"
    repository = Repository(folder / "public")
    if not there.exists() or there.read_text() != stamp:
        canonical = sorted({str(one["os"]) for one in sections if one.get("os") and one.get("source") == CANONICAL})
        repository = build(folder, systems, **wanted, canonical=canonical)
        there.write_text(stamp)
        # Other stand-ins have other versions.
        for lock in path.parent.glob("*.gpu-lock.json"):
            lock.unlink()
    wanted_keys = {path.parent / name: part for name, part in _key_files(sections)}
    # The others as well: a test gives a repository the wrong one.
    others = {target.parent / f"{part}.asc": part for target in wanted_keys for part in PARTS}
    for target, part in {**others, **wanted_keys}.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(repository.key(part).read_text())
    return repository.public


def has_compiler(inventory: Path) -> bool:
    """Return True if the GPU nodes of an inventory boot with a compiler and headers installed."""
    settings = cluster_file(inventory).parent / SETTINGS
    return settings.exists() and bool(_read(settings).get(COMPILER))


def _read(settings: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(settings.read_text())
    except ValueError as problem:
        raise LabError(f"{settings} is not JSON: {problem}") from None
    versions = {key: value for key, value in data.items() if key != COMPILER} if isinstance(data, dict) else {"": None}
    if (
        set(versions) - set(_KEYS)
        or not all(map(_is_texts, versions.values()))
        or not isinstance(data.get(COMPILER, True), bool)
    ):
        raise LabError(
            f"{settings}: an object with any of {', '.join(_KEYS)} is allowed, each a list of texts, and {COMPILER}: true."
        )
    return data


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _key_files(sections: Iterable[Mapping[str, Any]]) -> set[tuple[str, str]]:
    """Return (path as the cluster file has it, part of the repository whose key belongs there)."""
    parts = {row.name: of_table(row) for row in table_with((), ()).repositories}
    found = set()
    for section in sections:
        keys = (section.get("keys") or {}).items()
        found |= {(str(path), parts[name]) for name, path in keys if parts.get(name) in PARTS}
        if key := (section.get("mirror") or {}).get("key"):
            found.add((str(key), MIRROR))
    return found


def _stamp(wanted: Mapping[str, list[str]], systems: list[str]) -> str:
    """Return a digest of the sources of the stand-ins."""
    digest = hashlib.sha256(json.dumps([wanted, systems], sort_keys=True).encode() + _TABLE.read_bytes())
    for path in sorted(Path(__file__).parent.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path).encode() + path.read_bytes())
    return digest.hexdigest()
