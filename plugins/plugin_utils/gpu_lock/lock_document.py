# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock file beside a cluster file: package versions that its repositories had, by system and source. One reader and one writer."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

from ..common.beside import Stamp, path_beside, stamp_of

FORMAT = 1
SUFFIX = ".gpu-lock.json"
ABOUT = "Written by playbooks/gpu_resolve.yml from the indexes of the site's repositories. Do not edit it."
UPDATE = "playbooks/gpu_resolve.yml -e gpu_resolve=update"
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+~^:_-]*\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_INDEX_KEYS = ("repository", "suite", "url", "sha256")
# Ansible's directory for one run, which is not known here: this room imports no Ansible.
_predictions: dict[str, Path] = {}


class LockError(ValueError):
    """A lock that cannot be used: all mistakes, each with the file and the key."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(mistakes))


@dataclass(frozen=True, order=True)
class LockedIndex:
    """An index that was read: the repository's name in the table, its suite (with components of an archive), address and digest."""

    repository: str
    suite: str
    url: str
    sha256: str


@dataclass(frozen=True)
class LockedSource:
    """Versions of one source on one system, by package name, the newest first."""

    indexes: tuple[LockedIndex, ...]
    packages: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class GpuLock:
    """A lock. `systems` has the sources of each system by the name of its repository in a mirror: debian-13, debian-13-arm64.

    Two locks with one content are equal.
    """

    sha256: str
    systems: Mapping[str, Mapping[str, LockedSource]] = field(compare=False, repr=False)

    def source(self, system: str, source: str) -> LockedSource | None:
        """Return the versions of a source on a system; None: the lock does not have them."""
        return self.systems.get(system, {}).get(source)


def lock_of(systems: Mapping[str, Mapping[str, LockedSource]]) -> GpuLock:
    """Return the lock with these versions."""
    return GpuLock(_digest(_plain(systems)), systems)


def path_of(cluster_file: str | Path) -> Path | None:
    """Return where the lock of a cluster file is; None for an inventory without one.

    >>> str(path_of("/srv/west.bedplate.yml"))
    '/srv/west.gpu-lock.json'
    """
    return path_beside(cluster_file, SUFFIX)


def keep_predictions_in(directory: str | Path) -> None:
    """Set the directory of the locks that check mode predicts. The caller removes it at the end of the run; forks inherit it."""
    _predictions["directory"] = Path(directory)


def predicted_path_of(cluster_file: str | Path) -> Path | None:
    """Return where check mode writes the lock that it predicts; None: this process has no directory for it."""
    directory = _predictions.get("directory")
    name = hashlib.sha256(str(Path(cluster_file).absolute()).encode()).hexdigest()
    return directory / f"bedplate-{name[:16]}{SUFFIX}" if directory else None


def in_force(cluster_file: str | Path) -> Path | None:
    """Return the lock that a command uses: the file beside the cluster file, else the prediction of this run; None: no lock."""
    beside = path_of(cluster_file)
    if beside is None:
        return None
    return next((path for path in (beside, predicted_path_of(cluster_file)) if path and path.is_file()), None)


def read(cluster_file: str | Path) -> GpuLock | None:
    """Return the lock of a cluster file, None where no lock exists. LockError: all mistakes of it."""
    path = in_force(cluster_file)
    if path is None:
        return None
    try:
        status = path.stat()
        return _read(path, status.st_ino, status.st_mtime_ns, status.st_size)
    except OSError as error:
        raise LockError([f"{path}: cannot be read: {error.strerror}."]) from None


def stamp(cluster_file: str | Path) -> Stamp:
    """Return what changes whenever the lock of a cluster file does."""
    return stamp_of(in_force(cluster_file))


@lru_cache(maxsize=8)
def _read(path: Path, *_version: int) -> GpuLock:
    """Read a lock, once for each version of the file. OSError: it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LockError([f"{path}: is not JSON: {error}. {_again('Restore it from git')}"]) from None
    mistakes = [f"{path}: {text}" for text in _mistakes(data)]
    if mistakes:
        raise LockError(mistakes)
    return GpuLock(data["sha256"], _systems(data["systems"]))


def text_of(lock: GpuLock) -> str:
    """Return the text of a lock file: sorted, without a date, so that one content is one text."""
    data = {"format": FORMAT, "about": ABOUT, "sha256": lock.sha256, "systems": _plain(lock.systems)}
    text = json.dumps(data, indent=1, ensure_ascii=False)
    # A line for each package and each index.
    text = re.sub(r"\[\s+(\"[^\[\]{}]*?\")\s+\]", lambda found: f"[{_joined(found[1])}]", text)
    return re.sub(r"\{\s+(\"repository\"[^{}]*?)\s+\}", lambda found: f"{{{_joined(found[1])}}}", text) + "\n"


def write(path: Path, lock: GpuLock) -> None:
    """Write a lock in one step."""
    atomic_write(path, text_of(lock))


def _joined(text: str) -> str:
    return re.sub(r",\s+", ", ", text)


def _again(first: str) -> str:
    return f"{first}, or write it again: {UPDATE}."


def _plain(systems: Mapping[str, Mapping[str, LockedSource]]) -> dict[str, Any]:
    return {
        system: {
            name: {
                "indexes": [{key: getattr(one, key) for key in _INDEX_KEYS} for one in sorted(source.indexes)],
                "packages": {package: list(source.packages[package]) for package in sorted(source.packages)},
            }
            for name, source in sorted(sources.items())
        }
        for system, sources in sorted(systems.items())
    }


def _digest(systems: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([FORMAT, systems], sort_keys=True).encode()).hexdigest()


def _systems(data: Mapping[str, Any]) -> dict[str, dict[str, LockedSource]]:
    return {
        system: {
            name: LockedSource(
                tuple(LockedIndex(**one) for one in source["indexes"]),
                {package: tuple(versions) for package, versions in source["packages"].items()},
            )
            for name, source in sources.items()
        }
        for system, sources in data.items()
    }


def _mistakes(data: Any) -> Iterator[str]:
    """Yield the mistakes of a lock file, the first ones alone where the rest cannot be read."""
    if not isinstance(data, dict):
        yield f"is not a JSON object. {_again('Restore it from git')}"
        return
    if data.get("format") != FORMAT:
        text = f"format: {data.get('format')!r} is not known; allowed: {FORMAT}. Another release of bedplate wrote it."
        yield f"{text} Write it again: {UPDATE}."
        return
    found = list(_shape(data))
    yield from found
    if not found and data.get("sha256") != _digest(data["systems"]):
        yield f"sha256: {data.get('sha256')!r} is not the digest of its content, so it was edited by hand. {_again('Restore it from git')}"


def _shape(data: Mapping[str, Any]) -> Iterator[str]:
    systems = data.get("systems")
    if not isinstance(systems, dict):
        yield "systems: not an object; allowed: the sources of each system."
        return
    for system, sources in systems.items():
        if not isinstance(sources, dict):
            yield f"systems.{system}: not an object; allowed: sources by name."
            continue
        for name, source in sources.items():
            where = f"systems.{system}.{name}"
            if not isinstance(source, dict) or set(source) != {"indexes", "packages"}:
                yield f"{where}: not an object with `indexes` and `packages`."
                continue
            yield from _indexes(f"{where}.indexes", source["indexes"])
            yield from _packages(f"{where}.packages", source["packages"])


def _indexes(where: str, indexes: Any) -> Iterator[str]:
    rows = indexes if isinstance(indexes, list) else [None]
    for number, row in enumerate(rows):
        if (
            not isinstance(row, dict)
            or sorted(row) != sorted(_INDEX_KEYS)
            or not all(isinstance(one, str) for one in row.values())
        ):
            yield f"{where}[{number}]: allowed: an object with the texts {', '.join(_INDEX_KEYS)}."
        elif not _SHA256.match(row["sha256"]):
            yield f"{where}[{number}].sha256: {row['sha256']!r}; allowed: 64 hexadecimal digits."


def _packages(where: str, packages: Any) -> Iterator[str]:
    for package, versions in packages.items() if isinstance(packages, dict) else [("", None)]:
        rows = versions if isinstance(versions, list) and versions else [None]
        wrong = [one for one in rows if not isinstance(one, str) or not _VERSION.match(one)]
        if wrong:
            yield f"{where}.{package}: {wrong[0]!r}; allowed: a list of package versions, the newest first."
