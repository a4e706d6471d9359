# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a site's own checks: executables of checks.d, which print JSON lines and have a deadline.

    {"check": "site-raid", "status": "warn", "device": "md0", "text": "one disk of four is missing"}

`status` is ok, warn or fail. `device` and `text` may be empty. An executable without a line reports nothing, so it is unread.
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from ..facts.node_facts import Reading
from .reading_lines import one_line, unread

PREFIX = "foreign/"
STATUSES = ("ok", "warn", "fail")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,47}\Z")
_KEYS, _LINES, _LONGEST = {"check", "status", "device", "text"}, 256, 1 << 18


def executables(folder: Path, owner: int = 0) -> tuple[list[Path], list[Reading]]:
    """Return the checks to run, and an unread reading for each file that must not run.

    A check is a regular file that only its owner can write, in a folder that only its owner can write; `owner` is root's number.
    """
    try:
        trusted, names = _is_private(folder, owner, stat.S_ISDIR), sorted(os.listdir(folder))  # noqa: PTH208 - names
    except FileNotFoundError:
        return [], []
    except OSError as error:
        return [], [_refused("checks-d", f"{folder}: {error.strerror or error}")]
    if not trusted:
        return [], [_refused("checks-d", f"{folder}: only root may own and write the folder; no check was run")]
    run: list[Path] = []
    refused: list[Reading] = []
    for name in names:
        path = folder / name
        if not _NAME.match(name):
            refused.append(_refused("checks-d", f"{path}: a name has lower-case letters, digits and -"))
        elif not _is_check(path, owner):
            refused.append(_refused(name, f"{path}: must be an executable file that only root owns and writes"))
        else:
            run.append(path)
    return run, refused


def _is_check(path: Path, owner: int) -> bool:
    try:
        return _is_private(path, owner, stat.S_ISREG) and bool(path.lstat().st_mode & stat.S_IXUSR)
    except OSError:
        return False


def _is_private(path: Path, owner: int, is_kind: Any) -> bool:
    found = path.lstat()
    return is_kind(found.st_mode) and found.st_uid == owner and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _refused(name: str, problem: str) -> Reading:
    return unread(f"{PREFIX}{name}", "", name, problem)


def parse(name: str, code: int | None, output: bytes, problem: str = "") -> list[Reading]:
    """Return the readings of a check that ended; `name` is its file, `code` None if it missed its deadline. Raises no exception.

    The value of a reading is its status, and `problem` the check's text. A line that breaks the contract is an unread reading.
    """
    found: dict[tuple[str, str], Reading] = {}
    bad = ""
    lines = output[:_LONGEST].decode("utf-8", "replace").split("\n")
    for number, text in enumerate(lines[:_LINES], 1):
        if not text.strip():
            continue
        reading = _reading(name, text)
        if reading is None:
            bad = bad or f"line {number} breaks the contract: {text[:80]!r}"
            continue
        key = (reading.quantity, reading.device)
        if key in found and found[key] != reading:
            reading = unread(*key, name, "the check wrote two results")
        found[key] = reading
    if code is None:
        bad = "missed its deadline"
    elif code != 0:
        bad = f"ended with {code}: {problem}".rstrip(": ")
    elif not found and not bad:
        bad = "wrote no line"
    if bad:
        found[f"{PREFIX}{name}", ""] = _refused(name, bad)
    return list(found.values())


def _reading(name: str, text: str) -> Reading | None:
    try:
        item = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(item, dict) or set(item) - _KEYS:
        return None
    values = {key: item.get(key, "") for key in sorted(_KEYS)}
    if not all(isinstance(one, str) for one in values.values()):
        return None
    if not _NAME.match(values["check"]) or values["status"] not in STATUSES:
        return None
    device = one_line(values["device"])
    return Reading(f"{PREFIX}{values['check']}", device, values["status"], name, one_line(values["text"]))
