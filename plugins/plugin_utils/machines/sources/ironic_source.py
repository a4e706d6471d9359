# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of Ironic: `baremetal node list --detail -f json`, `baremetal port list --detail -f json`, saved inventories, or its API v1.

The boot NIC is the port with `pxe_enabled`. The serial number is that of the inventory, the disk is that of the root device hint, else
the only one of the inventory.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from .columns import tagged
from .https_reader import HttpsReader
from .machine_row import Document, MachineRow, OfCluster, SourceError, filled, mapping, objects, text

NODES, PORTS, INVENTORY = "v1/nodes/detail", "v1/ports/detail", "v1/nodes/{}/inventory"
_PAGE = 500
# The API that has inventories (Ironic 21.1, release 2023.1).
_INVENTORIES = (1, 81)
_HINT = re.compile(r"s== *(.+)")
# What the first two bytes of PXELINUX's BOOTIF are: the kind of hardware.
_BOOTIF = re.compile(r"01-(?=([0-9a-fA-F]{2}-){5}[0-9a-fA-F]{2}\Z)")


def authorization(token: str, version: str = "1.31") -> dict[str, str]:
    """Return the headers of a request; a `token` with a colon is user:password of a standalone Ironic."""
    about = {"X-OpenStack-Ironic-API-Version": version}
    if ":" in token:
        return {**about, "Authorization": f"Basic {base64.b64encode(token.encode()).decode()}"}
    return {**about, "X-Auth-Token": token}


def version_of(reader: HttpsReader) -> str:
    """Return the version of the API to use: the one with inventories, or the server's if it is older."""
    newest = text(mapping(mapping(reader.get("v1")).get("version")).get("version"))
    numbers = tuple(int(part) for part in newest.split(".")) if re.fullmatch(r"1\.[0-9]+", newest) else (1, 31)
    return ".".join(map(str, min(numbers, _INVENTORIES)))


def has_inventories(version: str) -> bool:
    """Return whether a version of the API has inventories."""
    return tuple(map(int, version.split("."))) >= _INVENTORIES


def live(reader: HttpsReader, is_ours: OfCluster, inventories: bool) -> list[Document]:
    """Return all nodes and ports, and the inventories of nodes of the cluster."""
    nodes = [one for page in reader.pages(NODES, {"limit": _PAGE}) for one in objects(page.get("nodes"))]
    ports = [one for page in reader.pages(PORTS, {"limit": _PAGE}) for one in objects(page.get("ports"))]
    found = [Document(reader.host, {"nodes": nodes}), Document(reader.host, {"ports": ports})]
    for node in nodes if inventories else ():
        name, number = text(node.get("name")), text(node.get("uuid"))
        # A node that was never inspected has no inventory.
        if (not name or is_ours(name, "")) and node.get("inspection_finished_at"):
            found.append(Document(number, reader.get(INVENTORY.format(quote(number, safe="")))))
    return found


def rows_of(documents: Sequence[Document]) -> list[MachineRow]:
    """Return a row for each node. A document with an inventory has the name or UUID of its node.

    SourceError: a document has neither nodes, ports nor an inventory, or no document has nodes.
    """
    nodes: list[tuple[str, Mapping[str, Any]]] = []
    ports: dict[str, list[Mapping[str, Any]]] = {}
    inventories: dict[str, Mapping[str, Any]] = {}
    for document in documents:
        data = document.content
        if "inventory" in mapping(data):
            inventories[PurePath(document.name).name.removesuffix(".json").lower()] = mapping(data["inventory"])
            continue
        listed = [_plain(one) for one in objects(mapping(data).get("nodes", mapping(data).get("ports", data)))]
        if any("address" in one for one in listed):
            for port in listed:
                ports.setdefault(text(port.get("node_uuid")), []).append(port)
        elif all("uuid" in one for one in listed) and (listed or "ports" in mapping(data) or "nodes" in mapping(data)):
            nodes += [(f"{document.name} {text(one.get('name')) or text(one['uuid'])}", one) for one in listed]
        else:
            allowed = "Allowed: `baremetal node list --detail -f json`, `baremetal port list --detail -f json`, or a saved inventory."
            raise SourceError([f"{document.name}: no nodes, no ports and no inventory. {allowed}"])
    if not nodes:
        raise SourceError([f"{', '.join(one.name for one in documents)}: no nodes. Name the export of the nodes, too."])
    return [_row(where, node, ports, inventories) for where, node in nodes]


def _plain(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the API's names: the command prints titles, such as `PXE boot enabled` for pxe_enabled."""
    titles = {"pxe_boot_enabled": "pxe_enabled"}
    words = {key: key.lower().replace(" ", "_") for key in one}
    return {titles.get(word, word): one[key] for key, word in words.items()}


def _row(
    where: str,
    node: Mapping[str, Any],
    ports: Mapping[str, Sequence[Mapping[str, Any]]],
    inventories: Mapping[str, Mapping[str, Any]],
) -> MachineRow:
    name, number = text(node.get("name")), text(node["uuid"])
    inventory = inventories.get(number.lower()) or inventories.get(name.lower()) or {}
    serial = text(mapping(inventory.get("system_vendor")).get("serial_number"))
    booted = _BOOTIF.sub("", text(mapping(inventory.get("boot")).get("pxe_interface"))).replace("-", ":")
    macs = [text(one.get("address")) for one in ports.get(number, ()) if one.get("pxe_enabled") is not False]
    notes = {}
    boot = (
        macs[0]
        if len(macs) == 1
        else next((mac for mac in macs if mac.lower() == booted.lower()), "" if macs else booted)
    )
    if macs and not boot:
        notes["boot_mac"] = f"{len(macs)} ports have `pxe_enabled`, and no inventory names the NIC that booted"
    disk, why = _disk(node, inventory)
    notes |= filled(disk_serial=why)
    stated = {**tagged(mapping(node.get("properties"))), **tagged(mapping(node.get("extra")))}
    found = filled(serial=serial, bmc_mac=text(inventory.get("bmc_mac")), boot_mac=boot, disk_serial=disk)
    return MachineRow(where, name, {**stated, **found}, notes)


def _disk(node: Mapping[str, Any], inventory: Mapping[str, Any]) -> tuple[str, str]:
    """Return the serial number of the system disk, or why it is not known."""
    hint = text(mapping(mapping(node.get("properties")).get("root_device")).get("serial"))
    operator = _HINT.match(hint)
    if hint:
        return operator[1] if operator else hint, ""
    disks = [serial for one in objects(inventory.get("disks")) if (serial := text(one.get("serial")))]
    if len(disks) > 1:
        return "", f"{len(disks)} disks, and no root device hint with a serial number"
    return (disks[0], "") if disks else ("", "")
