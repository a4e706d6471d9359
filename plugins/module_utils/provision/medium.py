# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the medium of one machine: an ISO with signed shim and GRUB, the kernel, the installer, and the order beside them.

GRUB puts order and CA into the installer's memory, so the kernel needs no driver for the medium, and a BMC may eject it after the start.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..common.command import find, run
from . import archive

BOOT_FILES = ("vmlinuz", "initrd.img", "efi.img")
"""Files of a boot folder that a medium needs; `efi.img` is a FAT file system with signed shim and GRUB at EFI/BOOT."""
_GRUB = """\
linux /vmlinuz boot=bedplate panic=0 {words}
initrd /initrd.img /order.cpio
boot
"""
_SECONDS = 120.0


class MediumError(Exception):
    """A medium that was not made. The text has the reason of xorriso, or the file that is missing."""


def make_medium(boot: Path, order: str, authority: bytes, out: Path, words: str = "") -> None:
    """Write the ISO of a machine, mode 0600: it has the token of the order. Raises MediumError, OSError.

    `boot` is a folder with BOOT_FILES, `order` the text of the order, `authority` the certificate of the CA (PEM), `words` are appended to
    the kernel's command line.
    """
    if missing := [name for name in BOOT_FILES if not (boot / name).exists()]:
        raise MediumError(f"{boot}: {', '.join(missing)} not found. Build the image again.")
    if find("xorriso") is None:
        raise MediumError("xorriso is missing on this machine. Install the package xorriso.")
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".medium-") as scratch:
        tree, unfinished = Path(scratch) / "tree", Path(scratch) / "iso"
        (tree / "boot/grub").mkdir(parents=True)
        (tree / ".disk").mkdir()
        # GRUB of Debian's media looks for this file to find the medium.
        (tree / ".disk/info").write_text("bedplate installer\n")
        (tree / "boot/grub/grub.cfg").write_text(_GRUB.format(words=words))
        files = {"bedplate/order/order": order.encode(), "bedplate/order/ca.pem": authority}
        (tree / "order.cpio").write_bytes(archive.pack(files))
        for name in BOOT_FILES:
            # xorriso follows the link.
            (tree / name).symlink_to(boot / name)
        options = ["-quiet", "-follow-links", "-rational-rock", "-volid", "BEDPLATE"]
        el_torito = ["-eltorito-alt-boot", "-e", "efi.img", "-no-emul-boot"]
        unfinished.touch(mode=0o600)
        done = run(["xorriso", "-as", "mkisofs", *options, *el_torito, "-o", str(unfinished), str(tree)], _SECONDS)
        if done.code != 0:
            raise MediumError(f"xorriso failed: {done.error_line}")
        unfinished.chmod(0o600)
        unfinished.rename(out)
        shutil.rmtree(tree)
