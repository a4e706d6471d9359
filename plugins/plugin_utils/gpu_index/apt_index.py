# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the indexes of an apt repository: signed Release files, and the Packages files that they list by digest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from ..gpu_stack.apt_repositories import PackageRepository
from . import fetching, signatures
from .index_model import IndexReadError, PackageIndex

_SUMS = re.compile(r"^SHA256:[ \t]*\n((?:[ \t]+.*\n?)+)", re.MULTILINE)
_ROW = re.compile(r"^[ \t]+([0-9a-f]{64})[ \t]+[0-9]+[ \t]+(\S+)[ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"^(Package|Version): *(\S+) *$", re.MULTILINE)
_END = re.compile(r"^Valid-Until: *(.+)$", re.MULTILINE)


def read(repository: PackageRepository, architecture: str) -> Iterator[PackageIndex]:
    """Yield the indexes of all suites and components; `architecture` as dpkg names it, which has also the packages of all.

    IndexReadError: a file that cannot be read, is not signed by the repository's key, or is not what the signed list says.
    """
    for suite in repository.suites:
        top, folders = _places(repository, suite, architecture)
        url, text = _release(top, repository)
        _require_valid(url, text)
        sums = {path: sha256 for rows in _SUMS.findall(text) for sha256, path in _ROW.findall(rows)}
        for component, folder in folders.items():
            yield _index(repository, f"{suite} {component}".strip(), top, folder, sums)


def _places(repository: PackageRepository, suite: str, architecture: str) -> tuple[str, dict[str, str]]:
    """Return where the Release is, and the folders of the indexes below it by component."""
    base = repository.url.rstrip("/")
    if suite.endswith("/"):
        inner = suite.removeprefix("./").strip("/")
        return f"{base}/{inner}".rstrip("/"), {"": ""}
    folders = {component: f"{component}/binary-{architecture}/" for component in repository.components}
    return f"{base}/dists/{suite}", folders


def _release(top: str, repository: PackageRepository) -> tuple[str, str]:
    url = f"{top}/InRelease"
    data = fetching.optional(url)
    if data is not None:
        return url, signatures.clear_signed(url, data, repository.key)
    url = f"{top}/Release"
    signature = fetching.optional(f"{url}.gpg")
    if signature is None:
        raise IndexReadError([f"{top}: has no InRelease and no Release.gpg, so it is not a signed repository of apt"])
    return url, signatures.detached(url, fetching.read(url), signature, repository.key).decode()


def _require_valid(url: str, text: str) -> None:
    """Refuse an index after its date of expiry: a copy may be old."""
    found = _END.search(text)
    if not found:
        return
    try:
        end = parsedate_to_datetime(found[1].replace("UTC", "GMT"))
    except ValueError:
        raise IndexReadError([f"{url}: Valid-Until {found[1]!r} is not a date"]) from None
    if end.replace(tzinfo=end.tzinfo or UTC) < datetime.now(UTC):
        raise IndexReadError(
            [f"{url}: was valid until {found[1].strip()}. The repository, or a copy of it, is no longer updated"]
        )


def _index(repository: PackageRepository, suite: str, top: str, folder: str, sums: dict[str, str]) -> PackageIndex:
    listed = {path.removeprefix("./"): sha256 for path, sha256 in sums.items()}
    # Release files name more than there is: the plain file is often left out.
    for ending in fetching.endings():
        path = f"{folder}Packages{ending}"
        packed = fetching.optional(f"{top}/{path}") if path in listed else None
        if packed is None:
            continue
        data = fetching.unpacked(path, fetching.checked(f"{top}/{path}", packed, listed[path]))
        packages = tuple(_packages(data.decode("utf-8", "replace")))
        return PackageIndex(repository.name, suite, f"{top}/{path}", listed[path], packages)
    raise IndexReadError(
        [f"{top}/{folder}Packages: the signed list of {repository.name} has no readable index of packages"]
    )


def _packages(text: str) -> Iterator[tuple[str, str]]:
    for block in re.split(r"\n[ \t]*\n", text):
        fields = dict(_FIELD.findall(block))
        if "Package" in fields and "Version" in fields:
            yield fields["Package"], fields["Version"]
