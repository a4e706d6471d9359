# SPDX-License-Identifier: GPL-3.0-or-later
"""Promote a snapshot for all machines, or for the nodes that test: the snapshot is read whole before the lock changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches

from ...cluster import Cluster, Snapshots
from ...cluster.gpu_stack_checks import stack_of
from ...cluster.snapshot_checks import system_of
from ...keys.repository_keys import trusted
from ...snapshots import snapshot_lock
from ...snapshots.snapshot_lock import NAME, NAMES, ChosenSnapshot, SnapshotLock
from .. import signing
from ..mirror_model import MirrorError
from ..signing import Signer
from . import read_snapshot, snapshot_difference
from .snapshot_difference import PackageChange
from .snapshot_model import Snapshot

PROMOTED, TESTING, UNTESTED = STATES = ("promoted", "testing", "untested")


@dataclass
class Promotion:
    """Result of a promotion, or its prediction: the lock after it, what differs in packages, and the snapshot (None: of no snapshot)."""

    before: SnapshotLock
    after: SnapshotLock
    snapshot: Snapshot | None = None
    changes: list[PackageChange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Return whether the lock changes."""
        return self.before != self.after


def plan(cluster: Cluster, state: str, name: str, base: str, tested: Mapping[str, str]) -> Promotion:
    """Return the promotion of a snapshot below the address `base`.

    `tested`: node that tests -> the snapshot that this run has verified there. MirrorError: all that forbids it.
    """
    snapshots = cluster.snapshots
    if snapshots is None:
        raise MirrorError([f"{cluster.path} has no `snapshots`, so there is nothing to promote"])
    lock = snapshots.lock
    if state == UNTESTED:
        return Promotion(lock, lock.with_testing(None))
    _refuse(snapshots, state, name)
    signer = _signer(snapshots)
    found = read_snapshot.read(base, name, signer)
    chosen = ChosenSnapshot(found.name, found.manifest, found.systems)
    mistakes = [*_another(lock, chosen), *_lacking(cluster, snapshots, found)]
    if state == PROMOTED:
        mistakes += _not_tested(snapshots, chosen, tested)
    if mistakes:
        raise MirrorError(mistakes)
    after = lock.with_promoted(chosen) if state == PROMOTED else lock.with_testing(chosen)
    result = Promotion(lock, after, found)
    if lock.promoted and lock.promoted.name != name:
        try:
            result.changes = snapshot_difference.differences(
                read_snapshot.read(base, lock.promoted.name, signer), found
            )
        except MirrorError as error:
            result.warnings.append(f"packages are not compared with the promoted snapshot: {error}")
    return result


def write(cluster: Cluster, promotion: Promotion) -> None:
    """Write the lock. OSError: that failed."""
    snapshot_lock.write(cluster.path, promotion.after)


def _refuse(snapshots: Snapshots, state: str, name: str) -> None:
    mistakes = []
    if not NAME.match(name):
        mistakes.append(f"snapshot: {name!r}; allowed: {NAMES}")
    if state == TESTING and not snapshots.test:
        mistakes.append("snapshot_state: testing, and `snapshots.test` of the cluster file names no node that tests")
    if mistakes:
        raise MirrorError(mistakes)


def _signer(snapshots: Snapshots) -> Signer:
    try:
        return signing.reader(trusted(snapshots.key, snapshots.fingerprints))
    except ValueError as error:
        raise MirrorError([f"snapshots.key: {error}"]) from None


def _another(lock: SnapshotLock, chosen: ChosenSnapshot) -> list[str]:
    """Return the mistake of a snapshot whose name was used for another one."""
    known = {one.name: one for one in (*lock.former, lock.testing, lock.promoted) if one}
    before = known.get(chosen.name)
    if before is None or before.manifest == chosen.manifest:
        return []
    return [
        f"snapshot {chosen.name}: its manifest is {chosen.manifest[:12]}, and the lock has {before.manifest[:12]} under this name. A "
        "snapshot never changes: make one with another name"
    ]


def _not_tested(snapshots: Snapshots, chosen: ChosenSnapshot, tested: Mapping[str, str]) -> list[str]:
    """Return the mistake of a snapshot that the nodes of `snapshots.test` do not have. A former promoted one needs no other test."""
    lock = snapshots.lock
    if not snapshots.test:
        return []
    if lock.testing != chosen:
        if chosen in lock.former or chosen == lock.promoted:
            return []
        return [
            f"snapshot {chosen.name} is not under test, and `snapshots.test` demands it. First: playbooks/snapshot.yml -e snapshot="
            f"{chosen.name} -e snapshot_state=testing, then playbooks/roll.yml -e roll_packages=true --limit {','.join(snapshots.test)}"
        ]
    missing = [node for node in snapshots.test if tested.get(node) != chosen.name]
    return (
        [f"snapshot {chosen.name} was not verified on {', '.join(missing)}. Roll these nodes first"] if missing else []
    )


def _lacking(cluster: Cluster, snapshots: Snapshots, found: Snapshot) -> list[str]:
    """Return what machines need and the snapshot lacks: systems, and versions of the lock of GPU software."""
    mistakes = []
    profiles = {node.profile.name: node.profile for node in cluster.nodes}
    needed = {system_of(snapshots, None)} if cluster.hosts else set()
    needed |= {system_of(snapshots, profile) for profile in profiles.values()}
    if absent := sorted(needed - set(found.systems)):
        mistakes.append(f"snapshot {found.name} has nothing for {', '.join(absent)}; it has {', '.join(found.systems)}")
    for name, profile in profiles.items():
        if profile.gpu_stack is None or profile.gpus is None or profile.gpu_stack.os in absent:
            continue
        there = found.by_name(profile.gpu_stack.os)
        gone = [
            f"{one.name}={one.version}"
            for one in stack_of(profile.gpu_stack, profile).packages
            if not any(matches(package.version, one.version) for package in there.get(one.name, ()))
        ]
        if gone:
            mistakes.append(
                f"snapshot {found.name} lacks {len(gone)} packages that the lock of profile {name} has: {', '.join(gone[:6])}. Make a "
                "snapshot with them, or go back to the lock that belongs to this snapshot"
            )
    return mistakes
