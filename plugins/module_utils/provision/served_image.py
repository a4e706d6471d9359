# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the server has an image, whole and signed, before a machine erases its disk for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..common.command import find, run
from ..common.files import atomic_place
from .order_server import image_path

_SECONDS = 600.0


class ImageError(Exception):
    """An image that is not served as its image.json says. The text has the file and the reason."""


def read_image(directory: Path, name: str, key: Path | None) -> dict[str, Any]:
    """Return image.json of an image that is served whole, by its name below `images` of the provision host's folder. Raises ImageError."""
    path = directory / "images" / name / "image.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        served = directory / "served" / image_path(found["sha256"])[1:]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", "") or f"{type(error).__name__}: {error}"
        raise ImageError(f"{path}: {reason}. Build or copy the image to this host with provision_host.yml.") from None
    check_image(served, found, key)
    return dict(found)


def serve_image(folder: Path, served: Path, image: Mapping[str, Any]) -> bool:
    """Give an image and its signature their names below `served`, on the same file system. Return whether a name is new. Raises OSError."""
    target = served / image_path(image["sha256"])[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    is_new = False
    for end in ("", ".minisig"):
        source, name = folder / f"image.img.zst{end}", target.with_name(f"{target.name}{end}")
        if source.exists() and not (name.exists() and name.samefile(source)):
            atomic_place(source, name, 0o644)
            is_new = True
    return is_new


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
