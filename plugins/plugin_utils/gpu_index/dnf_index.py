# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the index of a dnf repository: the signed repomd.xml, and the list of packages that it names by digest."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from xml.etree import ElementTree

from ..gpu_stack.apt_repositories import PackageRepository
from . import fetching, signatures
from .index_model import IndexReadError, PackageIndex

_REPO = "{http://linux.duke.edu/metadata/repo}"
_COMMON = "{http://linux.duke.edu/metadata/common}"
_ALGORITHMS = ("sha256", "sha384", "sha512")
_OF_ALL = "noarch"


def read(repository: PackageRepository, architecture: str) -> Iterator[PackageIndex]:
    """Yield the index of a repository; `architecture` as rpm names it. Versions are epoch:version-release, without an epoch of 0.

    IndexReadError: a file that cannot be read, is not signed by the repository's key, or is not what the signed list says.
    """
    base = repository.url.rstrip("/")
    url = f"{base}/repodata/repomd.xml"
    data = fetching.read(url)
    signature = fetching.optional(f"{url}.asc")
    if signature is None:
        raise IndexReadError([f"{url}.asc: no such file, so the repository is not signed. Nothing is read from it"])
    proven = signatures.detached(url, data, signature, repository.key)
    place, algorithm, digest = _primary(url, proven)
    packed = fetching.checked(f"{base}/{place}", fetching.read(f"{base}/{place}"), digest, algorithm)
    sha256 = digest if algorithm == "sha256" else fetching.sha256_of(packed)
    packages = tuple(_packages(f"{base}/{place}", fetching.unpacked(place, packed), architecture))
    yield PackageIndex(repository.name, "", f"{base}/{place}", sha256, packages)


def _primary(url: str, data: bytes) -> tuple[str, str, str]:
    """Return path, algorithm and digest of the list of packages."""
    try:
        root = ElementTree.fromstring(data)
    except ElementTree.ParseError as error:
        raise IndexReadError([f"{url}: is not XML: {error}"]) from None
    for row in root.iter(f"{_REPO}data"):
        place, checksum = row.find(f"{_REPO}location"), row.find(f"{_REPO}checksum")
        if row.get("type") == "primary" and place is not None and checksum is not None:
            algorithm = checksum.get("type", "")
            if algorithm not in _ALGORITHMS:
                raise IndexReadError(
                    [f"{url}: digest {algorithm!r} of the list of packages; allowed: {', '.join(_ALGORITHMS)}"]
                )
            return place.get("href", ""), algorithm, (checksum.text or "").strip()
    raise IndexReadError([f"{url}: names no list of packages (primary)"])


def _packages(url: str, data: bytes, architecture: str) -> Iterator[tuple[str, str]]:
    try:
        for _event, row in ElementTree.iterparse(BytesIO(data)):
            if row.tag != f"{_COMMON}package":
                continue
            version = row.find(f"{_COMMON}version")
            if version is not None and row.findtext(f"{_COMMON}arch") in (architecture, _OF_ALL):
                epoch = version.get("epoch") or "0"
                text = f"{version.get('ver')}-{version.get('rel')}"
                yield row.findtext(f"{_COMMON}name") or "", text if epoch == "0" else f"{epoch}:{text}"
            # A list of ten thousand packages with their files is large.
            row.clear()
    except ElementTree.ParseError as error:
        raise IndexReadError([f"{url}: is not XML: {error}"]) from None
