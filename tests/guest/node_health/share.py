# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve an empty filesystem over FUSE, as a file server that may hang: while a file exists, requests are read and not answered.

A process whose request was read and not answered is in uninterruptible sleep: SIGKILL does not end it. Usage: share.py MOUNT FILE
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import sys
from pathlib import Path

FORGET, GETATTR, STATFS, INIT, INTERRUPT, DESTROY, BATCH_FORGET = 2, 3, 17, 26, 36, 38, 42
SILENT = (FORGET, INTERRUPT, DESTROY, BATCH_FORGET)
ENOSYS = 38
# struct fuse_init_out of protocol 7.31, fuse_attr_out of a directory whose attributes are never cached, and fuse_statfs_out.
ANSWERS = {
    INIT: struct.pack("<IIIIHHIIHHI7I", 7, 31, 4096, 0, 12, 9, 4096, 1, 0, 0, 0, *[0] * 7),
    GETATTR: struct.pack("<QII6Q10I", 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o040755, 2, 0, 0, 0, 4096, 0),
    STATFS: struct.pack("<5Q4I6I", 1000, 900, 900, 10, 10, 4096, 255, 4096, 0, *[0] * 6),
}


def mount(target: str) -> int:
    """Mount the filesystem; return the descriptor of its requests."""
    descriptor = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={descriptor},rootmode=40000,user_id=0,group_id=0,allow_other"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"share", target.encode(), b"fuse", ctypes.c_ulong(0), options.encode()):
        raise OSError(ctypes.get_errno(), "mount")
    return descriptor


def serve(descriptor: int, hangs: Path) -> None:
    """Answer requests until the filesystem is unmounted."""
    waiting: list[tuple[int, int]] = []
    while True:
        if select.select([descriptor], [], [], 0.2)[0]:
            data = os.read(descriptor, 1 << 17)
            _length, code, unique = struct.unpack_from("<IIQ", data)
            if code not in SILENT:
                waiting.append((code, unique))
        while waiting and not hangs.exists():
            code, unique = waiting.pop(0)
            body = ANSWERS.get(code, b"")
            os.write(descriptor, struct.pack("<IiQ", 16 + len(body), 0 if body else -ENOSYS, unique) + body)


if __name__ == "__main__":
    serve(mount(sys.argv[1]), Path(sys.argv[2]))
