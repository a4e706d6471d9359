# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what to do to the files of this machine. This module only reads; `file_writer` carries out the plan.

One call changes the files of one *manifest* to the desired state, and removes files that the manifest wrote earlier and no longer contains.
Check mode makes the same plan and does not carry it out.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...common.command import run
from . import blocks
from .manifest import ManagedPath, Records, digest


@dataclass(frozen=True)
class DesiredFile:
    """Desired state of one path."""

    path: str
    state: str = "file"
    content: bytes = b""
    target: str = ""
    # Empty: root, or the current user if that is not root.
    owner: str = ""
    group: str = ""
    mode: str = "0644"
    validate: str = ""
    sensitive: bool = False
    notify: list[str] = field(default_factory=list)
    # For a block: it goes after the last line that matches this pattern.
    after: str = ""
    # Reason to refuse if bedplate wrote another content, unless its digest is in `replaces`. Empty: any content may be replaced.
    refusal: str = ""
    replaces: list[str] = field(default_factory=list)
    # Units that use the content. One that runs refuses another content than one that bedplate did not write, as `replaces` allows.
    used_by: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Current:
    """Current state of one path."""

    kind: str = "absent"
    content: bytes = b""
    target: str = ""
    uid: int = -1
    gid: int = -1
    mode: int = 0


@dataclass
class FileChange:
    """Difference between the desired and the current state. `uid` or `gid` is missing if check mode lacks the user or group yet."""

    wanted: DesiredFile
    before: Current
    content: bool
    uid: int | None
    gid: int | None
    hidden: bool
    # In check mode: the parent directory or the owner does not exist yet, and a command may fail for this reason only.
    incomplete: bool = False


@dataclass
class Removal:
    """A path to remove."""

    path: str
    record: ManagedPath
    before: Current


@dataclass
class FilePlan:
    """All changes of one call, and all problems that prevent it."""

    before: Records
    records: Records = field(default_factory=dict)
    parents: list[str] = field(default_factory=list)
    changes: list[FileChange] = field(default_factory=list)
    removals: list[Removal] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Return whether any file changes, the manifest included."""
        return bool(self.parents or self.changes or self.removals) or self.records != self.before


def probe(path: str) -> Current:
    """Read the state of a path. A directory may be reached through a link; a file may not, since it is replaced by name."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Current()
    kind, content, target = "special file", b"", ""
    if stat.S_ISLNK(status.st_mode):
        kind, target = "link", str(Path(path).readlink())
    elif stat.S_ISDIR(status.st_mode):
        kind = "directory"
    elif stat.S_ISREG(status.st_mode):
        kind, content = "file", Path(path).read_bytes()
    return Current(kind, content, target, status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))


def mount_points() -> set[str]:
    """Return the mounted paths, single files included: no file can be renamed over them."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return set()
    return {line.split(" ")[4].replace("\\040", " ") for line in lines}


def mounted_problem(path: str) -> str:
    """Return the message for a file that is a mount point and cannot be replaced."""
    return (
        f"{path}: it is a mount point (a container manager or an fstab line bind-mounts this one file), so it cannot be "
        f"replaced as a whole; see: findmnt {path}. Unmount it (containers: podman run --no-hosts for /etc/hosts), or take "
        "it out of the files of this task"
    )


def plan(
    manifest: str,
    wanted: Sequence[DesiredFile],
    records: Records,
    check: bool,
    prune: bool = True,
    keep_below: Sequence[str] = (),
    predicted: Collection[str] = (),
) -> FilePlan:
    """Compare the machine with the desired files; without `prune`, no recorded file of the manifest is removed.

    Nothing below the directories `keep_below` is removed. `predicted`, in check mode: paths that an earlier task of the same run will have
    written, with the content that is desired here.
    """
    owner, group = default_owner()
    owned = [replace(entry, owner=entry.owner or owner, group=entry.group or group) for entry in wanted]
    planner = _Planner(manifest, owned, records, check, predicted if check else ())
    return planner.plan(prune, keep_below)


def default_owner() -> tuple[str, str]:
    """Return the user and the group of a file that states neither."""
    return ("root", "root") if os.geteuid() == 0 else (str(os.geteuid()), str(os.getegid()))


def ancestors(path: str) -> list[str]:
    """Return the directories above a path, the nearest first, without the root."""
    return [str(parent) for parent in Path(path).parents if str(parent) != "/"]


class _Planner:
    def __init__(
        self, manifest: str, wanted: Sequence[DesiredFile], records: Records, check: bool, predicted: Collection[str]
    ) -> None:
        self.manifest = manifest
        self.wanted = wanted
        self.predicted = predicted
        self.check = check
        self.result = FilePlan(before=records, records=dict(records))
        self.paths = {entry.path for entry in wanted}
        self.above = {parent for entry in wanted for parent in ancestors(entry.path)}
        self.mounts = mount_points()
        self.ids: dict[tuple[str, str], int | None] = {}

    def plan(self, prune: bool, keep_below: Sequence[str]) -> FilePlan:
        for entry in self.wanted:
            try:
                if entry.state == "block":
                    self._compare_block(entry)
                elif entry.path in self.predicted:
                    self._take_over(entry)
                else:
                    self._compare(entry)
            except OSError as error:
                self.result.problems.append(f"{entry.path}: cannot be read: {error.strerror}")
        self._own_parents()
        if prune:
            self._drop([directory.rstrip("/") for directory in keep_below])
        return self.result

    def _id(self, kind: str, name: str, entry: DesiredFile) -> int | None:
        if name.isdigit():
            return int(name)
        if (kind, name) not in self.ids:
            lookup: Callable[[str], int] = _user_id if kind == "user" else _group_id
            try:
                self.ids[kind, name] = lookup(name)
            except KeyError:
                self.ids[kind, name] = None
                self._missing_name(kind, name, entry)
        return self.ids[kind, name]

    def _missing_name(self, kind: str, name: str, entry: DesiredFile) -> None:
        if self.check:
            self.result.unchecked.append(f"{kind} {name} does not exist yet; it will own {entry.path}")
            return
        database = "passwd" if kind == "user" else "group"
        self.result.problems.append(
            f"{entry.path}: {kind} {name!r} not found on this machine (getent {database} {name}). The package that creates it "
            f"must be installed first; or name another {'owner' if kind == 'user' else 'group'}"
        )

    def _compare(self, entry: DesiredFile) -> None:
        result = self.result
        before = probe(entry.path)
        if entry.state == "directory" and before.kind == "link" and Path(entry.path).is_dir():
            before = probe(os.path.realpath(entry.path))
        uid, gid = (
            (None, None)
            if entry.state == "link"
            else (self._id("user", entry.owner, entry), self._id("group", entry.group, entry))
        )
        missing = self._missing_parents(entry)
        content = _differs(entry, before)
        attributes = entry.state != "link" and (before.uid, before.gid, before.mode) != (uid, gid, int(entry.mode, 8))
        old = result.before.get(entry.path)
        hidden = entry.sensitive or bool(old and old.sensitive)
        if content and entry.refusal and old and old.sha256 not in ("", digest(entry.content), *entry.replaces):
            result.problems.append(f"{entry.path}: {entry.refusal}")
        if content and entry.used_by and not old and digest(before.content) not in entry.replaces:
            self._refuse_in_use(entry, before)
        if content or attributes:
            incomplete = self.check and (bool(missing) or (entry.state != "link" and (uid is None or gid is None)))
            result.changes.append(FileChange(entry, before, content, uid, gid, hidden, incomplete))
            self._obstacles(entry, before, content, uid)
        self._record(entry, made=before.kind == "absent")

    def _take_over(self, entry: DesiredFile) -> None:
        """Plan for a path that an earlier task of this run will have written: it must be on record for this manifest too."""
        old = self.result.before.get(entry.path)
        if not (old and self.manifest in old.manifests):
            self._record(entry, made=True)

    def _record(self, entry: DesiredFile, made: bool) -> None:
        result, old = self.result, self.result.before.get(entry.path)
        owners = {self.manifest, *(old.manifests if old else [])}
        result.records[entry.path] = ManagedPath(
            type=entry.state,
            manifests=sorted(owners),
            made=old.made if old else made,
            mode="" if entry.state == "link" else entry.mode,
            sha256=digest(entry.content) if entry.state == "file" else "",
            target=entry.target,
            sensitive=entry.sensitive,
            # Manifests that share a path may each have a handler for it.
            notify=sorted({*entry.notify, *(old.notify if old and owners != {self.manifest} else [])}),
            owner="" if entry.state == "link" else entry.owner,
            group="" if entry.state == "link" else entry.group,
        )

    def _refuse_in_use(self, entry: DesiredFile, before: Current) -> None:
        """A file that bedplate did not write, with a running unit that uses it, belongs to a cluster of another tool or person."""
        running = _active(entry.used_by) if before.kind != "absent" else []
        if running:
            self.result.problems.append(
                f"{entry.path}: {', '.join(running)} runs here with another content, which bedplate did not write. Nothing was written: a "
                "new one would cut this machine off from its cluster. To keep the one of this machine, import it (docs/primitives.md, "
                "Import keys). To replace it, run with -e bedplate_new_secrets=true, or stop the unit"
            )

    def _compare_block(self, entry: DesiredFile) -> None:
        """Plan a block: a change of another program's file, which keeps its owner and mode."""
        before, old = probe(entry.path), self.result.before.get(entry.path)
        if old and old.type != "block":
            self.result.problems.append(
                f"{entry.path}: the manifest {', '.join(old.manifests)} writes this file as a whole; add the lines there"
            )
        elif before.kind == "absent" and not self.check:
            self.result.problems.append(
                f"{entry.path}: does not exist, so no lines can be added to it. Install the package that contains it first"
            )
        elif before.kind not in ("file", "absent"):
            self.result.problems.append(f"{entry.path}: is a {before.kind} on this machine; name the file itself")
        else:
            self._change_text(entry, before, blocks.placed(before.content, self.manifest, entry.content, entry.after))
        owners = {self.manifest, *(old.manifests if old else [])}
        notify = sorted({*entry.notify, *(old.notify if old else [])})
        self.result.records[entry.path] = ManagedPath("block", sorted(owners), made=False, notify=notify)

    def _change_text(self, entry: DesiredFile, before: Current, content: bytes) -> None:
        if before.kind == "absent":
            self.result.unchecked.append(f"{entry.path} does not exist yet, so only the added lines are shown")
        if content != before.content:
            mode = f"{before.mode:04o}" if before.kind == "file" else "0644"
            whole = replace(
                entry,
                state="file",
                content=content,
                owner=str(max(before.uid, 0)),
                group=str(max(before.gid, 0)),
                mode=mode,
            )
            change = FileChange(whole, before, True, before.uid, before.gid, entry.sensitive)
            self.result.changes.append(change)
            self._obstacles(whole, before, True, before.uid)

    def _obstacles(self, entry: DesiredFile, before: Current, content: bool, uid: int | None) -> None:
        problems = self.result.problems
        if before.kind == "directory" and entry.state != "directory":
            problems.append(
                f"{entry.path}: is a directory on this machine, but must be a {entry.state}. Move it away first"
            )
        elif before.kind == "special file" or (
            entry.state == "directory" and before.kind not in ("absent", "directory")
        ):
            problems.append(
                f"{entry.path}: is a {before.kind} on this machine, but must be a {entry.state}. Move it away first"
            )
        elif content and entry.state != "directory" and entry.path in self.mounts:
            problems.append(mounted_problem(entry.path))
        user = os.geteuid()
        if user != 0 and uid is not None and uid != user and before.uid != uid:
            problems.append(f"{entry.path}: only root can give it to {entry.owner}; run with become: true")

    def _missing_parents(self, entry: DesiredFile) -> list[str]:
        missing = []
        for parent in ancestors(entry.path):
            if Path(parent).is_dir():
                break
            if os.path.lexists(parent):
                self.result.problems.append(
                    f"{entry.path}: {parent} on this machine is not a directory. Move it away first"
                )
                break
            missing.append(parent)
        for parent in missing:
            if parent not in self.paths and parent not in self.result.parents:
                self.result.parents.append(parent)
                self.result.records[parent] = ManagedPath("directory", [self.manifest], made=True, mode="0755")
        return missing

    def _own_parents(self) -> None:
        """Add the directories that bedplate created and that still contain a file of any manifest."""
        for parent in self.above - self.paths:
            record = self.result.records.get(parent)
            if record:
                self.result.records[parent] = record.owned_by({*record.manifests, self.manifest})

    def _drop(self, keep_below: Sequence[str]) -> None:
        """Plan to remove the manifest's old files, the deepest path first, so that directories are empty in time."""
        own = [path for path, record in self.result.before.items() if self.manifest in record.manifests]
        kept = {path for path in own if any(path.startswith(f"{directory}/") for directory in keep_below)}
        stays = {*self.paths, *self.above, *kept, *(parent for path in kept for parent in ancestors(path))}
        dropped = [path for path in own if path not in stays]
        gone: set[str] = set()
        for path in sorted(dropped, key=lambda name: (name.count("/"), name), reverse=True):
            record = self.result.before[path]
            others = set(record.manifests) - {self.manifest}
            if record.type == "block":
                self._take_block_out(path, record)
            if others:
                self.result.records[path] = record.owned_by(others)
                continue
            del self.result.records[path]
            if record.type == "block":
                continue
            try:
                self._take_back(path, record, gone)
            except OSError as error:
                self.result.problems.append(f"{path}: cannot be read: {error.strerror}")

    def _take_block_out(self, path: str, record: ManagedPath) -> None:
        before = probe(path)
        if before.kind == "file":
            without = blocks.without_block(before.content, self.manifest)
            self._change_text(DesiredFile(path, notify=record.notify), before, without)

    def _take_back(self, path: str, record: ManagedPath, gone: set[str]) -> None:
        current = probe(path)
        if current.kind == "absent":
            gone.add(path)
            return
        reason, by_hand = _reason_to_keep(path, current, record, gone)
        if not reason:
            gone.add(path)
            self.result.removals.append(Removal(path, record, current))
            return
        self.result.kept[path] = reason
        if by_hand:
            self.result.warnings.append(
                f"{path} is no longer needed but is kept: {reason}. Remove it by hand if you do not use it"
            )


def _reason_to_keep(path: str, current: Current, record: ManagedPath, gone: set[str]) -> tuple[str, bool]:
    if not record.made:
        return "it existed before bedplate", False
    if current.kind != record.type:
        return f"bedplate created a {record.type}, but now it is a {current.kind}", True
    if record.type == "file" and digest(current.content) != record.sha256:
        return "it was changed by hand since bedplate wrote it", True
    if record.type == "link" and current.target != record.target:
        return f"it was changed by hand since bedplate created it, and now points to {current.target}", True
    if record.type == "directory" and any(str(inside) not in gone for inside in Path(path).iterdir()):
        return "it is not empty", False
    return "", False


def _differs(entry: DesiredFile, before: Current) -> bool:
    if before.kind != entry.state:
        return True
    return (entry.state == "file" and before.content != entry.content) or (
        entry.state == "link" and before.target != entry.target
    )


def _active(units: Sequence[str]) -> list[str]:
    """Return which of these units run."""
    done = run(["systemctl", "is-active", *units], 30.0)
    states = done.stdout.split("\n")
    # One line for each unit, in order; without systemd there is none.
    return [unit for unit, state in zip(units, states) if state in ("active", "activating", "reloading")]


def _user_id(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def _group_id(name: str) -> int:
    return grp.getgrnam(name).gr_gid
