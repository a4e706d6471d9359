# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the server has an image, whole and signed, before a machine erases its disk for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ..common.command import find, run

_SECONDS = 600.0


class ImageError(Exception):
    """An image that is not served as its image.json says. The text has the file and the reason."""


def check_image(path: Path, image: Mapping[str, object], public_key: Path | None) -> None:
    """Raise ImageError unless a file is the image of an image.json, signed by the owner of a minisign key if one is given.

    The file is read once for all nodes of a run.
    """
    try:
        facts = path.stat()
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}. Build the image, and serve it.") from None
    if facts.st_size != image.get("bytes", facts.st_size):
        raise ImageError(f"{path}: {facts.st_size} bytes, and image.json says {image.get('bytes')}")
    found = _digest(path, facts.st_size, facts.st_mtime_ns)
    if found != image["sha256"]:
        raise ImageError(f"{path}: its SHA-256 is {found}, and image.json says {image['sha256']}")
    if public_key:
        _check_signature(path, public_key)


@lru_cache(maxsize=64)
def _digest(path: Path, _size: int, _changed: int) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


@lru_cache(maxsize=64)
def _check_signature(path: Path, public_key: Path) -> None:
    if find("minisign") is None:
        raise ImageError("minisign is missing on this machine. Install the package minisign.")
    # A signature of another file has another hash in it, so the comment that minisign prints is no proof, and its exit status is.
    done = run(["minisign", "-V", "-q", "-p", str(public_key), "-m", str(path)], _SECONDS)
    if done.code != 0:
        raise ImageError(f"{path}: not signed by the owner of {public_key}: {done.error_line}")
