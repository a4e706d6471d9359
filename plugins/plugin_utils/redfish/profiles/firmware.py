# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the firmware of a machine, as its UpdateService lists it, with a site's profile. Nothing is applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ....module_utils.common.finding import NOTICE, WARNING, Finding
from ..resources.firmware_versions import EQUAL, NEWER, OLDER, UNKNOWN, compare, why_unknown
from ..resources.reader import ROOT, Get, Resource, link, mappings, members, optional, path_of
from .profile_files import Component, FirmwareProfile

# A component of the profile that no item of the inventory matches.
MISSING = "missing"
KIND = "firmware"
# Kinds of firmware, in the order of an update. A BMC can update all else, and the BIOS needs a BMC of its release.
BMC, BIOS, OTHER = "bmc", "bios", "other"
ORDER = (BMC, BIOS, OTHER)
_BMC_NAMES = (
    "*bmc*",
    "idrac*",
    "integrated dell remote access controller*",
    "ilo*",
    "*xcc*",
    "xclarity controller*",
    "*lifecycle controller*",
)
_BIOS_NAMES = ("bios*", "* bios*", "*_bios_*", "uefi*", "system rom*", "*sbios*")
# Copies that BMCs list beside the installed firmware: iDRAC's previous one, XCC's and iLO's backups, Supermicro's golden image.
_NOT_INSTALLED = ("previous-*", "available-*", "*backup*", "redundant *", "*golden*")


@dataclass(frozen=True)
class FirmwareItem:
    """Hold one item of FirmwareInventory. `kind` is bmc, bios or other. `version` is "" if the BMC reports none."""

    id: str
    name: str
    version: str
    kind: str
    software_id: str = ""
    updateable: bool = False

    def is_like(self, pattern: str) -> bool:
        """Return whether id, name or software id matches a shell pattern; letter case does not count."""
        return any(fnmatchcase(one.lower(), pattern.lower()) for one in (self.id, self.name, self.software_id) if one)


@dataclass(frozen=True)
class FirmwareRow:
    """Hold the comparison of one item, or of a component that no item matches (no `item`). `reason` is for unknown."""

    state: str
    component: Component
    item: FirmwareItem | None = None
    reason: str = ""

    @property
    def kind(self) -> str:
        """Return the kind of the firmware: bmc, bios or other."""
        return self.item.kind if self.item else OTHER


def read_inventory(get: Get, root: Resource | None = None) -> list[FirmwareItem]:
    """Return the installed firmware of a machine, one GET for each item; none where the BMC has no inventory."""
    service = optional(get, link(optional(get, ROOT) if root is None else root, "UpdateService"))
    items = (_item(one) for one in members(get, link(service, "FirmwareInventory")))
    return [one for one in items if not any(_is_named(one, pattern) for pattern in _NOT_INSTALLED)]


def _is_named(item: FirmwareItem, pattern: str) -> bool:
    return fnmatchcase(item.id.lower(), pattern) or fnmatchcase(item.name.lower(), pattern)


def bios_version(items: list[FirmwareItem]) -> str:
    """Return the version of the BIOS in an inventory, "" without exactly one BIOS: some Systems do not state it (GB300)."""
    found = [one.version for one in items if one.kind == BIOS]
    return found[0] if len(found) == 1 else ""


def _item(resource: Resource) -> FirmwareItem:
    identity, name = str(resource.get("Id") or ""), str(resource.get("Name") or "")
    return FirmwareItem(
        identity,
        name,
        str(resource.get("Version") or "").strip(),
        _kind(identity, name, resource),
        str(resource.get("SoftwareId") or ""),
        resource.get("Updateable") is True,
    )


def _kind(identity: str, name: str, resource: Mapping[str, Any]) -> str:
    """Return the kind of an item by what it relates to, then by its names. ERoT, FPGA and CPLD of a BMC are not the BMC."""
    related = [path_of(one).lower() for one in mappings(resource.get("RelatedItem"))]
    words = [identity.lower(), name.lower(), str(resource.get("Description") or "").lower()]
    if any(part in word for word in words for part in ("erot", "fpga", "cpld")):
        return OTHER
    if any(fnmatchcase(path, "/redfish/v1/managers/*") for path in related):
        return BMC
    if any(path.rstrip("/").endswith("/bios") for path in related):
        return BIOS
    for kind, patterns in ((BIOS, _BIOS_NAMES), (BMC, _BMC_NAMES)):
        if any(fnmatchcase(word, pattern) for word in words for pattern in patterns):
            return kind
    return OTHER


def compare_firmware(profile: FirmwareProfile, items: list[FirmwareItem]) -> list[FirmwareRow]:
    """Return a row for each item, by the first component that matches it, and for each component without an item."""
    rows: dict[int, list[FirmwareRow]] = {number: [] for number in range(len(profile.components))}
    for item in items:
        number = next((number for number, one in enumerate(profile.components) if item.is_like(one.pattern)), None)
        if number is not None:
            component = profile.components[number]
            state = compare(item.version, component.version)
            reason = why_unknown(item.version, component.version) if state == UNKNOWN else ""
            rows[number].append(FirmwareRow(state, component, item, reason))
    return [row for number, one in enumerate(profile.components) for row in rows[number] or [FirmwareRow(MISSING, one)]]


def findings(rows: list[FirmwareRow]) -> list[Finding]:
    """Return the differences of a machine's firmware from its profile. A newer version is a notice."""
    found = []
    for row in rows:
        if row.state == EQUAL:
            continue
        where = f"firmware {row.item.id if row.item else row.component.pattern}"
        shown = "no item of the inventory matches" if row.item is None else row.item.version or "no version"
        said = f"{shown} ({row.state}{f': {row.reason}' if row.reason else ''})" if row.item else shown
        found.append(Finding(KIND, where, row.component.version, said, _REMEDIES[row.state], _SEVERITIES[row.state]))
    return found


def not_listed() -> Finding:
    """Return the finding for a BMC without an UpdateService, whose firmware cannot be compared."""
    remedy = "Compare it by hand, and remove `firmware` from the profile of the machine."
    return Finding(KIND, "firmware", "an inventory of firmware", "the BMC has no UpdateService", remedy)


_REMEDIES = {
    OLDER: "Update it: playbooks/firmware.yml shows the waves.",
    NEWER: "Write the newer version into the profile, or install the profile's version by hand.",
    UNKNOWN: "Compare the two versions by hand. Write the installed one into the profile if it is right.",
    MISSING: "Correct the pattern of the profile, or look why the BMC does not list the component.",
}
_SEVERITIES = {OLDER: "error", NEWER: NOTICE, UNKNOWN: WARNING, MISSING: WARNING}
