# SPDX-License-Identifier: GPL-3.0-or-later
"""Find locks and own rows beside a cluster file that no cluster file reads, for one after the cluster file was renamed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..gpu_rows import rows_file
from . import lock_document

_NAMES = re.compile(r".+\.gpu-(lock|table)\.(json|ya?ml)\Z")


def mistakes(cluster_file: str | Path) -> Iterator[str]:
    """Yield a text for each stray file: without it the run would write a new lock, or resolve without the site's rows."""
    own = {"lock": lock_document.path_of(cluster_file), "table": rows_file.path_of(cluster_file)}
    try:
        names = sorted(path.name for path in Path(cluster_file).parent.iterdir())
    except OSError:
        return
    read = {
        path.name
        for name in names
        for path in (lock_document.path_of(name), rows_file.path_of(name))
        if path is not None
    }
    for name in names:
        found = _NAMES.fullmatch(name)
        mine = own[found[1]] if found else None
        if mine and name not in read:
            yield f"{name} is in the same folder, and no cluster file there reads it. Allowed: {mine.name}. Rename or remove it."
