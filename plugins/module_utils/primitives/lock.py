# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep two runs apart that change the same part of a machine: they wait for each other, and the second sees what the first has changed."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .files.manifest import NodeFilesError


@contextmanager
def one_at_a_time(directory: Path, manifest: str) -> Iterator[None]:
    """Hold the lock of a part of this machine. The kernel takes it back when the process ends, however it ends.

    NodeFilesError: the lock cannot be made, so that nothing keeps another run away.
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
    """Return the files whose content is not what these SHA-256 are of; one that cannot be read is changed."""
    return sorted(path for path, digest in digests.items() if _digest(Path(path)) != digest)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
