# SPDX-License-Identifier: GPL-3.0-or-later
"""Write an archive that the kernel unpacks beside an initramfs (cpio, newc).

GRUB can make one itself (`newc:`), but 2.06 writes names without their final zero byte, which kernels since 5.19 refuse.
"""

from __future__ import annotations

from collections.abc import Mapping

_FILE, _FOLDER = 0o100600, 0o040700


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files, path without a leading slash -> content, with their folders. Owner root, modes 0600 and 0700."""
    folders = {"/".join(path.split("/")[:end]) for path in files for end in range(1, path.count("/") + 1)}
    entries = [(folder, _FOLDER, b"") for folder in sorted(folders)]
    entries += [(path, _FILE, data) for path, data in sorted(files.items())]
    parts = [_entry(number, *one) for number, one in enumerate(entries, 1)]
    return b"".join([*parts, _entry(0, "TRAILER!!!", 0, b"")])


def _entry(number: int, path: str, mode: int, data: bytes) -> bytes:
    name = path.encode() + b"\0"
    # inode, mode, uid, gid, links, mtime, size, device and its number twice, length of the name, checksum.
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(head + name) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
