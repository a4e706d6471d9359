# SPDX-License-Identifier: GPL-3.0-or-later
"""An image of 24 MiB with everything that the installer needs of an image, made without root in a moment."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
ROOT_START = 2 * MIB
_TABLE = "label: gpt\nstart=1MiB, size=1MiB, name=bios\nstart=2MiB, size=21MiB, name=root\n"


@dataclass(frozen=True)
class SmallImage:
    """A compressed image, and the values that an order has of it."""

    path: Path
    sha256: str
    raw_sha256: str
    raw_bytes: int


def make(folder: Path) -> SmallImage:
    """Make the image in a folder: GPT, and an ext4 with /etc, /etc/ssh, /root and a file that fills some MiB."""
    root, raw, image = folder / "root", folder / "raw", folder / "image.img.zst"
    for name in ("etc/ssh", "etc/bedplate", "etc/systemd/network", "root"):
        (root / name).mkdir(parents=True)
    (root / "etc/hostname").write_text("image\n")
    (root / "noise").write_bytes(noise())
    with raw.open("wb") as stream:
        stream.truncate(24 * MIB)
    subprocess.run(["/usr/sbin/sfdisk", "--quiet", str(raw)], input=_TABLE, text=True, check=True, capture_output=True)
    options = [
        "-q",
        "-F",
        "-t",
        "ext4",
        "-O",
        "^orphan_file,^metadata_csum_seed",
        "-E",
        f"offset={ROOT_START},root_owner=0:0",
    ]
    subprocess.run(["/usr/sbin/mke2fs", *options, "-d", str(root), str(raw), "21m"], check=True, capture_output=True)
    # Code in the first sector, as a boot loader has it.
    with raw.open("r+b") as stream:
        stream.write(b"\xeb\x63boot")
    subprocess.run(["zstd", "-q", str(raw), "-o", str(image)], check=True, capture_output=True)
    return SmallImage(image, _sha256(image), _sha256(raw), 24 * MIB)


def noise() -> bytes:
    """Return the 3 MiB of /noise, which nothing compresses."""
    return b"".join(hashlib.sha256(b"%d" % number).digest() for number in range(3 * MIB // 32))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
