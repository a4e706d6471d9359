# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a snapshot back, by its address, and refuse an incomplete or changed one."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import unquote, urlsplit

from ansible.module_utils.urls import open_url

from ..mirror_model import MirrorError
from ..signing import Signer
from .snapshot_model import MANIFEST, PACKAGES, Repository, Snapshot, parsed_packages

_SECONDS = 60.0
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")

Fetch = Callable[[str], bytes]


def read(base: str, name: str, signer: Signer, fetch: Fetch | None = None) -> Snapshot:
    """Return a snapshot below an address (http, https or file). MirrorError: all that is wrong with it.

    `signer` is the mirror's key; its public half is sufficient. Where the address is a folder of this machine, each package file must
    have its size; elsewhere the signed index proves the packages when they are installed.
    """
    address = f"{base.rstrip('/')}/{name}"
    get = fetch or _fetched
    try:
        signed = get(f"{address}/{MANIFEST}")
    except OSError as error:
        raise MirrorError(
            [
                f"snapshot {name}: {address}/{MANIFEST} cannot be read: {_why(error)}. It does not exist, or is not complete"
            ]
        ) from None
    text = signer.verified(signed.decode(errors="replace"))
    if text is None:
        raise MirrorError(
            [f"snapshot {name}: {MANIFEST} is not as key {signer.fingerprint} signed it. Make another snapshot"]
        )
    document = _document(text, name)
    mistakes: list[str] = []
    repositories = []
    for system, kinds in sorted(document["systems"].items()):
        for kind, row in sorted(kinds.items()):
            try:
                repositories.append(_repository(f"{address}/{system}/{kind}", system, kind, row, get))
            except MirrorError as error:
                mistakes += [f"snapshot {name}: {one}" for one in error.mistakes]
    if mistakes:
        raise MirrorError([*mistakes, "The snapshot is damaged. Make another one with playbooks/mirror.yml"])
    return Snapshot(name, hashlib.sha256(signed).hexdigest(), str(document["made"]), tuple(repositories))


def _document(text: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
        systems = document["systems"]
        is_right = (
            document["format"] == 1
            and document["name"] == name
            and all(
                _WORD.match(system)
                and all(_WORD.match(kind) and isinstance(row["files"], dict) for kind, row in kinds.items())
                for system, kinds in systems.items()
            )
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        is_right = False
    if not is_right:
        raise MirrorError(
            [f"snapshot {name}: {MANIFEST} has another form, or another name. Use the bedplate that made it"]
        )
    return document  # type: ignore[no-any-return]


def _repository(address: str, system: str, kind: str, row: Mapping[str, Any], get: Fetch) -> Repository:
    mistakes = []
    packages = b""
    for file, digest in sorted(row["files"].items()):
        try:
            data = get(f"{address}/{file}")
        except OSError as error:
            mistakes.append(f"{address}/{file} cannot be read: {_why(error)}")
            continue
        if hashlib.sha256(data).hexdigest() != digest:
            mistakes.append(f"{address}/{file} is not the file of its manifest")
        if file == PACKAGES:
            packages = data
    try:
        listed = parsed_packages(packages.decode())
    except ValueError as error:
        raise MirrorError([*mistakes, f"{address}/{PACKAGES}: {error}"]) from None
    if len(listed) != row["packages"] and not mistakes:
        mistakes.append(f"{address}/{PACKAGES} has {len(listed)} packages, and its manifest {row['packages']}")
    if address.startswith("file:"):
        place = Path(unquote(urlsplit(address).path))
        mistakes += [
            f"{place / one.file} is missing or has another size"
            for one in listed
            if _size(place / one.file) != one.size
        ]
    if mistakes:
        raise MirrorError(mistakes)
    return Repository(system, kind, row["manager"], listed, tuple(row["origins"]), row["files"])


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _fetched(address: str) -> bytes:
    """Return a file; OSError: it cannot be read."""
    if not address.startswith(("http://", "https://", "file://")):
        raise OSError(f"{address}: allowed: http, https and file")
    with open_url(address, timeout=_SECONDS) as answer:
        return answer.read()  # type: ignore[no-any-return]


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None) if isinstance(error, URLError) else error.strerror
    return str(reason or error)
