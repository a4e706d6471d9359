# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write the release of a machine's files: the field `release` of ``/var/lib/bedplate/files.json``.

The release that creates the record writes its own number, since no older one has written on the machine. Later, site.yml writes its release
at the end of a complete run, so the field is the oldest release whose files may still be on the machine.
"""

from __future__ import annotations

from pathlib import Path

from ...common.release import UNRECORDED
from .manifest import locked, read_document, write_document


def recorded_release(directory: Path) -> str:
    """Return the recorded release; "" if bedplate has written nothing, or its record cannot be read."""
    document = read_document(directory)
    return str(document.get("release") or UNRECORDED) if document else ""


def record_release(directory: Path, release: str) -> None:
    """Record a release, on a machine that has files of bedplate."""
    with locked(directory, create=False):
        document = read_document(directory)
        if document and document.get("release") != release:
            write_document(directory, {**document, "release": release})
