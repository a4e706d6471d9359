# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the lock of a cluster file where no lock exists, or update it on request."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..cluster import Cluster
from ..cluster.gpu_stack_checks import mistakes_with
from ..gpu_lock import lock_document
from ..gpu_lock.lock_document import GpuLock, LockError
from ..gpu_stack import stack_table
from ..keys.repository_keys import judged
from . import lock_changes, read_lock
from .index_model import IndexReadError

MISSING, UPDATE, OFF = "missing", "update", "off"
MODES = (MISSING, UPDATE, OFF)


class UnmetError(ValueError):
    """Versions of the indexes with which a profile cannot be installed: the lock that was not written, and all mistakes."""

    def __init__(self, path: Path, mistakes: list[str]) -> None:
        kept = "The lock before stays in force" if path.exists() else "No lock exists"
        remedy = (
            f"{kept}. State versions in the cluster file that the repositories have, or let the repositories have the stated ones again "
            "(a mirror keeps them), and run this again."
        )
        self.mistakes = [*mistakes, remedy]
        head = f"{path} was not written: with the versions of the repositories the cluster file cannot be installed."
        super().__init__("\n".join([head, *self.mistakes]))


@dataclass(frozen=True)
class LockReport:
    """Result of a run, or its prediction in check mode. `lines` has a line for each package that changes for the nodes.

    `warnings`: keys that nothing was compared with, and sets of profiles that a lock that stays cannot serve.
    """

    path: str
    changed: bool
    msg: str
    lines: list[str] = field(default_factory=list)
    sha256: str = ""
    warnings: list[str] = field(default_factory=list)


def resolve(cluster: Cluster, mode: str, origins: bool = False, check: bool = False) -> LockReport:
    """Write the lock beside the cluster file if `mode` and what exists call for it; in check mode to a place that only this run reads.

    `origins`: read the owners' repositories also where the nodes read a mirror. IndexReadError, LockError: all mistakes.
    UnmetError: a profile cannot be installed with what the repositories have, so nothing was written.
    """
    path = lock_document.path_of(cluster.path)
    if path is None or (mode == OFF and not path.exists()):
        return LockReport("", False, "no lock is read or written: bedplate's table has the versions")
    if mode == OFF:
        return LockReport(str(path), False, f"no lock is written; the versions of {path} are used as long as it exists")
    if not any(one.gpu_stack and one.gpus for one in cluster.profiles.values()):
        return LockReport(
            str(path), False, f"{cluster.path}: no profile has GPUs and a `gpu_stack`, so no lock is needed"
        )
    if path.exists() and mode == MISSING:
        lock = lock_document.read(cluster.path)
        text = f"{path} exists and stays as it is; -e gpu_resolve=update reads the repositories again"
        return LockReport(
            str(path), False, text, sha256=lock.sha256 if lock else "", warnings=mistakes_with(cluster, lock)
        )
    # The owners' repositories are read to build the mirror, whose key may not exist yet.
    keys = judged(cluster, mirrors=not origins)
    if keys.mistakes:
        raise IndexReadError(keys.mistakes)
    before = _before(cluster, path)
    try:
        after = read_lock.read(cluster, stack_table.default(), origins)
    except IndexReadError as error:
        raise IndexReadError([*error.mistakes, _remedy(path)]) from None
    if unmet := mistakes_with(cluster, after, is_new=True):
        raise UnmetError(path, unmet)
    # Bytes: an unusable lock, which an update replaces, may be no text.
    changed = lock_document.text_of(after).encode() != (path.read_bytes() if path.exists() else b"")
    target = lock_document.predicted_path_of(cluster.path) if check else path
    if changed and target:
        lock_document.write(target, after)
    found = lock_changes.lines(lock_changes.changes(cluster, before, after))
    return LockReport(
        str(path), changed, _message(path, before, after, changed, found, check), found, after.sha256, keys.notices
    )


def _before(cluster: Cluster, path: Path) -> GpuLock | None:
    """Return the lock that is replaced; None for an unusable lock, which an update replaces."""
    try:
        return lock_document.read(cluster.path) if path.exists() else None
    except LockError:
        return None


def _remedy(path: Path) -> str:
    return (
        f"{path} was not written. Run this where the repositories of the GPU nodes can be read, as a machine with a route to them "
        "(http_proxy and https_proxy of the environment are used), and keep the file in git. Or set gpu_resolve: 'off', to use the "
        "versions of bedplate's table without a lock."
    )


def _message(path: Path, before: GpuLock | None, after: GpuLock, changed: bool, found: list[str], check: bool) -> str:
    if not changed:
        return f"{path} is as the indexes of the repositories are"
    packages = sum(len(one.packages) for sources in after.systems.values() for one in sources.values())
    verb = "would be written" if check else "written"
    head = f"{path} {verb}: versions of {packages} packages for {', '.join(sorted(after.systems))}"
    since = "bedplate's table" if before is None else "the lock before"
    nodes = f"changes for the nodes since {since}" if found else f"no package of a node changes since {since}"
    return f"{head}; {nodes}"
