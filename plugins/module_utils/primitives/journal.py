# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the previous state of files and units on disk until a change is proved, and restore it if the change fails.

The journal of a manifest is ``/var/lib/bedplate/take_back/<manifest>.json``. It is written and synchronised before the first file is
changed, and removed after the new state is proved or the old state is restored. The journal of a killed run stays in force: the next run
continues from the files on disk, and if it fails as well, it restores the state before the killed run.

The journal has, for each path, the state before the change and the state that the change writes. A path of a killed run is restored only if
it is still as that run wrote it. A path that is as before the change needs nothing. A path in any other state was changed by somebody else:
the journal does not touch it and lists it in `left_alone`.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..common.files import atomic_link, atomic_write, sync_directory, temporaries_of
from .files import manifest as node_manifest
from .files.file_plan import Current, FilePlan, probe
from .files.manifest import ManagedPath, NodeFilesError
from .files.write_problem import write_problem
from .files.written_paths import Written, difference, is_changed_since, path_now, paths_written

DIRECTORY = "take_back"
_VERSION = 2


class UnreadableJournalError(NodeFilesError):
    """A journal that is damaged, or of another release."""


@dataclass(frozen=True)
class Kept:
    """Previous state of a path. `state` None: only its record changes; `record` None: bedplate had no record of it."""

    state: Current | None
    record: ManagedPath | None
    # The states that the change writes: more than one if several killed runs wrote the path.
    written: tuple[Written, ...] = ()
    new_record: ManagedPath | None = None

    def followed_by(self, later: Kept) -> Kept:
        """Return the state to keep if the path changes again before the first change is proved."""
        if self.state is None:
            # Only the record has changed so far: keep the earlier record and the present state.
            return replace(later, record=self.record)
        written = tuple(dict.fromkeys((*self.written, *later.written)))
        return replace(self, written=written, new_record=later.new_record)

    def restored_record(self, now: ManagedPath | None) -> ManagedPath | None:
        """Return the earlier record, without manifests that have dropped the path since, and with manifests that have added it."""
        before, written, there = (set(one.manifests) if one else set() for one in (self.record, self.new_record, now))
        manifests = (before - (written - there)) | (there - written)
        base = self.record or now
        return base.owned_by(manifests) if base and manifests else None

    @property
    def sensitive(self) -> bool:
        """Return whether the content is a secret, before or after the change."""
        return any(record.sensitive for record in (self.record, self.new_record) if record)


@dataclass(frozen=True)
class UnitBefore:
    """Previous state of a unit: whether it ran, and systemd's `UnitFileState`."""

    running: bool
    file: str


def kept_of(plan: FilePlan) -> dict[str, Kept]:
    """Return the present state of every path that a plan changes."""
    states: dict[str, Current | None] = {
        path: None
        for path in {*plan.before, *plan.records}
        if plan.before.get(path) != plan.records.get(path)
    }  # fmt: skip
    states.update(dict.fromkeys(plan.parents, Current()))
    states.update({change.wanted.path: change.before for change in plan.changes})
    states.update({removal.path: removal.before for removal in plan.removals})
    written = paths_written(plan)
    return {
        path: Kept(state, plan.before.get(path), (written[path],) if state else (), plan.records.get(path))
        for path, state in states.items()
    }


def settle(directory: Path, manifest: str, paths: Collection[str] | None) -> None:
    """Remove from the journal of a manifest the paths that a run without a journal has written; see `Journal.settle`."""
    journal = directory / DIRECTORY / f"{manifest}.json"
    if not journal.exists():
        return
    try:
        Journal(directory, manifest).settle(paths)
    except UnreadableJournalError:
        # A run that wrote every file of the manifest makes the journal obsolete; otherwise the next `take_back` reports it.
        if paths is None:
            journal.unlink()
            sync_directory(journal.parent)


class Journal:
    """Record of the state before a change of one manifest."""

    def __init__(self, directory: Path, manifest: str) -> None:
        """Read the journal of a manifest below the state directory; a killed run may have left it."""
        self.directory = directory
        self.path = directory / DIRECTORY / f"{manifest}.json"
        self.paths: dict[str, Kept] = {}
        self.units: dict[str, UnitBefore] = {}
        # Paths that were changed by somebody after a run was killed, each with the difference.
        self.left_alone: dict[str, str] = {}
        # Paths that this run changes.
        self._own: set[str] = set()
        self.left_behind = self.path.exists()
        if self.left_behind:
            self._load()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was changed under this journal."""
        return not (self.paths or self.units)

    def keep(self, paths: Mapping[str, Kept], units: Mapping[str, UnitBefore]) -> None:
        """Add paths and units that are about to change, and write the journal to the disk; existing entries stay unchanged."""
        for path, kept in paths.items():
            known = self.paths.get(path)
            if known and kept.state and self._is_left_alone(path, known, kept.state):
                known = None
            self.paths[path] = known.followed_by(kept) if known else kept
            if kept.state:
                self._own.add(path)
        self.units = {**units, **self.units}
        try:
            self._save()
        except OSError as error:
            raise NodeFilesError([f"{write_problem(self.path, error)}. Nothing was changed"]) from error

    def settle(self, paths: Collection[str] | None) -> None:
        """Remove proved paths and the changed paths of this run. None: all paths, also of a killed run."""
        if self.left_behind:
            with node_manifest.locked(self.directory, create=False):
                self._remove_temporaries()
        left: dict[str, Kept] = {}
        if paths is not None:
            left = {path: kept for path, kept in self.paths.items() if path not in {*paths, *self._own}}
        if not any(kept.state for kept in left.values()):
            self.clear()
        elif left != self.paths:
            self.paths = left
            self._save()

    def clear(self) -> None:
        """Remove the journal: every path in it is proved, restored, or was changed by another program or person."""
        if self.path.exists():
            self.path.unlink()
            # Otherwise a power failure could bring the journal back, and a later run would restore old files over proved ones.
            sync_directory(self.path.parent)
        self.paths, self.units = {}, {}

    def _is_left_alone(self, path: str, kept: Kept, now: Current) -> bool:
        """Return whether a path of a killed run was changed by another program or person later; if so, record the difference."""
        if path in self._own or kept.state is None or not is_changed_since(now, kept.state, kept.written):
            return False
        self.left_alone[path] = difference(path, now, kept.state, kept.written, kept.sensitive)
        return True

    def _save(self) -> None:
        document = {
            "version": _VERSION,
            "paths": {path: _row(kept) for path, kept in sorted(self.paths.items())},
            "units": {name: asdict(unit) for name, unit in sorted(self.units.items())},
        }
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        atomic_write(self.path, json.dumps(document), mode=0o600)

    def restore(self) -> list[str]:
        """Restore every path and its record, except those to leave alone; return the problems."""
        with node_manifest.locked(self.directory, create=True):
            self._remove_temporaries()
            problems = [*self._restore_paths()]
            records = node_manifest.load(self.directory)
            for path, kept in self.paths.items():
                now = records.pop(path, None)
                # A directory that is not empty is kept with its record.
                stays = kept.state and kept.state.kind == "absent" and os.path.lexists(path)
                record = kept.restored_record(now) or (now if stays else None)
                if record:
                    records[path] = record
            try:
                node_manifest.save(self.directory, records)
            except NodeFilesError as error:
                problems += error.problems
        return problems

    def _restore_paths(self) -> Iterable[str]:
        states: dict[str, Current] = {}
        for path, kept in list(self.paths.items()):
            if kept.state is None:
                continue
            try:
                is_left_alone = self._is_left_alone(path, kept, path_now(path, kept.state))
            except OSError as error:
                yield f"{path}: cannot be read: {error.strerror or error}"
                continue
            if is_left_alone:
                del self.paths[path]
            else:
                states[path] = kept.state
        absent = [path for path in sorted(states, reverse=True) if states[path].kind == "absent"]
        # Remove new paths first, which frees space; then restore directories from the top down, with their files.
        for path in [*absent, *sorted(set(states) - set(absent))]:
            try:
                _restore_one(path, states[path])
            except OSError as error:
                yield write_problem(path, error)

    def _remove_temporaries(self) -> None:
        """Remove the temporary files of a killed run."""
        for path in self.paths:
            with contextlib.suppress(OSError):
                for entry in temporaries_of(Path(path)):
                    entry.unlink()

    def _load(self) -> None:
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
            if document["version"] != _VERSION:
                raise ValueError(f"version {document['version']!r}; this bedplate reads version {_VERSION}")
            self.paths = {path: _kept(row) for path, row in document["paths"].items()}
            self.units = {name: UnitBefore(**row) for name, row in document["units"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableJournalError(
                [
                    f"{self.path}: cannot be read: {error}. It holds the files from before a run that was killed. Restore it from "
                    f"a backup. If the files on disk are as they should be, remove it"
                ]
            ) from error


def _restore_one(path: str, state: Current) -> None:
    now = probe(path)
    if state.kind == "absent":
        if now.kind == "directory":
            with contextlib.suppress(OSError):  # another program has created a file in it
                Path(path).rmdir()
        elif now.kind != "absent":
            Path(path).unlink()
        return
    if now == state:
        return
    if state.kind == "directory":
        Path(path).mkdir(mode=0o700, exist_ok=True)
        os.chown(path, state.uid, state.gid)
        Path(path).chmod(state.mode)
        return
    if (now.kind, now.content, now.target) == (state.kind, state.content, state.target):
        os.chown(path, state.uid, state.gid, follow_symlinks=False)
        if state.kind == "file":
            Path(path).chmod(state.mode)
        return
    _replace(Path(path), state, now)


def _replace(path: Path, state: Current, now: Current) -> None:
    try:
        if state.kind == "link":
            atomic_link(path, state.target)
        else:
            atomic_write(path, state.content, mode=state.mode, owner=(state.uid, state.gid))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or state.kind != "file" or now.kind != "file":
            raise
        # The disk has no space for both: write the old content over the new one.
        with path.open("wb") as stream:
            stream.write(state.content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chown(path, state.uid, state.gid)
        path.chmod(state.mode)


def _row(kept: Kept) -> dict[str, Any]:
    state = None
    if kept.state:
        state = {**asdict(kept.state), "content": base64.b64encode(kept.state.content).decode()}
    return {
        "state": state,
        "record": asdict(kept.record) if kept.record else None,
        "written": [asdict(one) for one in kept.written],
        "new_record": asdict(kept.new_record) if kept.new_record else None,
    }


def _kept(row: Mapping[str, Any]) -> Kept:
    state, record, new_record = row["state"], row["record"], row["new_record"]
    return Kept(
        Current(**{**state, "content": base64.b64decode(state["content"])}) if state else None,
        ManagedPath(**record) if record else None,
        tuple(Written(**one) for one in row["written"]),
        ManagedPath(**new_record) if new_record else None,
    )
