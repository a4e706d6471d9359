# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out a plan of `file_plan`: validate everything, then write every file beside its target, then rename them all."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import textwrap
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from ...common import command as node_command
from ...common.files import create, temporary_of
from . import manifest as node_manifest
from .file_plan import DesiredFile, FileChange, FilePlan, Removal, mounted_problem, plan
from .manifest import NodeFilesError, Records
from .plan_diff import diffs
from .write_problem import write_problem


class Scratch:
    """Temporary directory of a module, created when its path is first used."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __fspath__(self) -> str:
        return str(self._module.tmpdir)


# Called with a plan before it is carried out.
Keep = Callable[[FilePlan], None]


def apply(
    manifest: str,
    wanted: list[DesiredFile],
    directory: Path,
    check: bool,
    diff: bool,
    scratch: str | os.PathLike[str],
    *,
    keep: Keep | None = None,
    prune: bool = True,
    keep_below: Sequence[str] = (),
    predicted: Collection[str] = (),
) -> dict[str, Any]:
    """Write the desired files of a manifest, and return the result of an Ansible module.

    `scratch` is a private directory in which files are validated before any change. Its path is used only if a file must be validated, so a
    run with no change does not create it. `keep` is called with the plan before the first write. Without `prune`, recorded files that are
    not in `wanted` are kept; otherwise only those below the directories `keep_below`. `predicted` is as `plan` takes it.
    """
    with node_manifest.locked(directory, create=bool(wanted) and not check):
        decided = plan(manifest, wanted, node_manifest.load(directory), check, prune, keep_below, predicted)
        _validate(decided, check, scratch)
        if decided.problems:
            raise NodeFilesError(decided.problems)
        if decided.changed and not check:
            if keep:
                keep(decided)
            _FileWriter(decided, directory).write()
    return _result(decided, diff)


def _result(decided: FilePlan, diff: bool) -> dict[str, Any]:
    notify = {name for change in decided.changes for name in change.wanted.notify}
    notify |= {name for removal in decided.removals for name in removal.record.notify}
    result: dict[str, Any] = {
        "changed": decided.changed,
        "changed_files": [*sorted(decided.parents), *(change.wanted.path for change in decided.changes)],
        "removed": [removal.path for removal in decided.removals],
        "kept": decided.kept,
        "unchecked": decided.unchecked,
        "notify": sorted(notify),
        "problems": decided.warnings,
    }
    if diff:
        result["diff"] = diffs(decided)
    return result


def _validate(decided: FilePlan, check: bool, scratch: str | os.PathLike[str]) -> None:
    for number, change in enumerate(decided.changes):
        if change.content and change.wanted.validate:
            _validate_one(decided, change, check, Path(scratch) / f"bedplate-{number}")


def _validate_one(decided: FilePlan, change: FileChange, check: bool, directory: Path) -> None:
    entry = change.wanted
    argv = shlex.split(entry.validate)
    # A script of several lines would hide the error message.
    command = textwrap.shorten(entry.validate, 60, placeholder="...")
    if not node_command.find(argv[0]):
        if check:
            decided.unchecked.append(f"{entry.path}: {argv[0]}, which validates it, is not installed yet")
        else:
            decided.problems.append(
                f"{entry.path}: cannot be validated by {entry.validate!r}: {argv[0]} not found on this machine. "
                "Install it first, or remove `validate`"
            )
        return
    # Keep the file's own name: some commands check the ending, or print the name.
    copy = directory / Path(entry.path).name
    try:
        directory.mkdir(mode=0o700)
        _write_new(copy, change)
        outcome = node_command.run([word.replace("%s", str(copy)) for word in argv])
    except OSError as error:
        decided.problems.append(f"{entry.path}: cannot be validated: {write_problem(copy, error)}")
        return
    finally:
        with contextlib.suppress(OSError):  # the directory may not exist yet
            copy.unlink(missing_ok=True)
            directory.rmdir()
    if outcome.code == 0:
        return
    said = "its output is not shown, since the file is sensitive" if change.hidden else (outcome.text or "no output")
    ending = "did not end" if outcome.code is None else f"ended with {outcome.code}"
    if change.incomplete:
        decided.unchecked.append(f"{entry.path}: {command!r} {ending}, before its owner or directory exist: {said}")
        return
    decided.problems.append(
        f"{entry.path}: {command!r} refused the new content ({ending}): {said.replace(str(copy), entry.path)}\n"
        "No file of this task was written; the old files are unchanged"
    )


def _write_new(path: Path, change: FileChange, context_of: Path | None = None) -> None:
    owner = None if change.uid is None or change.gid is None else (change.uid, change.gid)
    create(path, change.wanted.content, int(change.wanted.mode, 8), owner=owner, context_of=context_of)


class _FileWriter:
    def __init__(self, decided: FilePlan, directory: Path) -> None:
        self.plan = decided
        self.directory = directory
        self.done: Records = dict(decided.before)
        self.on_disk: Records = decided.before
        self.staged: list[tuple[Path, FileChange]] = []

    def write(self) -> None:
        """Write the manifest before the files, so that an interrupted run leaves no unrecorded file."""
        gone = {path: record for path, record in self.plan.before.items() if path not in self.plan.records}
        self._save({**gone, **self.plan.records})
        path = ""
        try:
            directories = {
                change.wanted.path: change for change in self.plan.changes if change.wanted.state == "directory"
            }
            # From the top down: a desired directory may be inside a missing one, or the other way round.
            for path in sorted([*self.plan.parents, *directories]):
                if path in directories:
                    self._make_directory(directories[path])
                else:
                    self._make_parent(path)
            for change in self.plan.changes:
                path = change.wanted.path
                self._stage(change)
            for temporary, change in list(self.staged):
                path = change.wanted.path
                temporary.replace(path)
                self.staged.remove((temporary, change))
                self._remember(path)
            for removal in self.plan.removals:
                path = removal.path
                self._remove(removal)
            self.done = dict(self.plan.records)
        except OSError as error:
            raise NodeFilesError([_explain(path, error)]) from error
        finally:
            for temporary, _change in self.staged:
                with contextlib.suppress(OSError):
                    temporary.unlink()
            self._save(self.done)

    def _save(self, records: Records) -> None:
        if records != self.on_disk:
            node_manifest.save(self.directory, records)
            self.on_disk = records

    def _remember(self, path: str) -> None:
        if path in self.plan.records:
            self.done[path] = self.plan.records[path]
        else:  # the last block was removed from another owner's file
            self.done.pop(path, None)

    def _make_parent(self, path: str) -> None:
        Path(path).mkdir(exist_ok=True)
        Path(path).chmod(0o755)  # independent of the umask
        self._remember(path)

    def _make_directory(self, change: FileChange) -> None:
        entry = change.wanted
        if change.before.kind == "absent":
            Path(entry.path).mkdir(mode=0o700)
            self._remember(entry.path)
        self._own(change)

    def _own(self, change: FileChange) -> None:
        if change.uid is None:
            raise AssertionError("a missing user is refused before")
        if change.gid is None:
            raise AssertionError("a missing group is refused before")
        os.chown(change.wanted.path, change.uid, change.gid)
        Path(change.wanted.path).chmod(int(change.wanted.mode, 8))
        self._remember(change.wanted.path)

    def _stage(self, change: FileChange) -> None:
        entry = change.wanted
        if entry.state == "directory":
            return
        if not change.content:
            self._own(change)
            return
        target = Path(entry.path)
        temporary = temporary_of(target)
        if entry.state == "link":
            temporary.symlink_to(entry.target)
        else:
            _write_new(temporary, change, target)
        self.staged.append((temporary, change))

    def _remove(self, removal: Removal) -> None:
        try:
            if removal.record.type == "directory":
                Path(removal.path).rmdir()
            else:
                Path(removal.path).unlink()
        except FileNotFoundError:
            pass
        except OSError as error:
            # Somebody created a file in it meanwhile: then it stays, like any directory that is not empty.
            if error.errno != errno.ENOTEMPTY:
                raise
        self.done.pop(removal.path, None)


def _explain(path: str, error: OSError) -> str:
    if error.errno == errno.EBUSY:
        return mounted_problem(path)
    return (
        f"{write_problem(path, error)}. Files before it in this task may be written already; correct it and run again"
    )
