# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare every file of bedplate on this machine: type, owner, group, mode, content, link target, and its lines in other files."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import Finding
from ..common.remedies import run_role_again
from ..common.sysfs import Root
from ..primitives.files import blocks
from ..primitives.files.manifest import STATE_DIRECTORY, ManagedPath, NodeFilesError, Records, digest, load

_KINDS = ((stat.S_ISLNK, "link"), (stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"))


def records(root: Root) -> Records:
    """Return the record of files that bedplate wrote on this machine; empty if it cannot be read, which `findings` reports."""
    try:
        return load(root.find(STATE_DIRECTORY))
    except (NodeFilesError, OSError):
        return {}


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Compare the rows of `expected["files"]`, and further paths of the same manifests in the machine's record.

    A row is an entry of bedplate.cluster.files: path, state, owner, group, mode, target, `sha256` (None: use that of the record),
    `role` and `manifest`.
    """
    try:
        recorded = load(root.find(STATE_DIRECTORY))
    except (NodeFilesError, OSError) as error:
        recorded = {}
        yield Finding(
            "records",
            f"record {STATE_DIRECTORY}",
            "readable",
            str(error),
            "correct what the message names, then verify again",
        )
    names = _Names(root, run)
    rows = [row for row in expected["files"] if row["state"] in ("file", "directory", "link", "block")]
    manifests = {str(row.get("manifest", "")) for row in expected["files"]}
    wanted = {row["path"]: _record(row, recorded.get(row["path"])) for row in rows}
    beside = {path: one for path, one in recorded.items() if path not in wanted and _is_of(one, manifests)}
    roles = {row["path"]: str(row.get("role", "")) for row in rows}
    for path, record in {**wanted, **beside}.items():
        owners = [roles[path]] if roles.get(path) else _manifests(record)
        yield from _compare(root, names, path, record, f"{_again(owners)}; who changed it?")


def _record(row: Mapping[str, Any], old: ManagedPath | None) -> ManagedPath:
    """Return the desired state of a path as a record."""
    owner = "" if row["state"] in ("link", "block") else "root"
    return ManagedPath(
        type=row["state"],
        manifests=sorted({str(row.get("manifest", "")), *(old.manifests if old else ())}),
        made=True,
        mode=row.get("mode", "") if row["state"] in ("file", "directory") else "",
        sha256=row.get("sha256") or (old.sha256 if old else ""),
        target=row.get("target", ""),
        owner=row.get("owner") or owner,
        group=row.get("group") or owner,
    )


def _is_of(record: ManagedPath, manifests: Collection[str]) -> bool:
    """Return whether a path belongs to a manifest, to a drop-in of a unit, or was installed with the manifest's packages."""
    bases = {name.removesuffix(".sources").removesuffix(".follow") for name in record.manifests}
    return bool(bases & set(manifests)) or any(name.startswith("drop_ins:") for name in bases)


def _compare(root: Root, names: _Names, path: str, record: ManagedPath, remedy: str) -> Iterator[Finding]:
    at = root.find(str(Path(path).parent)) / Path(path).name
    try:
        status = os.lstat(at)
        # The path may reach a directory through a link.
        if record.type == "directory" and stat.S_ISLNK(status.st_mode):
            at = root.find(path)
            status = at.stat()
    except OSError:
        yield Finding("file", f"file {path}", _expected(record), "none", remedy)
        return
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "special file")
    if kind != ("file" if record.type == "block" else record.type):
        target = str(at.readlink()) if kind == "link" else ""
        found = f"a {kind} to {target}" if target else f"a {kind}"
        # If bedplate owns only lines in a file, the file's package may make it a link.
        if record.type != "block" or not at.exists():
            yield Finding("file-type", f"file {path}", f"a {record.type}", found, remedy, overridden_by=target)
            return
    try:
        yield from _content(root, path, at, record, remedy)
    except OSError as error:
        yield Finding("file", f"file {path}", _expected(record), error.strerror or str(error), remedy)
    if record.type in ("file", "directory"):
        yield from _attributes(names, path, record, status, remedy)


def _content(root: Root, path: str, at: Path, record: ManagedPath, remedy: str) -> Iterator[Finding]:
    if record.type == "link" and str(at.readlink()) != record.target:
        found = str(at.readlink())
        yield Finding("file", f"file {path}", f"a link to {record.target}", f"a link to {found}", remedy)
    elif record.type == "file" and record.sha256 and digest(at.read_bytes()) != record.sha256:
        yield Finding("file", f"file {path}", _expected(record), "changed", remedy)
    elif record.type == "block":
        text = root.find(path).read_bytes()
        for manifest in filter(None, record.manifests):
            if not blocks.has_block(text, manifest):
                yield Finding("block", f"lines of {manifest} in {path}", "present", "none", remedy)


def _attributes(
    names: _Names, path: str, record: ManagedPath, status: os.stat_result, remedy: str
) -> Iterator[Finding]:
    mode = stat.S_IMODE(status.st_mode)
    if record.mode and mode != int(record.mode, 8):
        yield Finding("file-mode", f"mode of {path}", record.mode, f"{mode:04o}", remedy)
    for kind, database, wanted, found in (
        ("file-owner", "passwd", record.owner, status.st_uid),
        ("file-group", "group", record.group, status.st_gid),
    ):
        # A record of an older bedplate has neither field.
        if wanted and names.number(database, wanted) not in (found, None):
            yield Finding(
                kind, f"{kind[len('file-') :]} of {path}", wanted, names.name(database, found) or str(found), remedy
            )


def _expected(record: ManagedPath) -> str:
    return "as the role wrote it" if record.type == "file" else f"a {record.type}"


def _manifests(record: ManagedPath) -> list[str]:
    """Return the manifests of a path, by the names that tasks use."""
    names = {
        name.removeprefix("drop_ins:").removesuffix(".sources").removesuffix(".follow") for name in record.manifests
    }
    return sorted(filter(None, names))


def _again(roles: Iterable[str]) -> str:
    """Return the remedy that runs these roles, or roles of these manifests, again."""
    return " and ".join(dict.fromkeys(map(run_role_again, roles))) or "run the playbook that wrote it again"


class _Names:
    """Look up users and groups of the machine in its files, or else in its directory service."""

    def __init__(self, root: Root, run: Runner) -> None:
        self._run = run
        self._known: dict[str, dict[str, int]] = {}
        for database in ("passwd", "group"):
            rows = [line.split(":") for line in (root.text(f"etc/{database}", needed=False) or "").splitlines()]
            self._known[database] = {row[0]: int(row[2]) for row in rows if len(row) > 2 and row[2].isdecimal()}

    def number(self, database: str, name: str) -> int | None:
        """Return the number of a name; None if the name is unknown."""
        if name.isdecimal():
            return int(name)
        known = self._known[database]
        if name not in known:
            row = self._run(["getent", database, name]).stdout.strip().split(":")
            if len(row) > 2 and row[2].isdecimal():
                known[name] = int(row[2])
        return known.get(name)

    def name(self, database: str, number: int) -> str:
        """Return the name of a number; "" if the machine's files do not have it."""
        return next((name for name, one in self._known[database].items() if one == number), "")
