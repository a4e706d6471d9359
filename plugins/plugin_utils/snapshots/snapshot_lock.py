# SPDX-License-Identifier: GPL-3.0-or-later
"""The file beside a cluster file with the snapshot of the repositories that its machines have. One reader and one writer.

`promoted` is the snapshot of all machines, `testing` the one that the machines of `snapshots.test` try, `former` are earlier promoted ones,
the newest first. Each has the digest of its manifest: another snapshot of the same name is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

from ..common.beside import Stamp, path_beside, stamp_of

FORMAT = 1
SUFFIX = ".snapshot-lock.json"
ABOUT = "Written by playbooks/snapshot.yml. Do not edit it."
NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([._-][A-Za-z0-9]+)*\Z")
NAMES = "a date and, if needed, more words behind it: 2026-11-26, 2026-11-26.2, 2026-11-26-kernel"
FORMER = 10
"""Earlier snapshots that the file remembers."""
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class SnapshotLockError(ValueError):
    """A file that cannot be used: all mistakes, each with the file and the key."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(mistakes))


@dataclass(frozen=True)
class ChosenSnapshot:
    """A snapshot: its name, the SHA-256 of its signed manifest, and system -> kinds of its repositories."""

    name: str
    manifest: str
    systems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class SnapshotLock:
    """Hold the snapshots that the machines of a cluster have; None where nothing is chosen."""

    promoted: ChosenSnapshot | None = None
    testing: ChosenSnapshot | None = None
    former: tuple[ChosenSnapshot, ...] = ()

    def of_machine(self, is_test: bool) -> ChosenSnapshot | None:
        """Return the snapshot of a machine; `is_test`: whether the cluster file names it in `snapshots.test`."""
        return self.testing if is_test and self.testing else self.promoted

    def with_promoted(self, chosen: ChosenSnapshot) -> SnapshotLock:
        """Return the lock after a promotion: the test ends, and the snapshot before is a former one."""
        if self.promoted == chosen:
            return SnapshotLock(chosen, None, self.former)
        before = [self.promoted] if self.promoted else []
        former = [one for one in (*before, *self.former) if one.name != chosen.name]
        return SnapshotLock(chosen, None, tuple(former[:FORMER]))

    def with_testing(self, chosen: ChosenSnapshot | None) -> SnapshotLock:
        """Return the lock with another snapshot under test, or without one."""
        return SnapshotLock(self.promoted, chosen, self.former)


def path_of(cluster_file: str | Path) -> Path | None:
    """Return where the file of a cluster file is; None for an inventory without one.

    >>> str(path_of("/srv/west.bedplate.yml"))
    '/srv/west.snapshot-lock.json'
    """
    return path_beside(cluster_file, SUFFIX)


def read(cluster_file: str | Path) -> SnapshotLock:
    """Return the lock of a cluster file, an empty one where no file exists. SnapshotLockError: all mistakes of it."""
    path = path_of(cluster_file)
    if path is None or not path.exists():
        return SnapshotLock()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SnapshotLockError([f"{path}: cannot be read as JSON: {error}. {_RESTORE}"]) from None
    if found := [f"{path}: {text}. {_RESTORE}" for text in _mistakes(data)]:
        raise SnapshotLockError(found)
    one = {key: _chosen(data[key]) for key in ("promoted", "testing")}
    former = tuple(_chosen(row) for row in data["former"])
    return SnapshotLock(one["promoted"], one["testing"], tuple(row for row in former if row))


def stamp(cluster_file: str | Path) -> Stamp:
    """Return what changes whenever the file does."""
    return stamp_of(path_of(cluster_file))


def text_of(lock: SnapshotLock) -> str:
    """Return the text of the file: sorted, without a date, so that one content is one text."""
    data = {
        "format": FORMAT,
        "about": ABOUT,
        "promoted": _plain(lock.promoted),
        "testing": _plain(lock.testing),
        "former": [_plain(one) for one in lock.former],
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def write(cluster_file: str | Path, lock: SnapshotLock) -> Path:
    """Write the file at once; return its path. SnapshotLockError: the inventory has no cluster file."""
    path = path_of(cluster_file)
    if path is None:
        raise SnapshotLockError([f"{cluster_file}: the name of a cluster file ends with .bedplate.yml"])
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    atomic_write(path, text_of(lock).encode(), mode=mode)
    return path


_RESTORE = "Restore it from git, or promote a snapshot again: playbooks/snapshot.yml"


def _mistakes(data: Any) -> Iterator[str]:
    if not isinstance(data, dict):
        yield "is not an object"
        return
    if data.get("format") != FORMAT:
        yield f"format: {data.get('format')!r}; allowed: {FORMAT}"
        return
    for key in ("promoted", "testing"):
        if data.get(key) is not None:
            yield from (f"{key}: {text}" for text in _row_mistakes(data[key]))
    if not isinstance(data.get("former"), list):
        yield "former: is not a list"
        return
    for number, row in enumerate(data["former"]):
        yield from (f"former[{number}]: {text}" for text in _row_mistakes(row))


def _row_mistakes(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        yield "is not an object"
        return
    if not NAME.match(str(row.get("name"))):
        yield f"name {row.get('name')!r}; allowed: {NAMES}"
    if not _SHA256.match(str(row.get("manifest"))):
        yield f"manifest {row.get('manifest')!r}; allowed: a SHA-256"
    systems = row.get("systems")
    if not isinstance(systems, dict) or not all(
        _WORD.match(name) and isinstance(kinds, list) and all(_WORD.match(str(kind)) for kind in kinds)
        for name, kinds in systems.items()
    ):
        yield "systems: allowed: a list of kinds for each system"


def _chosen(row: Mapping[str, Any] | None) -> ChosenSnapshot | None:
    if row is None:
        return None
    systems = {name: tuple(kinds) for name, kinds in sorted(row["systems"].items())}
    return ChosenSnapshot(row["name"], row["manifest"], systems)


def _plain(chosen: ChosenSnapshot | None) -> dict[str, Any] | None:
    if chosen is None:
        return None
    data = asdict(chosen)
    return {**data, "systems": {name: list(kinds) for name, kinds in sorted(chosen.systems.items())}}
