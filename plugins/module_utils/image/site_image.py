# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the size, the hash and the root partition of the disk in an image that was built elsewhere."""

from __future__ import annotations

import hashlib
import struct
import subprocess
from pathlib import Path
from typing import Any

from ..common.command import SEARCH_PATH, find
from .build_image import sha256
from .tools import BuildError

_SECTOR = 512
_HEAD = 1 << 20
"""Bytes of the disk that are kept: the partition table is there."""


def facts(image: Path) -> dict[str, Any]:
    """Return image.json of a compressed image. Raises BuildError, OSError."""
    digest, size, head = hashlib.sha256(), 0, bytearray()
    zstd = find("zstd")
    if zstd is None:
        raise BuildError("zstd is missing on this machine. Install the package zstd.")
    words = [zstd, "-d", "-q", "-c", str(image)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"PATH": SEARCH_PATH}) as one:
        stream = one.stdout
        while stream and (part := stream.read(1 << 20)):
            digest.update(part)
            size += len(part)
            head += part[: max(0, _HEAD - len(head))]
    if one.returncode != 0:
        raise BuildError(f"{image}: zstd cannot decompress it, exit status {one.returncode}")
    return {
        "sha256": sha256(image),
        "bytes": image.stat().st_size,
        "raw_sha256": digest.hexdigest(),
        "raw_bytes": size,
        "root_start": last_partition(bytes(head)),
    }


def last_partition(head: bytes) -> int:
    """Return the byte at which the last partition of a GPT begins. `head` is the begin of the disk. Raises BuildError."""
    header = head[_SECTOR : _SECTOR + 92]
    if len(header) < 92 or header[:8] != b"EFI PART":
        raise BuildError("the disk in the image has no GPT of 512-byte sectors")
    table, count, length = struct.unpack_from("<QII", header, 72)
    starts = []
    for number in range(min(count, 128)):
        row = head[table * _SECTOR + number * length :][:48]
        if len(row) == 48 and row[:16] != bytes(16):
            starts.append(struct.unpack_from("<Q", row, 32)[0])
    if not starts:
        raise BuildError("the GPT of the disk in the image has no partition")
    return int(max(starts) * _SECTOR)
