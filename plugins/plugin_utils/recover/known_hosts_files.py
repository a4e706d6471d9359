# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the known_hosts files that Ansible's SSH uses: whole, one process at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write

from ..common.folder_lock import folder_alone
from . import host_keys
from .host_keys import HostKeyError, Replacement


def write(files: Sequence[Path], new: Replacement, check: bool = False) -> list[str]:
    """Put the right keys of a machine into the first file, and remove its other keys from all; return the changed files.

    Raises HostKeyError if a file cannot be read or written; then this file is as before.
    """
    changed = []
    for number, path in enumerate(files):
        # A link, as in a folder of settings under git, stays one.
        path = path.resolve()
        try:
            if not check and number == 0:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.parent.is_dir():
                continue
            with folder_alone(path.parent):
                before = host_keys.read(path)
                after = new.applied(before, adds=number == 0)
                if after == before:
                    continue
                changed.append(str(path))
                if not check:
                    data = after.encode("utf-8", errors="surrogateescape")
                    atomic_write(path, data, mode=None if path.exists() else 0o600)
        except OSError as error:
            raise HostKeyError(f"{path}: cannot be written: {error.strerror}") from error
    return changed
