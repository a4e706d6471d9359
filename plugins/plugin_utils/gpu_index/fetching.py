# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files of repositories: over HTTP, with the proxies of the environment, or from a directory."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import tempfile
import zlib
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import build_opener

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from .index_model import IndexReadError

_SECONDS = 60.0
# No index of a repository is larger: the whole of Debian's main is a fifth of it.
_MOST = 512 << 20
_UNPACK: Mapping[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".bz2": bz2.decompress,
}
ZSTD = ".zst"


def read(url: str) -> bytes:
    """Return the content of a file; IndexReadError: it cannot be read."""
    found = optional(url)
    if found is None:
        raise IndexReadError([f"{url}: no such file"])
    return found


def optional(url: str) -> bytes | None:
    """Return the content of a file, None where it does not exist; IndexReadError: it cannot be read."""
    try:
        if urlsplit(url).scheme not in ("http", "https", "file"):
            raise IndexReadError([f"{url}: allowed: an address with http, https or file"])
        with build_opener().open(url, timeout=_SECONDS) as stream:
            data: bytes = stream.read(_MOST + 1)
    except HTTPError as error:
        if error.code in (404, 410):
            return None
        raise IndexReadError([f"{url}: HTTP {error.code} {error.reason}"]) from None
    except URLError as error:
        if isinstance(error.reason, FileNotFoundError) or "No such file" in str(error.reason):
            return None
        raise IndexReadError([f"{url}: {error.reason}"]) from None
    except (OSError, ValueError, HTTPException) as error:
        # A server that does not speak HTTP, an answer that is cut off, an address such as http://host:port/.
        raise IndexReadError([f"{url}: {str(error).strip()}"]) from None
    if len(data) > _MOST:
        raise IndexReadError([f"{url}: more than {_MOST >> 20} MiB, which no index has"])
    return data


def endings() -> list[str]:
    """Return the endings of compressed files that can be read here, the smallest files first."""
    return [".xz", ".gz", ".bz2", *([ZSTD] if command.find("zstd") else []), ""]


def checked(url: str, data: bytes, digest: str, algorithm: str = "sha256") -> bytes:
    """Return the content of a file if it has this digest; IndexReadError: it has another one."""
    found = hashlib.new(algorithm, data).hexdigest()
    if found != digest:
        text = (
            f"{url}: expected {algorithm.upper()} {digest}, as the signed list of the repository says, found {found}."
        )
        raise IndexReadError([f"{text} If the repository is being updated, run it again in some minutes"])
    return data


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def unpacked(url: str, data: bytes) -> bytes:
    """Return the content of a compressed file, by its ending; IndexReadError: it cannot be unpacked."""
    ending = PurePosixPath(urlsplit(url).path).suffix
    if ending == ZSTD:
        return _zstd(url, data)
    try:
        return _UNPACK.get(ending, bytes)(data)
    except (OSError, EOFError, ValueError, lzma.LZMAError, zlib.error) as error:
        raise IndexReadError([f"{url}: cannot be unpacked: {error}"]) from None


def _zstd(url: str, data: bytes) -> bytes:
    program = command.find("zstd")
    if program is None:
        text = "is packed with zstd, and this machine has no program zstd. Install the package zstd"
        raise IndexReadError([f"{url}: {text}"])
    with tempfile.TemporaryDirectory(prefix="bedplate-index-") as name:
        source, target = Path(name) / "packed", Path(name) / "plain"
        source.write_bytes(data)
        done = command.run([program, "--decompress", "--quiet", "-o", str(target), str(source)])
        if done.code != 0:
            raise IndexReadError([f"{url}: cannot be unpacked: {done.error_line}"])
        return target.read_bytes()
