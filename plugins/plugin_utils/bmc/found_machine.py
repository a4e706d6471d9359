# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive from a machine, as its BMC describes it, the values that a record of machines has. What cannot be decided is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..machines.machine_values import (
    BMC_FINGERPRINT,
    BMC_MAC,
    BOOT_MAC,
    DISK_SERIAL,
    SERIAL,
    is_placeholder,
    is_right,
    normal,
)
from ..redfish.client import Client
from ..redfish.machine import Drive, Machine
from ..redfish.machine_reading import DRIVES, MANAGER, NICS, read_machine
from .bmc_targets import Target

_BUSES = {"nvme": "nvme", "nvmeoverfabrics": "nvme", "sas": "sas", "sata": "sata"}


def serial_of(machine: Machine) -> str:
    """Return the serial number as DMI shows it, "" for a placeholder. Dell has it as SKU; its SerialNumber is that of the board."""
    is_sku = machine.dialect.serial_from == "SKU"
    text = machine.system.sku if is_sku and machine.system.sku else machine.serial
    return normal(SERIAL, text)


def serials_of(machine: Machine) -> list[str]:
    """Return all serial numbers by which a machine may be on record, in small letters."""
    texts = (machine.system.serial, machine.system.sku, machine.chassis_serial)
    return list(dict.fromkeys(one.strip().casefold() for one in texts if not is_placeholder(one)))


def values_of(target: Target, machine: Machine, fingerprint: str = "") -> dict[str, str]:
    """Return key -> found value. `fingerprint` is that of a first contact.

    A recorded value that the machine has stays as it is on record. Where it has others, the value names them all, which is a difference. A
    key without a record has a value only if the machine has exactly one candidate.
    """
    recorded = target.recorded
    serial = recorded.serial if machine.is_serial(recorded.serial) else serial_of(machine)
    manager = machine.manager.macs if machine.manager else ()
    found = {
        SERIAL: serial,
        BMC_MAC: _value(recorded.bmc_mac, manager, manager),
        BOOT_MAC: _value(recorded.boot_mac, [one.mac for one in machine.nics], boot_macs(machine)),
        DISK_SERIAL: _value(
            recorded.disk_serial,
            [one.serial for one in machine.drives],
            [one.serial for one in system_disks(target, machine)],
        ),
        BMC_FINGERPRINT: fingerprint,
    }
    return {key: value for key, value in found.items() if value and _may_be(key, value, recorded.values.get(key, ""))}


def _value(recorded: str, every: Sequence[str], candidates: Sequence[str]) -> str:
    """Return the recorded value if the machine has it, else all; without a record the only candidate. A list without values is silent."""
    known = [one for one in every if one]
    if recorded:
        return recorded if recorded.casefold() in (one.casefold() for one in known) else ", ".join(known)
    usable = [one for one in candidates if one]
    return usable[0] if len(usable) == 1 and len(candidates) == 1 else ""


def _may_be(key: str, value: str, recorded: str) -> bool:
    return bool(recorded) or is_right(key, value)


def boot_macs(machine: Machine) -> list[str]:
    """Return the candidates for the boot NIC: MACs of NICs with a link; of all NICs if the BMC shows no links."""
    linked = [one.mac for one in machine.nics if one.has_link]
    return linked or [one.mac for one in machine.nics if one.has_link is None]


def system_disks(target: Target, machine: Machine) -> list[Drive]:
    """Return the drives that fit `system_disk` of the profile; all drives without it."""
    traits = target.profile.metal.system_disk if target.profile else None
    if traits is None:
        return list(machine.drives)
    return [one for one in machine.drives if traits.fits(one.size, bus_of(one), one.model)]


def bus_of(drive: Drive) -> str:
    """Return the bus of a drive in the words of `system_disk.bus`; "" if it is another.

    >>> bus_of(Drive("/d", "d", protocol="NVMe"))
    'nvme'
    """
    return _BUSES.get(drive.protocol.casefold(), "")


def facts_of(machine: Machine) -> dict[str, Any]:
    """Return a machine as plain data for the report: model, versions, serial numbers, NICs and drives. Sizes are in bytes."""
    manager = machine.manager
    facts: dict[str, Any] = {
        "manufacturer": machine.system.manufacturer,
        "model": machine.system.model,
        "power": machine.power,
        "bios": machine.system.bios_version,
        "bmc_firmware": manager.firmware if manager else "",
        "redfish": machine.redfish,
        "nics": [{"name": one.name, "mac": one.mac, "link": one.has_link} for one in machine.nics],
        "drives": [dict(_drive(one)) for one in machine.drives],
    }
    unread = [f"{path}: {why}" for path, why in machine.unread]
    return {**facts, **({"unread": unread} if unread else {})}


def _drive(one: Drive) -> Iterator[tuple[str, Any]]:
    yield from (("name", one.name), ("serial", one.serial), ("bytes", one.size), ("protocol", one.protocol))
    yield "model", one.model


def read_for_record(client: Client, targets: Mapping[str, Target]) -> Machine:
    """Return the machine with the parts that a record has: NICs, drives and the BMC itself."""
    recorded = targets[client.bmc.node].recorded
    return read_machine(client, serial=recorded.serial, only=(NICS, DRIVES, MANAGER))
