# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what files and units were before a change, on disk, until the change is proved; restore it when the change fails.

The journal of a manifest is ``/var/lib/bedplate/take_back/<manifest>.json``. It is written and synchronised before the first
file is changed, and removed when the new state is proved or the old one restored. One that a killed run left behind stays in
force: the next run goes on from what is on disk, and if that fails as well, the state before the killed run is restored.

The journal has, for each path, the state before the change and the state that the change writes. A path of a killed run is
restored only if it is still as that run wrote it. If it is as before, it needs nothing. In any other state somebody changed it
since: the journal leaves it alone and names it in `left_alone`.
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
    """A path as it was. `state` None: only its record changes; `record` None: bedplate had none of it."""

    state: Current | None
    record: ManagedPath | None
    # The states that the change leaves there: more than one where several killed runs wrote the path.
    written: tuple[Written, ...] = ()
    new_record: ManagedPath | None = None

    def followed_by(self, later: Kept) -> Kept:
        """Return what to keep when the path is changed once more before the first change was proved."""
        if self.state is None:
            # Only the record has changed so far: the record of then, and the state of now.
            return replace(later, record=self.record)
        written = tuple(dict.fromkeys((*self.written, *later.written)))
        return replace(self, written=written, new_record=later.new_record)

    def restored_record(self, now: ManagedPath | None) -> ManagedPath | None:
        """Return the record as it was, less the manifests that have left the path since, and with those that have joined it."""
        before, written, there = (set(one.manifests) if one else set() for one in (self.record, self.new_record, now))
        manifests = (before - (written - there)) | (there - written)
        base = self.record or now
        return base.owned_by(manifests) if base and manifests else None

    @property
    def sensitive(self) -> bool:
        """Whether the content is a secret, before or after the change."""
        return any(record.sensitive for record in (self.record, self.new_record) if record)


@dataclass(frozen=True)
class UnitBefore:
    """A unit as it was: whether it ran, and what `UnitFileState` systemd gave for it."""

    running: bool
    file: str


def kept_of(plan: FilePlan) -> dict[str, Kept]:
    """Return every path that carrying out a plan changes, as it is now."""
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
    """Remove from the journal of a manifest what a run without a journal has written; see `Journal.settle`."""
    journal = directory / DIRECTORY / f"{manifest}.json"
    if not journal.exists():
        return
    try:
        Journal(directory, manifest).settle(paths)
    except UnreadableJournalError:
        # A run that wrote every file of the manifest needs nothing of it; after any other, the next `take_back` reports it.
        if paths is None:
            journal.unlink()
            sync_directory(journal.parent)


class Journal:
    """What was before a change of one manifest."""

    def __init__(self, directory: Path, manifest: str) -> None:
        """Read the journal of a manifest below the state directory; a killed run may have left one."""
        self.directory = directory
        self.path = directory / DIRECTORY / f"{manifest}.json"
        self.paths: dict[str, Kept] = {}
        self.units: dict[str, UnitBefore] = {}
        # The paths that somebody changed after a run was killed, each with the difference.
        self.left_alone: dict[str, str] = {}
        # The paths that this run changes.
        self._own: set[str] = set()
        self.left_behind = self.path.exists()
        if self.left_behind:
            self._load()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed under this journal."""
        return not (self.paths or self.units)

    def keep(self, paths: Mapping[str, Kept], units: Mapping[str, UnitBefore]) -> None:
        """Add what is about to change, and write the journal to the disk; what is in it already stays as it is."""
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
        """Forget paths that are proved, and those that this run has changed. None: all paths, also those of a killed run."""
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
        """Remove the journal: every path in it is proved, restored, or changed by somebody since."""
        if self.path.exists():
            self.path.unlink()
            # Otherwise a power failure could put it back, to be restored over what is proved.
            sync_directory(self.path.parent)
        self.paths, self.units = {}, {}

    def _is_left_alone(self, path: str, kept: Kept, now: Current) -> bool:
        """Return whether somebody changed a path of a killed run since; if so, remember the difference."""
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
        """Bring every path and its record back to what it was, except those to leave alone; return what could not be."""
        with node_manifest.locked(self.directory, create=True):
            self._remove_temporaries()
            problems = [*self._restore_paths()]
            records = node_manifest.load(self.directory)
            for path, kept in self.paths.items():
                now = records.pop(path, None)
                # A directory that is not empty stays, and so does its record.
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
        # First what is new goes, which frees space; then directories from the top down, with what is in them.
        for path in [*absent, *sorted(set(states) - set(absent))]:
            try:
                _restore_one(path, states[path])
            except OSError as error:
                yield write_problem(path, error)

    def _remove_temporaries(self) -> None:
        """Remove what a killed run was about to rename over its target."""
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
            with contextlib.suppress(OSError):  # somebody else has put something into it
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
        # There is no space for both: the old content takes the place of the new one.
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
