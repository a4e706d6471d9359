# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the record of bedplate's files on this machine: ``/var/lib/bedplate/files.json``."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...common.files import atomic_write
from ...common.release import RELEASE
from .write_problem import write_problem

STATE_DIRECTORY = "/var/lib/bedplate"
FILE_NAME = "files.json"
_VERSION = 1
_LOCK_SECONDS = 60.0


class NodeFilesError(Exception):
    """Problems on this machine that prevent the change; `problems` are whole sentences."""

    def __init__(self, problems: list[str]) -> None:
        """Keep every problem, so that one run reports them all."""
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class ManagedPath:
    """One path that bedplate manages."""

    type: str
    manifests: list[str]
    # Whether the path was empty before bedplate's first run. A file that existed before is not bedplate's to remove, even after bedplate
    # replaced its content.
    made: bool
    mode: str = ""
    sha256: str = ""
    target: str = ""
    sensitive: bool = False
    notify: list[str] = field(default_factory=list)
    # Names, or numbers as text; empty in a record of a link or a block, or of an older bedplate.
    owner: str = ""
    group: str = ""

    def owned_by(self, manifests: set[str]) -> ManagedPath:
        """Return the record with other owners."""
        return replace(self, manifests=sorted(manifests))


Records = dict[str, ManagedPath]


def digest(content: bytes) -> str:
    """Return the digest of a content for the manifest."""
    return hashlib.sha256(content).hexdigest()


def load(directory: Path) -> Records:
    """Return the records of this machine; empty if bedplate has written nothing yet."""
    path = directory / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    try:
        document = json.loads(text)
        if document["version"] != _VERSION:
            raise ValueError(f"version {document['version']!r}; this bedplate reads version {_VERSION}")
        return {name: ManagedPath(**entry) for name, entry in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodeFilesError(
            [
                f"{path}, the record of bedplate's files on this machine, cannot be read: {error}. "
                f"Restore it from a backup, or move it away (mv {path} {path}.broken): bedplate then starts a new record, "
                "and does not remove files that it wrote before"
            ]
        ) from error


def owners(directory: Path) -> set[str]:
    """Return the manifests that have files on this machine. Raises NodeFilesError if the record cannot be read."""
    return {name for record in load(directory).values() for name in record.manifests}


def save(directory: Path, records: Records) -> None:
    """Replace the record atomically, readable by root only. It keeps its release; a new record gets the present one."""
    before = read_document(directory) if (directory / FILE_NAME).exists() else {"release": RELEASE}
    release = {"release": before["release"]} if before.get("release") else {}
    files = {name: asdict(records[name]) for name in sorted(records)}
    write_document(directory, {"version": _VERSION, **release, "files": files})


def read_document(directory: Path) -> dict[str, Any]:
    """Return the whole record as it is on disk; {} if it is missing, or if it cannot be read, which `load` reports."""
    try:
        document = json.loads((directory / FILE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def write_document(directory: Path, document: dict[str, Any]) -> None:
    """Replace the whole record atomically, readable by root only."""
    text = json.dumps(document, indent=1, sort_keys=True) + "\n"
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        atomic_write(directory / FILE_NAME, text, mode=0o600)
    except OSError as error:
        raise NodeFilesError([write_problem(directory / FILE_NAME, error)]) from error


@contextlib.contextmanager
def locked(directory: Path, create: bool) -> Iterator[None]:
    """Hold the lock that lets one bedplate run decide and write at a time. It locks the directory itself, so it leaves no file."""
    if create:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not directory.is_dir():
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _wait_for_lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, directory: Path, seconds: float | None = None) -> None:
    end = time.monotonic() + (_LOCK_SECONDS if seconds is None else seconds)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise NodeFilesError(
                    [
                        f"another bedplate run has been writing files on this machine for {_LOCK_SECONDS:.0f} s "
                        f"(lock on {directory}; see who: fuser -v {directory}). Wait for it, then run again"
                    ]
                ) from None
            time.sleep(0.1)
