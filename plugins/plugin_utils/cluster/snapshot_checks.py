# SPDX-License-Identifier: GPL-3.0-or-later
"""Check `snapshots`: repositories of every system of the machines, nodes that test, and the file of the promoted snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from ..gpu_stack import stack_table
from ..gpu_stack.stack_model import ARCHITECTURES
from ..snapshots import snapshot_lock
from ..snapshots.snapshot_lock import SnapshotLock, SnapshotLockError
from .model import Node, Profile, SnapshotOrigin, Snapshots
from .package_access import refuse_password
from .rack_layout import Floor, hostlist
from .schema.fields import Mistakes, Path

_AT: Path = ("snapshots",)
_SYSTEM = "system"


def snapshots_of(data: Mapping[str, Any] | None, floor: Floor, file: str, mistakes: Mistakes) -> Snapshots | None:
    """Return the section `snapshots`; None if the file lacks it, or lacks what nothing can be without."""
    if data is None:
        return None
    try:
        lock = snapshot_lock.read(file)
    except SnapshotLockError as error:
        lock = SnapshotLock()
        for text in error.mistakes:
            mistakes.add(_AT, text)
    origins = tuple(_origins(data["repositories"] or (), file, mistakes))
    _check_architectures(origins, mistakes)
    if data["url"]:
        refuse_password((*_AT, "url"), data["url"], mistakes)
    found = Snapshots(
        url=(data["url"] or "").rstrip("/"),
        key=_beside(data["key"] or "", file),
        fingerprints=tuple(filter(None, data["fingerprint"] or ())),
        system=_system(data["system"] or "", origins, mistakes),
        test=tuple(_test(data["test"] or (), floor, mistakes)),
        repositories=origins,
        lock=lock,
    )
    _check_profiles(found, floor, mistakes)
    return found


def system_of(snapshots: Snapshots, profile: Profile | None) -> str:
    """Return the name under which a snapshot has the system of a machine, such as debian-13 or debian-13-arm64.

    `profile` is None for a host outside the racks.
    """
    if profile is None or profile.gpu_stack is None:
        return snapshots.system
    return profile.gpu_stack.os


def _origins(rows: Any, file: str, mistakes: Mistakes) -> Iterator[SnapshotOrigin]:
    known = stack_table.default().systems
    for number, row in enumerate(rows):
        path = (*_AT, "repositories", number)
        if not row or not all(row[key] for key in (_SYSTEM, "kind", "url", "key")):
            continue
        system, suites, components = row[_SYSTEM], tuple(row["suites"] or ()), tuple(row["components"] or ())
        if system not in known:
            mistakes.unknown((*path, _SYSTEM), _SYSTEM, system, known)
            continue
        refuse_password((*path, "url"), row["url"], mistakes)
        if known[system].family == "deb":
            _check_suites(path, suites, components, mistakes)
        elif suites or components:
            mistakes.add(path, f"{system} has dnf, whose repositories have no suites and components. Remove them.")
        yield SnapshotOrigin(
            system,
            row["kind"],
            row["url"],
            suites,
            components,
            row["architecture"] or ARCHITECTURES[0],
            _beside(row["key"], file),
        )


def _check_suites(path: Path, suites: tuple[str, ...], components: tuple[str, ...], mistakes: Mistakes) -> None:
    flat = [suite for suite in suites if suite.endswith("/")]
    if not suites:
        mistakes.add(path, 'no `suites`. Allowed: such as [trixie, trixie-updates], or ["./"] for a flat repository.')
    elif flat and (components or len(flat) != len(suites)):
        mistakes.add(path, f"suite {flat[0]!r} is flat: it has no components, and no other suites beside it.")
    elif not flat and not components:
        mistakes.add(path, "no `components`. Allowed: such as [main].")


def _check_architectures(origins: tuple[SnapshotOrigin, ...], mistakes: Mistakes) -> None:
    for system in sorted({one.system for one in origins}):
        if len({one.architecture for one in origins if one.system == system}) > 1:
            text = f"{system} has repositories of two architectures. Allowed: one architecture for each system."
            mistakes.add((*_AT, "repositories"), text)


def _system(stated: str, origins: tuple[SnapshotOrigin, ...], mistakes: Mistakes) -> str:
    known = sorted({one.system for one in origins})
    if stated and known and stated not in known:
        mistakes.unknown((*_AT, _SYSTEM), _SYSTEM, stated, known)
    if not stated and len(known) > 1:
        mistakes.add(
            _AT, f"no `system`, and `repositories` names {', '.join(known)}. Name that of machines without `gpu_stack`."
        )
    return stated or (known[0] if known else "")


def _test(rows: Any, floor: Floor, mistakes: Mistakes) -> Iterator[str]:
    nodes = {node.name for node in floor.nodes}
    for number, text in enumerate(rows):
        path = (*_AT, "test", number)
        for name in hostlist(text, path, mistakes):
            if name in nodes:
                yield name
            elif not floor.incomplete:
                mistakes.unknown(path, "node", name, sorted(nodes))


def _check_profiles(snapshots: Snapshots, floor: Floor, mistakes: Mistakes) -> None:
    there = {one.system for one in snapshots.repositories}
    profiles = {node.profile.name: node.profile for node in floor.nodes if isinstance(node, Node)}
    for name, profile in profiles.items():
        stack = profile.gpu_stack
        if stack and stack.mirror:
            text = f"profile {name} has `gpu_stack.mirror`. Keep one of both: the snapshot has the GPU software as kind gpu."
            mistakes.add(_AT, text)
        if there and stack and stack.os not in there:
            mistakes.add(
                (*_AT, "repositories"),
                f"profile {name} has {stack.os}, and no repository is for it. Add its repositories.",
            )


def _beside(path: str, file: str) -> str:
    return str(FilePath(file).resolve().parent / path) if path else ""
