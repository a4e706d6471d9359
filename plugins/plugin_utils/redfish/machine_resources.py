# SPDX-License-Identifier: GPL-3.0-or-later
"""Derive the parts of the model from single resources of a BMC. No request is sent."""

from __future__ import annotations

from .client import Answer
from .fields import Resource, flag, link, links, number, part, text, texts
from .machine import Boot, Drive, Nic, Reset, Slot, System, plain_mac


def system_of(answer: Answer) -> System:
    """Return a ComputerSystem from its resource. Reset types in an ActionInfo are not read."""
    body = answer.body
    action = part(body, "Actions", "#ComputerSystem.Reset")
    target = text(action, "target")
    return System(
        text(body, "@odata.id") or answer.path,
        answer.etag,
        text(body, "Id"),
        text(body, "SerialNumber"),
        text(body, "SKU"),
        text(body, "UUID"),
        text(body, "Manufacturer"),
        text(body, "Model"),
        text(body, "PowerState"),
        text(body, "BiosVersion"),
        boot_of(body),
        Reset(target, texts(action, "ResetType@Redfish.AllowableValues"), text(action, "@Redfish.ActionInfo"))
        if target
        else None,
        text(body, "LastResetTime"),
        link(body, "@Redfish.Settings", "SettingsObject"),
        link(body, "Bios"),
        link(body, "EthernetInterfaces"),
        link(body, "Storage"),
        link(body, "VirtualMedia"),
        links(body, "Links", "ManagedBy"),
        links(body, "Links", "Chassis"),
    )


def boot_of(body: Resource) -> Boot | None:
    """Return the boot override of a system or of its settings object, None without one."""
    boot = part(body, "Boot")
    if not any(key.startswith("BootSourceOverride") for key in boot):
        return None
    return Boot(
        text(boot, "BootSourceOverrideEnabled"),
        text(boot, "BootSourceOverrideTarget"),
        text(boot, "BootSourceOverrideMode"),
        text(boot, "HttpBootUri"),
        texts(boot, "BootSourceOverrideTarget@Redfish.AllowableValues"),
        texts(boot, "BootSourceOverrideMode@Redfish.AllowableValues"),
        "HttpBootUri" in boot,
    )


def slot_of(answer_or_body: Answer | Resource, path: str = "") -> Slot:
    """Return a slot of virtual media from its resource."""
    body = answer_or_body.body if isinstance(answer_or_body, Answer) else answer_or_body
    etag = answer_or_body.etag if isinstance(answer_or_body, Answer) else text(body, "@odata.etag")
    inserted = flag(body, "Inserted")
    image = text(body, "Image")
    return Slot(
        text(body, "@odata.id") or path,
        etag,
        text(body, "Id"),
        texts(body, "MediaTypes"),
        image,
        text(body, "ImageName"),
        bool(image) if inserted is None else inserted,
        text(body, "Actions", "#VirtualMedia.InsertMedia", "target"),
        text(body, "Actions", "#VirtualMedia.EjectMedia", "target"),
        flag(body, "VerifyCertificate"),
    )


def nic_of(body: Resource) -> Nic:
    """Return an Ethernet interface from its resource."""
    mac = text(body, "PermanentMACAddress") or text(body, "MACAddress")
    state = text(body, "LinkStatus")
    has_link = None if not state else state == "LinkUp"
    return Nic(text(body, "@odata.id"), text(body, "Id"), plain_mac(mac), number(body, "SpeedMbps"), has_link)


def drive_of(body: Resource, path: str) -> Drive:
    """Return a drive from its resource."""
    return Drive(
        text(body, "@odata.id") or path,
        text(body, "Name") or text(body, "Id"),
        text(body, "SerialNumber"),
        number(body, "CapacityBytes"),
        text(body, "Protocol"),
        text(body, "Model"),
        text(body, "MediaType"),
    )
