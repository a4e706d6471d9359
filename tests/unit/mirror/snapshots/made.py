"""Snapshots of a small archive, made with the real apt."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import SnapshotOrigin
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots import build_snapshot
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots.snapshot_model import SnapshotReport
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.snapshots.snapshot_order import SnapshotOrder
from tests.unit.mirror.origins import Archive

SYSTEM = "debian-13"


def origin_of(archive: Archive, kind: str = "system", key: Signer | None = None) -> SnapshotOrigin:
    """Return an archive as the cluster file names it; `key`: another key than its own."""
    path = archive.directory.parent / f"{archive.directory.name}-{kind}.asc"
    path.write_text((key or archive.signer).public)
    return SnapshotOrigin(SYSTEM, kind, archive.directory.as_uri(), ("stable",), ("main",), "x86_64", str(path))


def order_of(folder: Path, name: str, *origins: SnapshotOrigin, check: bool = False) -> SnapshotOrder:
    """Return the order for a snapshot below a folder of the test."""
    return SnapshotOrder("away", name, folder / "snapshots", folder / "cache", origins, check)


def make(order: SnapshotOrder, key: Signer) -> SnapshotReport:
    """Make a snapshot."""
    return build_snapshot.make(order, lambda: key)
