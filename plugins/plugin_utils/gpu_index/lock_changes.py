# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two locks by what the nodes of each profile install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from ..cluster import Cluster
from ..cluster.gpu_stack_checks import request_of
from ..gpu_lock.lock_document import GpuLock
from ..gpu_lock.locked_stack import locked_stack
from ..gpu_stack.resolve import Stack, StackError


@dataclass(frozen=True)
class VersionChange:
    """A package of a set whose version changes; "": the set did not have it, or no longer has it."""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before or 'none'} -> {self.after or 'none'}"


def changes(cluster: Cluster, before: GpuLock | None, after: GpuLock) -> dict[str, list[VersionChange]]:
    """Return the changes of each profile that has some; without a lock before, from the versions of the table."""
    found = {}
    for name, profile in cluster.profiles.items():
        stack = profile.gpu_stack
        if stack is not None and profile.gpus is not None:
            request = request_of(stack, profile)
            old, new = {}, {}
            # A request that cannot be met is a mistake of the cluster file, which another check reports.
            with suppress(StackError):
                new = _versions(locked_stack(request, after, stack.rows), before is not None)
            with suppress(StackError):
                old = _versions(locked_stack(request, before, stack.rows), before is not None)
            changed = list(_changes(old, new))
            if changed and new:
                found[name] = changed
    return found


def lines(changed: dict[str, list[VersionChange]]) -> list[str]:
    """Return a line for each changed package, of all profiles that change alike."""
    profiles: dict[VersionChange, list[str]] = {}
    for name, rows in changed.items():
        for row in rows:
            profiles.setdefault(row, []).append(name)
    return [f"{row} ({', '.join(names)})" for row, names in profiles.items()]


def _versions(stack: Stack, has_components: bool) -> dict[str, str]:
    """Return name -> version of a set; what a toolkit consists of has no versions in the table."""
    versions = {one.name: one.version for one in stack.packages if one.version != "*"}
    return {**versions, **(dict(stack.component_versions) if has_components else {})}


def _changes(old: dict[str, str], new: dict[str, str]) -> Iterator[VersionChange]:
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name, ""), new.get(name, "")
        # A pattern that the version matches is the same version, written exactly.
        is_same = before == after or (before.endswith("*") and after.startswith(before[:-1]))
        if not is_same:
            yield VersionChange(name, before, after)
