# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare metal as the file states it: how machines of a profile boot, images, and the host that installs."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

GIGABYTE = 10**9


@dataclass(frozen=True, slots=True)
class SystemDisk:
    """Traits of the system disk: ranges of its size in GB (10^9 bytes), bus (nvme, sata, sas, virtio; ""), patterns of its model.

    Empty: not stated, so that every disk fits.
    """

    sizes_gb: tuple[tuple[int, int], ...] = ()
    bus: str = ""
    models: tuple[str, ...] = ()

    def fits(self, size: int, bus: str, model: str) -> bool:
        """Return whether a disk may be the system disk; `size` in bytes.

        >>> SystemDisk(((900, 1000),), "nvme", ("*PM9A3*",)).fits(960_197_124_096, "nvme", "SAMSUNG PM9A3 960G")
        True
        """
        in_range = not self.sizes_gb or any(
            first * GIGABYTE <= size <= last * GIGABYTE for first, last in self.sizes_gb
        )
        is_model = not self.models or any(fnmatchcase(model.lower(), pattern.lower()) for pattern in self.models)
        return in_range and is_model and (not self.bus or bus.lower() == self.bus)


@dataclass(frozen=True, slots=True)
class ProfileMetal:
    """Bare metal of a profile; "" and None: not stated.

    `protocol` of the BMC: redfish or ipmi, also where the file has no `bmc` (then `has_bmc` is false). `boot_firmware`: uefi or bios.
    `method`: media, http or pxe. `bios` and `firmware` name files beside the cluster file, `image` is one of `Cluster.images`.
    """

    has_bmc: bool = False
    protocol: str = "redfish"
    boot_firmware: str = "uefi"
    method: str = "media"
    secure_boot: bool | None = None
    system_disk: SystemDisk | None = None
    bios: str = ""
    firmware: str = ""
    image: str = ""


NO_METAL = ProfileMetal()


@dataclass(frozen=True, slots=True)
class Image:
    """An image of an operating system: `file` is absolute, `sha256` that of the file, `os` such as debian-13."""

    name: str
    file: str
    sha256: str
    os: str


@dataclass(frozen=True, slots=True)
class Provision:
    """Hold the rules by which machines are installed.

    `host` serves images at `address`, which is in the network `provision`, else in `management`. `window_minutes`: time in which an armed
    node must have begun. `at_once`: BMCs that get requests at once, `per_bmc`: requests to one at once, `timeout`: seconds of a request,
    `ca`: path of the certificates of the BMCs' CA ("": the fingerprint on record alone is trusted).
    """

    host: str
    address: str = ""
    window_minutes: int = 120
    at_once: int = 256
    per_bmc: int = 1
    timeout: int = 60
    ca: str = ""


NO_PROVISION = Provision(host="")
"""The limits of requests to BMCs where the file has no section `provision`."""
