# SPDX-License-Identifier: GPL-3.0-or-later
"""Command the BMC of one machine in each step of its order. Every step proves first that the declared machine answers."""

from __future__ import annotations

from dataclasses import dataclass

from ...module_utils.provision import network_boot
from ..bmc.bmc_targets import Target
from ..bmc.power_run import NOT_ALLOWED, require_identity
from ..redfish import boot_override, power
from ..redfish.boot_override import CD, HTTP, PXE, Override
from ..redfish.client import Client
from ..redfish.machine import Machine
from ..redfish.machine_reading import NICS, PENDING, SLOTS, read_machine
from ..redfish.media import eject_media, insert_media

_TARGETS = {network_boot.MEDIA: CD, network_boot.HTTP: HTTP, network_boot.PXE: PXE}
_PROBE = "https://provision.invalid/media/probe.iso"


@dataclass(frozen=True)
class BmcJob:
    """A machine and how it boots the installer. `url` is that of its medium, a secret; "" where it is not needed."""

    target: Target
    method: str
    mode: str
    mac: str
    url: str = ""

    def override(self, url: str = "") -> Override:
        """Return the one-time boot of the installer."""
        uri = (url or self.url) if self.method == network_boot.HTTP else ""
        return Override(_TARGETS[self.method], self.mode, uri)


def verify(client: Client, job: BmcJob, may_be_on: bool) -> list[str]:
    """Return all reasons why a machine must not be installed, by GETs alone. Raises BmcError, for a read that failed, too.

    `may_be_on`: the machine is part of an order that has begun, or its data may be erased.
    """
    machine = _machine(client, job, NICS, SLOTS, PENDING)
    found = []
    if not machine.has_mac(job.mac):
        macs = ", ".join(one.mac for one in machine.nics) or "none"
        unread = "".join(f"; {path} was not read: {why}" for path, why in machine.unread)
        found.append(
            f"boot MAC {job.mac} on record, and the machine has {macs}{unread}. Correct the record or the cables."
        )
    if machine.power not in ("On", "Off"):
        found.append(f"power state {machine.power or 'not shown'}. Wait until it is on or off.")
    elif machine.power == "On" and not may_be_on:
        remedy = "Turn it off with power.yml, or name it in provision_wipe if its data may be erased."
        found.append(f"the machine is on, so it may run an operating system. {remedy}")
    if job.method == network_boot.MEDIA:
        insert_media(client, machine, _PROBE)
    boot_override.set_override(client, machine, job.override(_PROBE))
    return found


def arm(client: Client, job: BmcJob) -> None:
    """Insert the medium, and set the one-time boot. Both are read back. Raises BmcError."""
    machine = _machine(client, job, SLOTS, PENDING)
    if job.method == network_boot.MEDIA:
        insert_media(client, machine, job.url)
    boot_override.set_override(client, machine, job.override())


def start(client: Client, job: BmcJob) -> bool:
    """Reset the machine, or turn it on. Return False if its one-time boot is used up: then it was started before. Raises BmcError."""
    machine = _machine(client, job, PENDING)
    shown = boot_override.read_override(client, machine)
    boot = shown.pending or shown.now
    if boot.is_off or boot.target != boot_override.target_of(machine, _TARGETS[job.method]):
        return False
    power.set_power(client, machine, power.RESET)
    return True


def is_off(client: Client, job: BmcJob) -> bool:
    """Return whether the machine is off. Raises BmcError."""
    return _machine(client, job).power == "Off"


def release(client: Client, job: BmcJob) -> None:
    """Remove the medium and the override of a machine that is off, and read both back. Raises BmcError."""
    machine = _machine(client, job, SLOTS, PENDING)
    if machine.power != "Off":
        what = f"power state {machine.power or 'not shown'}: the machine was turned on before its medium was removed"
        raise client.error(NOT_ALLOWED, what, "Turn it off with power.yml -e power=off, then run again.")
    _clear(client, machine, job)


def clear(client: Client, job: BmcJob) -> None:
    """Remove medium and override of a machine whose order was refused; its power stays as it is. Raises BmcError."""
    _clear(client, _machine(client, job, SLOTS, PENDING), job)


def turn_on(client: Client, job: BmcJob) -> None:
    """Turn the machine on; it must have neither medium nor override. Raises BmcError."""
    machine = _machine(client, job, SLOTS, PENDING)
    media = [one.image or one.name for one in machine.slots if one.is_optical and one.is_inserted]
    shown = boot_override.read_override(client, machine)
    if (media and job.method == network_boot.MEDIA) or not (shown.pending or shown.now).is_off or not shown.now.is_off:
        what = f"{'a medium is inserted again' if media else f'the boot override is {shown}'}, so it would not boot its disk"
        raise client.error(NOT_ALLOWED, what, "Remove it at the BMC, then run again.")
    power.set_power(client, machine, power.ON)


def _clear(client: Client, machine: Machine, job: BmcJob) -> None:
    if job.method == network_boot.MEDIA:
        eject_media(client, machine)
    boot_override.clear_override(client, machine)


def _machine(client: Client, job: BmcJob, *parts: str) -> Machine:
    machine = read_machine(client, serial=job.target.recorded.serial, only=frozenset(parts))
    require_identity(client.error, job.target, machine)
    return machine
