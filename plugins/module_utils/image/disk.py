# SPDX-License-Identifier: GPL-3.0-or-later
"""Put a root file system and a boot loader into one raw disk: GPT, BIOS boot, ESP, ext4. No loop device, no mount."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .tools import BuildError, call

MIB = 1 << 20
SECTOR = 512
BIOS_MIB, ESP_MIB = (1, 1), (2, 32)
"""First MiB and length in MiB of the partition of GRUB's core image, and of the EFI system partition."""
ROOT_MIB = 34
"""First MiB of the root partition, the last of the disk: the installer grows it."""
_LABELS = (
    "label: gpt\n"
    "start={bios}MiB, size={bios_size}MiB, type=21686148-6449-6E6F-744E-656564454649, name=bios\n"
    "start={esp}MiB, size={esp_size}MiB, type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B, name=esp\n"
    "start={root}MiB, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root\n"
)
# Newer than what GRUB 2.06 and e2fsprogs of the oldest supported machine read.
_FEATURES = "^orphan_file,^metadata_csum_seed"


@dataclass(frozen=True)
class Disk:
    """A raw disk that was made: size of the disk in bytes, and the UUIDs that its boot loader and fstab name."""

    bytes: int
    root_uuid: str
    esp_serial: str


def make(root: Path, boot: Mapping[str, Path], disk: Path, plan: Disk) -> None:
    """Make a raw disk, with holes, of a root file system. Raises BuildError.

    `boot` is a path on the ESP -> the file to copy there. With /boot/grub/i386-pc/{boot,core}.img in the root, the disk boots by BIOS too.
    """
    if plan.bytes % MIB:
        raise BuildError(f"{plan.bytes} bytes of a disk are not a multiple of 1 MiB")
    with disk.open("wb") as raw:
        raw.truncate(plan.bytes)
    text = _LABELS.format(bios=BIOS_MIB[0], bios_size=BIOS_MIB[1], esp=ESP_MIB[0], esp_size=ESP_MIB[1], root=ROOT_MIB)
    script = disk.with_name("partitions")
    script.write_text(text)
    call(["sh", "-c", 'sfdisk --quiet "$1" <"$2"', "sh", str(disk), str(script)])
    _root(root, disk, plan)
    _esp(boot, disk, plan)
    if (root / "boot/grub/i386-pc/core.img").exists():
        _bios(root / "boot/grub/i386-pc", disk)


def _root(root: Path, disk: Path, plan: Disk) -> None:
    # The last MiB is the backup of the partition table.
    kib = (plan.bytes // MIB - ROOT_MIB - 1) * 1024
    extended = f"offset={ROOT_MIB * MIB},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"
    options = ["-q", "-F", "-t", "ext4", "-U", plan.root_uuid, "-L", "root", "-J", "size=16", "-O", _FEATURES]
    call(["mke2fs", *options, "-E", extended, "-d", str(root), str(disk), f"{kib}k"], 900)


def _esp(boot: Mapping[str, Path], disk: Path, plan: Disk) -> None:
    esp = disk.with_name("esp")
    fat_image(esp, ESP_MIB[1], boot, plan.esp_serial)
    with disk.open("r+b") as raw:
        raw.seek(ESP_MIB[0] * MIB)
        raw.write(esp.read_bytes())
    esp.unlink()


def fat_image(path: Path, mib: int, files: Mapping[str, Path], serial: str) -> None:
    """Make a FAT file system of files. `files` is a path in it -> the file to copy; `serial` has eight hexadecimal digits."""
    with path.open("wb") as raw:
        raw.truncate(mib * MIB)
    call(["mkfs.vfat", "-i", serial, "-n", "ESP", str(path)])
    made: set[str] = set()
    quiet: dict[str, str | None] = {"MTOOLS_SKIP_CHECK": "1"}
    for name, source in files.items():
        parts = name.split("/")[:-1]
        for folder in ("/".join(parts[: end + 1]) for end in range(len(parts))):
            if folder not in made:
                made.add(folder)
                call(["mmd", "-i", str(path), f"::/{folder}"], environment=quiet)
        call(["mcopy", "-i", str(path), str(source), f"::/{name}"], environment=quiet)


def _bios(grub: Path, disk: Path) -> None:
    """Write GRUB's boot.img into the first sector, and core.img into its partition, which boot.img then loads."""
    first = BIOS_MIB[0] * MIB // SECTOR
    boot, core = bytearray((grub / "boot.img").read_bytes()), bytearray((grub / "core.img").read_bytes())
    if len(boot) != SECTOR or len(core) > BIOS_MIB[1] * MIB:
        raise BuildError(f"GRUB's boot.img has {len(boot)} bytes, and core.img {len(core)}")
    struct.pack_into("<Q", boot, 0x5C, first)
    _start, length, segment = struct.unpack_from("<QHH", core, SECTOR - 12)
    if length != -(-len(core) // SECTOR) - 1:
        raise BuildError(f"GRUB's core.img has a list of {length} sectors, which is not its length")
    struct.pack_into("<QHH", core, SECTOR - 12, first + 1, length, segment)
    with disk.open("r+b") as raw:
        # Behind the code are the disk's identifier and the protective MBR.
        raw.write(bytes(boot[:440]))
        raw.seek(first * SECTOR)
        raw.write(bytes(core))
        raw.flush()
        os.fsync(raw.fileno())
