# SPDX-License-Identifier: GPL-3.0-or-later
"""The model: one machine as its BMC describes it. machine_reading.py reads it."""

from __future__ import annotations

from dataclasses import dataclass

from .resources.dialects import STANDARD, Dialect


@dataclass(frozen=True)
class Boot:
    """Boot override: `enabled` is Disabled, Once or Continuous, `target` and `mode` as of Redfish, `uri` is HttpBootUri.

    `targets` and `modes` are the allowable values, empty if the BMC does not list them. `has_uri`: the BMC has HttpBootUri.
    """

    enabled: str = ""
    target: str = ""
    mode: str = ""
    uri: str = ""
    targets: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    has_uri: bool = False

    @property
    def is_off(self) -> bool:
        """Return whether the machine boots in its own order."""
        return self.enabled in ("", "Disabled") or self.target == "None"

    def __str__(self) -> str:
        return (
            "Disabled"
            if self.is_off
            else " ".join(one for one in (self.enabled, self.target, self.mode, self.uri) if one)
        )


@dataclass(frozen=True)
class Reset:
    """Reset action: path of its target, reset types (empty if the BMC lists none), and path of its ActionInfo."""

    path: str
    types: tuple[str, ...] = ()
    info_path: str = ""


@dataclass(frozen=True)
class System:
    """A ComputerSystem. Fields that end in `_path` are paths of resources, "" if missing. `power` is PowerState.

    `settings_path` is the settings object, where a BMC may expect writes. `last_reset` is LastResetTime. `managers` and `chassis` are
    paths.
    """

    path: str
    etag: str = ""
    name: str = ""
    serial: str = ""
    sku: str = ""
    uuid: str = ""
    manufacturer: str = ""
    model: str = ""
    power: str = ""
    bios_version: str = ""
    boot: Boot | None = None
    reset: Reset | None = None
    last_reset: str = ""
    settings_path: str = ""
    bios_path: str = ""
    nics_path: str = ""
    storage_path: str = ""
    media_path: str = ""
    managers: tuple[str, ...] = ()
    chassis: tuple[str, ...] = ()

    def is_serial(self, serial: str) -> bool:
        """Return whether a serial number is of this system. Dell shows the one of DMI as SKU."""
        return bool(serial) and serial.casefold() in (self.serial.casefold(), self.sku.casefold())


@dataclass(frozen=True)
class Nic:
    """An Ethernet interface of the machine. `mac` is the permanent one, in lower case with colons. `mbps` is 0 if unknown."""

    path: str
    name: str
    mac: str
    mbps: int = 0
    has_link: bool | None = None


@dataclass(frozen=True)
class Drive:
    """A drive. `size` is in bytes, `protocol` such as NVMe, SAS or SATA, `kind` SSD or HDD; "" and 0 if unknown."""

    path: str
    name: str
    serial: str = ""
    size: int = 0
    protocol: str = ""
    model: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Slot:
    """A slot of virtual media. `insert_path` and `eject_path` are targets of actions, "" without an action.

    `verifies`: whether the BMC verifies the certificate of the server, None if it does not say.
    """

    path: str
    etag: str = ""
    name: str = ""
    types: tuple[str, ...] = ()
    image: str = ""
    image_name: str = ""
    is_inserted: bool = False
    insert_path: str = ""
    eject_path: str = ""
    verifies: bool | None = None

    @property
    def is_optical(self) -> bool:
        """Return whether the slot takes a CD or DVD image."""
        return bool({"CD", "DVD"} & set(self.types))


@dataclass(frozen=True)
class Manager:
    """The BMC itself. `macs` are of the BMC's interfaces."""

    path: str
    name: str = ""
    model: str = ""
    firmware: str = ""
    macs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Machine:
    """A machine. `pending` is the boot override of the settings object, None without one; `pending_etag` is its ETag.

    `other_systems` are paths of further Systems, such as a GPU baseboard. `unread` is path -> reason for optional resources that the BMC
    failed to show. `vendor` and `product` are of ServiceRoot. `dialect` is how the BMC differs, as far as the parts that were read need it.
    """

    node: str
    system: System
    vendor: str = ""
    product: str = ""
    redfish: str = ""
    nics: tuple[Nic, ...] = ()
    drives: tuple[Drive, ...] = ()
    slots: tuple[Slot, ...] = ()
    manager: Manager | None = None
    pending: Boot | None = None
    pending_etag: str = ""
    chassis_serial: str = ""
    other_systems: tuple[str, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()
    dialect: Dialect = STANDARD

    @property
    def serial(self) -> str:
        """Return the serial number of the system, of its chassis if the system shows none."""
        return self.system.serial or self.chassis_serial

    @property
    def power(self) -> str:
        """Return PowerState at the time of reading."""
        return self.system.power

    def is_serial(self, serial: str) -> bool:
        """Return whether a serial number is of this machine."""
        return self.system.is_serial(serial) or bool(serial and self.serial.casefold() == serial.casefold())

    def has_mac(self, mac: str) -> bool:
        """Return whether one of the machine's NICs has this MAC address."""
        return any(one.mac == plain_mac(mac) for one in self.nics)


def plain_mac(text: str) -> str:
    """Return a MAC address in lower case with colons; other text as it is.

    >>> plain_mac("02-00-00-00-00-AB")
    '02:00:00:00:00:ab'
    """
    digits = "".join(one for one in text.lower() if one in "0123456789abcdef")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2)) if len(digits) == 12 else text.strip().lower()
