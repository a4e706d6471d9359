# SPDX-License-Identifier: GPL-3.0-or-later
"""Serialise runs that change the same part of a machine; the second run sees the changes of the first."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .files.manifest import NodeFilesError


@contextmanager
def one_at_a_time(directory: Path, manifest: str) -> Iterator[None]:
    """Hold the lock of a part of this machine. The kernel releases it when the process ends for any reason.

    Raises NodeFilesError if the lock cannot be created, since another run could then interfere.
    """
    path = directory / f".{manifest}.lock"
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        stream = path.open("a")
        fcntl.flock(stream, fcntl.LOCK_EX)
    except OSError as error:
        raise NodeFilesError([f"{path} cannot be locked: {error.strerror}. Nothing is written."]) from error
    with stream:
        yield


def changed_since(digests: Mapping[str, str]) -> list[str]:
    """Return the files whose content does not match these SHA-256 digests, or cannot be read."""
    return sorted(path for path, digest in digests.items() if _digest(Path(path)) != digest)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
