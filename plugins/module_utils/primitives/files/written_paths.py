# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise a path that a run wrote, and describe a path that was changed later."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .file_plan import Current, FileChange, FilePlan, probe
from .manifest import digest


@dataclass(frozen=True)
class Written:
    """A path as a run leaves it. `kind` is as in `Current`; `sha256` is of the content of a file."""

    kind: str
    sha256: str = ""
    target: str = ""
    uid: int = -1
    gid: int = -1
    mode: int = 0


def paths_written(plan: FilePlan) -> dict[str, Written]:
    """Return path -> state after the plan, for every path that the plan writes or removes."""
    parent = Written("directory", uid=os.geteuid(), gid=os.getegid(), mode=0o755)
    written = dict.fromkeys(plan.parents, parent)
    written.update({change.wanted.path: _after(change) for change in plan.changes})
    written.update({removal.path: Written("absent") for removal in plan.removals})
    return written


def path_now(path: str, before: Current) -> Current:
    """Return the state of a path. A link to a directory is read as the directory, as in the plan."""
    now = probe(path)
    if now.kind == "link" and before.kind == "directory" and Path(path).is_dir():
        return probe(os.path.realpath(path))
    return now


def is_changed_since(now: Current, before: Current, written: Iterable[Written]) -> bool:
    """Return whether a path differs both from its state before the run and from the state that the run wrote."""
    return now != before and not any(_is_written(now, before, one) for one in written)


def difference(path: str, now: Current, before: Current, written: Sequence[Written], sensitive: bool) -> str:
    """Describe a path that was changed later; the checksum of a sensitive file is not shown."""
    wrote = f"the killed run wrote: {_words(written[-1], sensitive)}; " if written else ""
    try:
        changed = time.strftime(", last changed %Y-%m-%d %H:%M:%S UTC", time.gmtime(os.lstat(path).st_ctime))
    except OSError:
        changed = ""
    was, found = (_words(_as_written(state), sensitive) for state in (before, now))
    return f"{path}: {wrote}before it: {was}; found: {found}{changed}"


def _after(change: FileChange) -> Written:
    entry = change.wanted
    if entry.state == "link":
        return Written("link", target=entry.target)
    # A plan that is carried out has an owner and a group for every file; only a plan of check mode may have none.
    uid, gid = (-1 if number is None else number for number in (change.uid, change.gid))
    sha256 = digest(entry.content) if entry.state == "file" else ""
    return Written(entry.state, sha256, "", uid, gid, int(entry.mode, 8))


def _is_written(now: Current, before: Current, written: Written) -> bool:
    if now.kind != written.kind:
        return False
    if now.kind == "link":
        return now.target == written.target
    if now.kind == "directory" and before.kind == "absent":
        # It is removed only if it is empty. A killed run may not have set its mode yet.
        return True
    if now.kind == "file" and digest(now.content) != written.sha256:
        return False
    # Owner, group and mode are set one after the other; a run may have been killed between these steps.
    pairs = (
        (now.uid, before.uid, written.uid),
        (now.gid, before.gid, written.gid),
        (now.mode, before.mode, written.mode),
    )
    return now.kind == "absent" or all(found in both for found, *both in pairs)


def _as_written(state: Current) -> Written:
    sha256 = digest(state.content) if state.kind == "file" else ""
    return Written(state.kind, sha256, state.target, state.uid, state.gid, state.mode)


def _words(state: Written, sensitive: bool) -> str:
    if state.kind == "absent":
        return "no file"
    if state.kind == "link":
        return f"link to {state.target}"
    sha256 = f", sha256 {'not shown' if sensitive else state.sha256[:12]}" if state.kind == "file" else ""
    return f"{state.kind}, owner {state.uid}:{state.gid}, mode {state.mode:04o}{sha256}"
