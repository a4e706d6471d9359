# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a mount answers. A child per mount runs stat(1), so that a hung mount is a reading and stops nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...common.sysfs import Root
from ..facts.node_facts import Reading
from .reading_lines import NOT_SUPPORTED, unread

SOURCE = "mount"
QUANTITIES = ("mount-present", "mount-hung", "mount-read-only", "mount-free")
# The agent's unit sees all filesystems as read-only, so the table of process 1 is the better one.
_TABLE, _OWN_TABLE = "proc/1/mountinfo", "proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")
_ANSWER = re.compile(r"([0-9]{1,19}) ([0-9]{1,19})\s*\Z")


def stat_command(mount: str) -> list[str]:
    """Return the command that reports blocks and free blocks. The final dot makes an automounter mount the filesystem."""
    return ["stat", "--file-system", "--format=%b %a", f"{mount.rstrip('/')}/."]


def is_mounted(root: Root, mount: str) -> bool | None:
    """Return whether a filesystem or an automounter is mounted here; None if the table of mounts cannot be read."""
    table, _columns = _mounts(root)
    return any(True for _one in _entries(table, mount, ())) if table else None


def _mounts(root: Root) -> tuple[list[str], tuple[int, ...]]:
    """Return the table of mounts, and where `ro` counts in it: 0, options of the mount, and 1, options of the filesystem."""
    table = root.lines(_TABLE)
    return (table, (0, 1)) if table else (root.lines(_OWN_TABLE), (1,))


def _entries(table: Sequence[str], mount: str, columns: tuple[int, ...]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield type and options of all mounts at a path; the last covers the others."""
    for line in table:
        head, dash, tail = line.partition(" - ")
        fields, rest = head.split(" "), tail.split(" ")
        if not dash or len(fields) < 6 or len(rest) < 3:
            continue
        if _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]) == (mount.rstrip("/") or "/"):
            options = (fields[5].split(","), rest[2].split(","))
            yield rest[0], frozenset(one for column in columns for one in options[column])


def absent(mount: str) -> list[Reading]:
    """Return the readings of a path where no filesystem is mounted."""
    why = "not mounted"
    return [Reading("mount-present", mount, 0, SOURCE), *(unread(one, mount, SOURCE, why) for one in QUANTITIES[1:])]


def hung(mount: str, seconds: float, missed: int) -> list[Reading]:
    """Return the readings of a mount that did not answer in time; `missed`: number of deadlines in a row."""
    why = f"no answer within {seconds:g} s"
    return [
        Reading("mount-hung", mount, missed, SOURCE),
        *(unread(one, mount, SOURCE, why) for one in QUANTITIES if one != "mount-hung"),
    ]


def answered(root: Root, mount: str, code: int | None, output: bytes) -> list[Reading]:
    """Return the readings of a mount whose stat ended: present, read-only, and free space in percent."""
    table, columns = _mounts(root)
    entries = list(_entries(table, mount, columns))
    if not entries:
        return absent(mount)
    if entries[-1][0] == "autofs":
        return _unread(mount, "the automounter mounted no filesystem")
    match = _ANSWER.match(output[:200].decode("ascii", "replace"))
    if code != 0 or not match:
        return _unread(mount, f"stat ended with {code}: {output[:80]!r}")
    blocks, free = int(match[1]), int(match[2])
    readings = [
        Reading("mount-present", mount, 1, SOURCE),
        Reading("mount-hung", mount, 0, SOURCE),
        Reading("mount-read-only", mount, int("ro" in entries[-1][1]), SOURCE),
    ]
    if blocks:
        return [*readings, Reading("mount-free", mount, round(100.0 * min(free, blocks) / blocks, 1), SOURCE)]
    return [*readings, unread("mount-free", mount, SOURCE, f"{NOT_SUPPORTED}: the filesystem has no size")]


def _unread(mount: str, problem: str) -> list[Reading]:
    return [unread(one, mount, SOURCE, problem) for one in QUANTITIES]
