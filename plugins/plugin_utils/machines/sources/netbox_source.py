# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of NetBox 4: devices and their interfaces, as its REST API answers, or as JSON or CSV that it exports.

The interface with `mgmt_only` is the BMC's. The boot NIC is the one that the caller names, else one with the tag `boot` or `pxe`,
else the only NIC with a MAC. NetBox has no serial numbers of disks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import columns
from .https_reader import HttpsReader
from .machine_row import Document, MachineRow, OfCluster, SourceError, chosen, filled, mapping, objects, text

DEVICES, INTERFACES = "api/dcim/devices/", "api/dcim/interfaces/"
_PAGE = 500
# Of a query: 50 numbers of devices are shorter than the longest address that servers take.
_DEVICES_OF_A_QUERY = 50
_BOOT_TAGS = ("boot", "pxe")
_NOT_NICS = ("virtual", "bridge", "lag")
# Headings of CSV, of the table and of the form for imports.
_DEVICE = {"name": "name", "serial_number": "serial", "serial": "serial", "id": "id"}
_INTERFACE = {
    "device": "device", "name": "name", "type": "type", "mac_address": "mac_address", "primary_mac": "mac_address",
    "primary_mac_address": "mac_address", "management_only": "mgmt_only", "mgmt_only": "mgmt_only", "enabled": "enabled", "tags": "tags",
}  # fmt: skip


def authorization(token: str) -> dict[str, str]:
    """Return the header of a request: tokens of version 2 (NetBox 4.5) begin with nbt_."""
    return {"Authorization": f"{'Bearer' if token.startswith('nbt_') else 'Token'} {token}"}


def live(reader: HttpsReader, is_ours: OfCluster, query: Mapping[str, Any]) -> list[Document]:
    """Return all devices of a query, such as {"site": ["west"]}, and the interfaces of devices of the cluster."""
    words = {**query, "limit": _PAGE, "exclude": "config_context"}
    devices = [one for page in reader.pages(DEVICES, words) for one in objects(page.get("results"))]
    numbers = [one.get("id") for one in devices if is_ours(text(one.get("name")), text(one.get("serial")))]
    found = []
    for at in range(0, len(numbers), _DEVICES_OF_A_QUERY):
        some = {"device_id": numbers[at : at + _DEVICES_OF_A_QUERY], "limit": _PAGE}
        found += [one for page in reader.pages(INTERFACES, some) for one in objects(page.get("results"))]
    return [Document(reader.host, devices), Document(reader.host, found)]


def rows_of(documents: Sequence[Document], boot: tuple[str, ...] = ()) -> list[MachineRow]:
    """Return a row for each device; `boot`: patterns of names of the boot NIC, the best first.

    SourceError: a document has neither devices nor interfaces, or no document has devices.
    """
    devices: list[tuple[str, Mapping[str, Any]]] = []
    interfaces: list[Mapping[str, Any]] = []
    for document in documents:
        listed = _listed(document)
        if any("mgmt_only" in one or "mac_address" in one for one in listed):
            interfaces += listed
        else:
            devices += [(_where(document.name, one, number), one) for number, one in enumerate(listed, 1)]
    if not devices:
        names = ", ".join(document.name for document in documents)
        raise SourceError(
            [f"{names}: no devices. Allowed: an export of devices, and one of interfaces, with a comma between them."]
        )
    by_device = _by_device(interfaces)
    found = []
    for where, device in devices:
        # Numbers are unique, and names only within a site.
        own = by_device.get(("id", text(device.get("id")))) or by_device.get(
            ("name", text(device.get("name")).lower()), []
        )
        values, notes = _macs(own, boot)
        values = {**filled(serial=text(device.get("serial"))), **values}
        found.append(MachineRow(where, text(device.get("name")), values, notes))
    return found


def _listed(document: Document) -> list[Mapping[str, Any]]:
    if isinstance(document.content, str):
        return _of_csv(document)
    data = document.content
    listed = objects(data.get("results") if isinstance(data, Mapping) else data)
    if (data or not isinstance(data, list)) and (not listed or not all("name" in one for one in listed)):
        raise SourceError(
            [f"{document.name}: no list of objects with `name`. Allowed: the answer of /{DEVICES} or /{INTERFACES}."]
        )
    return listed


def _of_csv(document: Document) -> list[Mapping[str, Any]]:
    headings, rows = columns.table_of(document.content, document.name)
    words = [columns.heading(one) for one in headings]
    known = _INTERFACE if "device" in words else _DEVICE
    keys = {number: known[word] for number, word in enumerate(words) if word in known}
    if "name" not in keys.values():
        raise SourceError(
            [f"{document.name}: no column Name. Allowed: the CSV of devices or of interfaces that NetBox exports."]
        )
    found: list[Mapping[str, Any]] = []
    for line, cells in rows:
        one: dict[str, Any] = {keys[number]: cell.strip() for number, cell in enumerate(cells) if number in keys}
        if known is _INTERFACE:
            tags = [{"slug": tag.strip().lower()} for tag in str(one.get("tags", "")).split(",")]
            one |= {"mgmt_only": one.get("mgmt_only", "").lower() in ("true", "yes", "1"), "tags": tags}
            one |= {
                "enabled": one.get("enabled", "true").lower() in ("true", "yes", "1"),
                "device": {"name": one["device"]},
            }
        found.append({**one, "_line": line})
    return found


def _where(name: str, device: Mapping[str, Any], number: int) -> str:
    if "_line" in device:
        return f"{name}:{device['_line']}"
    return f"{name} device {text(device.get('id')) or number}"


def _by_device(interfaces: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for one in interfaces:
        device = mapping(one.get("device"))
        # In an export the device may be its number alone.
        number = text(device.get("id")) or text(one.get("device"))
        key = ("id", number) if number else ("name", text(device.get("name")).lower())
        found.setdefault(key, []).append(one)
    return found


def _macs(interfaces: Sequence[Mapping[str, Any]], boot: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the MACs of a device by key of the record, and why one is not known."""
    values, notes = {}, {}
    named = {text(one.get("name")): one for one in interfaces if _mac(one)}
    bmcs = [one for one in named.values() if one.get("mgmt_only") is True]
    nics = {name: one for name, one in named.items() if one.get("mgmt_only") is not True and _is_nic(one)}
    if len(bmcs) == 1:
        values["bmc_mac"] = _mac(bmcs[0])
    elif bmcs:
        notes["bmc_mac"] = f"{len(bmcs)} interfaces are `mgmt_only`: {', '.join(text(one.get('name')) for one in bmcs)}"
    ways: tuple[Callable[[], list[str]], ...] = (
        lambda: chosen(nics, boot),
        lambda: [name for name, one in nics.items() if _tags(one).intersection(_BOOT_TAGS)],
        lambda: list(nics),
    )
    candidates = next((found for found in (way() for way in ways) if found), [])
    if len(candidates) == 1:
        values["boot_mac"] = _mac(nics[candidates[0]])
    elif candidates:
        notes["boot_mac"] = (
            f"{len(candidates)} NICs could be the boot NIC: {', '.join(candidates[:4])}; name it with import_boot_interface"
        )
    return values, notes


def _mac(interface: Mapping[str, Any]) -> str:
    return text(interface.get("mac_address")) or text(mapping(interface.get("primary_mac_address")).get("mac_address"))


def _is_nic(interface: Mapping[str, Any]) -> bool:
    sort = interface.get("type")
    kind = text(mapping(sort).get("value")) or text(sort)
    return (
        interface.get("enabled") is not False
        and kind.lower() not in _NOT_NICS
        and not kind.lower().startswith("infiniband")
    )


def _tags(interface: Mapping[str, Any]) -> set[str]:
    return {text(one.get("slug")).lower() for one in objects(interface.get("tags"))}
