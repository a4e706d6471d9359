# SPDX-License-Identifier: GPL-3.0-or-later
"""Order for a snapshot of a cluster file's repositories, and mistakes in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...cluster import Cluster, SnapshotOrigin
from ...gpu_stack import stack_table
from ...snapshots.snapshot_lock import NAME, NAMES
from ..mirror_model import MirrorError, MirrorOrigin

FOLDER = "snapshots"
"""Folder of the mirror that `snapshots.url` of the cluster file names."""
_ARMOR = "-----BEGIN PGP"


@dataclass(frozen=True)
class SnapshotOrder:
    """The order for a run. `directory` has the snapshots, `cache` the lists of origins; `check` changes nothing."""

    cluster: str
    name: str
    directory: Path
    cache: Path
    repositories: tuple[SnapshotOrigin, ...]
    check: bool = False

    @property
    def place(self) -> Path:
        """Return the folder of the snapshot."""
        return self.directory / self.name

    def kinds(self) -> dict[tuple[str, str], list[SnapshotOrigin]]:
        """Return (system, kind) -> its origins; each is one repository of the snapshot."""
        found: dict[tuple[str, str], list[SnapshotOrigin]] = {}
        for one in self.repositories:
            found.setdefault((one.system, one.kind), []).append(one)
        return dict(sorted(found.items()))


def order_of(cluster: Cluster, name: str, directory: Path, cache: Path, check: bool) -> SnapshotOrder:
    """Return the order. MirrorError: a name without a date, or a cluster file without repositories."""
    mistakes = []
    if not NAME.match(name):
        mistakes.append(f"mirror_snapshot: {name!r}; allowed: {NAMES}")
    if cluster.snapshots is None or not cluster.snapshots.repositories:
        mistakes.append(f"{cluster.path}: no `snapshots` with `repositories`, so there is nothing to copy")
    if mistakes or cluster.snapshots is None:
        raise MirrorError(mistakes)
    return SnapshotOrder(cluster.name, name, directory / FOLDER, cache / FOLDER, cluster.snapshots.repositories, check)


def apt_origin(origin: SnapshotOrigin, number: int) -> MirrorOrigin:
    """Return an origin as apt gets it. MirrorError: its key cannot be read."""
    path = Path(origin.key)
    hint = "The cluster file names it: `snapshots.repositories`, `key`. Debian's key is in the package debian-archive-keyring."
    try:
        text = path.read_bytes()
    except OSError as error:
        raise MirrorError([f"{origin.url}: {path} cannot be read: {error.strerror}. {hint}"]) from None
    # A keyring stays where it is; an armored key is written beside apt's lists.
    key = text.decode("ascii", "replace") if text.startswith(_ARMOR.encode()) else str(path)
    return MirrorOrigin(f"{origin.kind}-{number}", origin.url, origin.suites, origin.components, key, hint)


def family_of(system: str) -> str:
    """Return deb or rpm."""
    return stack_table.default().systems[system].family


def dpkg_architecture(origin: SnapshotOrigin) -> str:
    """Return the architecture of a repository as dpkg calls it."""
    return stack_table.default().architectures[origin.architecture]["deb"]
