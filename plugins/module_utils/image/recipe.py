# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the contents of an image: release, packages, words of the kernel's command line, units to mask."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

BASE = (
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "procps",
    "kmod",
    "sudo",
    "ca-certificates",
    "initramfs-tools",
    "zstd",
    # Boot loaders: BIOS, and UEFI with Secure Boot.
    "grub2-common",
    "grub-pc-bin",
    "grub-efi-amd64-bin",
    "grub-efi-amd64-signed",
    "shim-signed",
)
"""Packages of each image."""
INSTALLER = ("curl", "fdisk", "e2fsprogs", "tar", "busybox", "openssh-client")
"""Programs of the installer: its initramfs copies them from the image."""
MIRROR = "http://deb.debian.org/debian"
SECURITY = "http://deb.debian.org/debian-security"


@dataclass(frozen=True)
class Recipe:
    """The contents of one image.

    `kernel` is a package; `words` are for the kernel's command line; `units` are masked; `modules` is the value of MODULES of the
    installer's initramfs (`most`, or `list` with `drivers`); `spare_mib` is free room in the root file system.
    """

    release: str = "bookworm"
    kernel: str = "linux-image-amd64"
    packages: tuple[str, ...] = ()
    words: str = ""
    units: tuple[str, ...] = ()
    modules: str = "most"
    drivers: tuple[str, ...] = ()
    mirror: str = MIRROR
    security: str = SECURITY
    components: tuple[str, ...] = ("main", "non-free-firmware")
    spare_mib: int = 128

    @property
    def installed(self) -> list[str]:
        """Return all packages of the image, in a fixed order."""
        return sorted({*BASE, *INSTALLER, *self.packages, self.kernel})

    @property
    def sources(self) -> list[str]:
        """Return the lines of sources.list."""
        parts = " ".join(self.components)
        return [
            f"deb {self.mirror} {self.release} {parts}",
            f"deb {self.mirror} {self.release}-updates {parts}",
            f"deb {self.security} {self.release}-security {parts}",
        ]

    @property
    def digest(self) -> str:
        """Return the name of this recipe: another content has another name."""
        return hashlib.sha256(json.dumps([asdict(self), BASE, INSTALLER], sort_keys=True).encode()).hexdigest()
