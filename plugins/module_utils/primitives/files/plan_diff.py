# SPDX-License-Identifier: GPL-3.0-or-later
"""Show what a plan changes, for --diff."""

from __future__ import annotations

import grp
import pwd

from .file_plan import Current, FileChange, FilePlan, Removal, default_owner

Diff = dict[str, str]

# The limit of Ansible's own diffs.
_LARGEST = 100_000


def diffs(decided: FilePlan) -> list[Diff]:
    """Return one diff a path that changes, in Ansible's form."""
    found = [_made(path) for path in sorted(decided.parents)]
    for change in decided.changes:
        found += _changed(change)
    return found + [_removed(removal) for removal in decided.removals]


def _entry(path: str, before: str, after: str, note_before: str = "", note_after: str = "") -> Diff:
    return {
        "before_header": f"{path}{note_before}",
        "after_header": f"{path}{note_after}",
        "before": before,
        "after": after,
    }


def _made(path: str) -> Diff:
    return _entry(path, "", f"directory {':'.join(default_owner())} 0755\n", " (absent)")


def _changed(change: FileChange) -> list[Diff]:
    entry, before = change.wanted, change.before
    attributes = f"{entry.owner}:{entry.group} {entry.mode}"
    if entry.state == "link":
        return [_entry(entry.path, _shown(before, change.hidden), f"link to {entry.target}\n", _note(before))]
    if entry.state == "directory":
        return [_entry(entry.path, _attributes(before), f"directory {attributes}\n", _note(before))]
    found = []
    if change.content:
        after = _text(entry.content, change.hidden)
        shown = _shown(before, change.hidden)
        if shown == after:  # both hidden or both only measured: show that they differ
            after = after.rstrip("\n") + ", new\n"
        found.append(_entry(entry.path, shown, after, _note(before)))
    # By number: one user may be written as a name and as a number.
    if (before.kind, before.uid, before.gid, before.mode) != ("file", change.uid, change.gid, int(entry.mode, 8)):
        found.append(_entry(f"{entry.path} (owner and mode)", _attributes(before), f"file {attributes}\n"))
    return found


def _removed(removal: Removal) -> Diff:
    before = _shown(removal.before, removal.record.sensitive) or _attributes(removal.before)
    return _entry(removal.path, before, "", "", " (removed)")


def _note(before: Current) -> str:
    return {"absent": " (absent)", "link": " (link)"}.get(before.kind, "")


def _shown(before: Current, hidden: bool) -> str:
    if before.kind == "file":
        return _text(before.content, hidden)
    return f"link to {before.target}\n" if before.kind == "link" else ""


def _text(content: bytes, hidden: bool) -> str:
    if hidden:
        return "content not shown: sensitive\n"
    if len(content) > _LARGEST:
        return f"content not shown: {len(content)} bytes\n"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return f"content not shown: {len(content)} bytes, not text\n"
    return f"content not shown: {len(content)} bytes, not text\n" if "\0" in text else text


def _attributes(before: Current) -> str:
    if before.kind in ("absent", "link"):
        return ""
    return f"{before.kind} {_user(before.uid)}:{_group(before.gid)} {before.mode:04o}\n"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
