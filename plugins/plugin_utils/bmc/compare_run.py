# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare firmware and BIOS of many machines with the profiles of the site; nothing is written to a machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...module_utils.common.finding import Finding
from ..cluster.schema import reader
from ..cluster.schema.metal_section import BIOS_FOLDER, FIRMWARE_FOLDER
from ..redfish.client import Client
from ..redfish.live_reader import reader_of
from ..redfish.machine_reading import FIRMWARE as FIRMWARE_PART
from ..redfish.machine_reading import read_machine
from ..redfish.profiles import bios, firmware
from ..redfish.profiles.firmware import FirmwareRow
from ..redfish.profiles.profile_files import (
    BiosProfile,
    FirmwareProfile,
    ProfileError,
    bios_profile,
    firmware_profile,
)
from ..redfish.resources import attribute_registry
from ..redfish.resources.attribute_registry import AttributeRegistry
from ..redfish.resources.reader import Get, Resource, link, optional
from .bmc_targets import Target
from .power_run import require_identity

BIOS, FIRMWARE = "bios", "firmware"
FOLDERS = {BIOS: BIOS_FOLDER, FIRMWARE: FIRMWARE_FOLDER}
_PAGE = "docs/how-to/bmcs.md"
SiteProfile = BiosProfile | FirmwareProfile


@dataclass(frozen=True)
class Compared:
    """The comparison of one machine: its findings, its facts for the report, and rows of firmware for the plan of waves."""

    findings: list[Finding] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[FirmwareRow] = field(default_factory=list)


def name_of(target: Target, subject: str) -> str:
    """Return the name of the file that a machine is compared with, "" without one. `subject`: bios or firmware."""
    metal = target.profile.metal if target.profile else None
    return "" if metal is None else metal.bios if subject == BIOS else metal.firmware


def profiles_of(targets: Mapping[str, Target], subject: str, cluster_file: str) -> dict[str, SiteProfile]:
    """Return name -> profile, of all files that the machines need. ProfileError: the mistakes of all files."""
    folder = Path(cluster_file).parent / FOLDERS[subject]
    found: dict[str, SiteProfile] = {}
    mistakes: list[str] = []
    for name in sorted({name_of(one, subject) for one in targets.values()} - {""}):
        path = folder / f"{name}.yml"
        try:
            data, _lines, twice = reader.read(str(path), _PAGE)
            if twice:
                raise reader.ClusterFileError(str(path), twice)
            found[name] = bios_profile(data, name) if subject == BIOS else firmware_profile(data, name)
        except ProfileError as error:
            mistakes += [f"{path}: {one}" for one in error.mistakes]
        except (reader.ClusterFileError, OSError) as error:
            mistakes.append(str(error))
    if mistakes:
        raise ProfileError(subject, mistakes)
    return found


class Registries:
    """Attribute registries by BIOS, each read from one machine: a registry has a thousand entries, and all machines of a model share it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._known: dict[tuple[str, ...], AttributeRegistry] = {}

    def of(self, key: tuple[str, ...], read: Callable[[], AttributeRegistry]) -> AttributeRegistry:
        """Return the registry of a key; others with this key wait for the first one. A failed read is repeated by the next."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._known:
                self._known[key] = read()
            return self._known[key]


def comparison(
    targets: Mapping[str, Target], profiles: Mapping[str, SiteProfile], subject: str
) -> Callable[[Client], Compared]:
    """Return the function that compares the machine of one BMC, for `contact`."""
    registries = Registries()

    def compared(client: Client) -> Compared:
        target = targets[client.bmc.node]
        profile = profiles[name_of(target, subject)]
        is_firmware = isinstance(profile, FirmwareProfile)
        machine = read_machine(client, serial=target.recorded.serial, only=(FIRMWARE_PART,) if is_firmware else ())
        require_identity(client.error, target, machine)
        if is_firmware and not machine.dialect.firmware_listed:
            return Compared([firmware.not_listed()], {"profile": profile.name})
        get = reader_of(client)
        if isinstance(profile, FirmwareProfile):
            return _firmware(profile, get)
        return _bios(profile, get, get(machine.system.path), registries)

    return compared


def _firmware(profile: FirmwareProfile, get: Get) -> Compared:
    items = firmware.read_inventory(get)
    rows = firmware.compare_firmware(profile, items)
    facts = {"profile": profile.name, "firmware": {one.id: one.version for one in items}}
    return Compared(firmware.findings(rows), facts, rows)


def _bios(profile: BiosProfile, get: Get, system: Resource, registries: Registries) -> Compared:
    version = str(system.get("BiosVersion") or "").strip() or firmware.bios_version(firmware.read_inventory(get))
    resource = optional(get, link(system, "Bios"))
    names = [str(one.get(key) or "") for one, key in ((system, "Manufacturer"), (system, "Model"))]
    key = (*names, version, str(resource.get("AttributeRegistry") or ""))
    registry = registries.of(key, lambda: attribute_registry.find(get, resource)) if resource else None
    state = bios.read_state(get, system, registry, version)
    attributes = {name: state.attributes.get(name) for name in profile.attributes}
    pending = {name: one for name, one in state.pending.items() if name in profile.attributes}
    facts: dict[str, Any] = {"profile": profile.name, "version": state.version, "attributes": attributes}
    return Compared(bios.findings(profile, state), {**facts, **({"pending": pending} if pending else {})})
