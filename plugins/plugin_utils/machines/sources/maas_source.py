# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of MAAS: the output of `maas PROFILE machines read`, or its API 2.0 with an API key.

MAAS has the serial number, the boot NIC and the boot disk of machines that it has commissioned. It has no MAC of BMCs in this list.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .https_reader import HttpsReader
from .machine_row import Document, MachineRow, OfCluster, SourceError, filled, mapping, objects, text

MACHINES = "api/2.0/machines/"
_PARTS = 3


def rows_of(documents: Sequence[Document]) -> list[MachineRow]:
    """Return a row for each machine. SourceError: a document is not a list of machines."""
    return [row for document in documents for row in _rows(document)]


def live(reader: HttpsReader, _is_ours: OfCluster) -> list[Document]:
    """Return the list of machines, which MAAS answers as a whole."""
    return [Document(reader.host, reader.get(MACHINES))]


def authorization(key: str) -> dict[str, str]:
    """Return the header of a request: OAuth 1.0 with PLAINTEXT (RFC 5849, 3.4.4), as MAAS documents it. ValueError: not an API key.

    An API key is consumer:token:secret; the consumer has no secret.
    """
    parts = key.split(":")
    if len(parts) != _PARTS or not all(parts):
        raise ValueError("not an API key of MAAS. Allowed: one line, consumer:token:secret")
    values = {
        "oauth_version": "1.0",
        "oauth_signature_method": "PLAINTEXT",
        "oauth_consumer_key": parts[0],
        "oauth_token": parts[1],
        "oauth_signature": f"&{quote(parts[2], safe='')}",
        "oauth_timestamp": str(int(time.time())),
        "oauth_nonce": secrets.token_hex(16),
    }
    return {
        "Authorization": "OAuth " + ", ".join(f'{name}="{quote(value, safe="")}"' for name, value in values.items())
    }


def _rows(document: Document) -> list[MachineRow]:
    listed = objects(document.content)
    if not isinstance(document.content, list) or any("hostname" not in one for one in listed):
        allowed = "Allowed: the output of `maas PROFILE machines read`."
        raise SourceError([f"{document.name}: not a list of machines with `hostname`. {allowed}"])
    return [_row(f"{document.name} {text(one.get('system_id')) or text(one['hostname'])}", one) for one in listed]


def _row(where: str, machine: Mapping[str, Any]) -> MachineRow:
    nics = [one for one in objects(machine.get("interface_set")) if one.get("type") == "physical"]
    macs = [text(one.get("mac_address")) for one in nics]
    boot = text(mapping(machine.get("boot_interface")).get("mac_address"))
    notes = {}
    if not boot and len(macs) == 1:
        boot = macs[0]
    elif not boot and macs:
        notes["boot_mac"] = f"{len(macs)} NICs, and no `boot_interface`: the machine is not commissioned"
    disk = text(mapping(machine.get("boot_disk")).get("serial"))
    serial = text(mapping(machine.get("hardware_info")).get("system_serial"))
    return MachineRow(where, text(machine["hostname"]), filled(serial=serial, boot_mac=boot, disk_serial=disk), notes)
