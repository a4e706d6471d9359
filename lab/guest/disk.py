# SPDX-License-Identifier: GPL-3.0-or-later
"""A bootable disk from a folder, without a loop device: GRUB's stages and a partition table, and behind them one file system."""

from __future__ import annotations

import struct
from pathlib import Path

from lab.guest.recipe import DISK_MIB, UUID
from lab.shell import LabError, capture

SECTOR = 512
FIRST = 2048
"""First sector of the partition. What is before it is GRUB's."""
_TABLE, _ENTRY = 446, "<B3sB3sII"
_CODE = 440
_ACTIVE, _LINUX = 0x80, 0x83
# Addresses by cylinder, head and sector end here, and nobody reads them any more.
_BEYOND = b"\xfe\xff\xff"
_GRUB = Path("boot/grub/i386-pc")
_FEATURES = "^orphan_file,^metadata_csum_seed"
"""Newer than what some supported machine's mke2fs or GRUB's own reader knows."""


def head(boot: bytes, core: bytes, sectors: int) -> bytes:
    """Return what is before the partition of a disk with so many sectors; `boot` and `core` are GRUB's boot.img and core.img.

    boot.img loads sector 1, the first of core.img, whose last bytes say where the rest is: contiguous from sector 2 on, as grub-mkimage
    writes it. LabError: it does not, or there is no room.
    """
    room = (FIRST - 1) * SECTOR
    if len(boot) != SECTOR or len(core) > room:
        raise LabError(f"GRUB's boot.img has {len(boot)} bytes, allowed 512; its core.img {len(core)}, at most {room}")
    if (loads := struct.unpack_from("<Q", boot, 0x5C)[0]) != 1:
        raise LabError(f"GRUB's boot.img loads sector {loads}; core.img is put into sector 1")
    start, length = struct.unpack_from("<QH", core, SECTOR - 12)
    rest = -(-len(core) // SECTOR) - 1
    if (start, length) != (2, rest):
        raise LabError(
            f"GRUB's core.img needs {length} sectors from {start} on; it has {rest}, which begin at sector 2"
        )
    entry = struct.pack(_ENTRY, _ACTIVE, _BEYOND, _LINUX, _BEYOND, FIRST, sectors - FIRST)
    first = boot[:_CODE].ljust(_TABLE, b"\0") + entry.ljust(4 * len(entry), b"\0") + b"\x55\xaa"
    return (first + core).ljust(FIRST * SECTOR, b"\0")


def make(root: Path, disk: Path) -> None:
    """Make a raw disk, with holes, of a root file system that has /boot/grub/i386-pc/{boot,core}.img."""
    with disk.open("wb") as raw:
        raw.truncate(DISK_MIB << 20)
        raw.write(
            head((root / _GRUB / "boot.img").read_bytes(), (root / _GRUB / "core.img").read_bytes(), DISK_MIB << 11)
        )
    offset = FIRST * SECTOR
    # Nothing is left for the guest's kernel to do at its first mount.
    extended = f"offset={offset},lazy_itable_init=0,lazy_journal_init=0"
    options = ["-q", "-F", "-t", "ext4", "-U", UUID, "-L", "root", "-J", "size=16", "-O", _FEATURES, "-E", extended]
    kib = (DISK_MIB << 10) - (offset >> 10)
    why = f"The guest's file system could not be made from {root}."
    capture(["mke2fs", *options, "-d", str(root), str(disk), f"{kib}k"], why=why, timeout=600)
