# SPDX-License-Identifier: GPL-3.0-or-later
"""Which release of bedplate a machine's files are of: the field `release` of ``/var/lib/bedplate/files.json``.

The release that makes the list records itself, since no older one has written on the machine. Later site.yml records its own when it has
come to its end there, so the field names the oldest release whose files may still be on the machine.
"""

from __future__ import annotations

from pathlib import Path

from ...common.release import UNRECORDED
from .manifest import locked, read_document, write_document


def recorded_release(directory: Path) -> str:
    """Return the release on record; "" where bedplate has written nothing, or its list cannot be read."""
    document = read_document(directory)
    return str(document.get("release") or UNRECORDED) if document else ""


def record_release(directory: Path, release: str) -> None:
    """Record a release on a machine on which bedplate has written."""
    with locked(directory, create=False):
        document = read_document(directory)
        if document and document.get("release") != release:
            write_document(directory, {**document, "release": release})
