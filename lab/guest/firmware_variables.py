# SPDX-License-Identifier: GPL-3.0-or-later
"""Set what a BMC sets in UEFI firmware: the URL that the next start boots, in OVMF's store of variables; and CAs for its HTTPS.

The store is that of EDK2 (MdeModulePkg, VariableFormat.h): a header, then variables one behind the other, then bytes of ones.
"""

from __future__ import annotations

import base64
import struct
import uuid

_GLOBAL = uuid.UUID("8be4df61-93ca-11d2-aa0d-00e098032b8c").bytes_le
_STORE = uuid.UUID("aaf32c78-947b-439a-a180-2e144ec37792").bytes_le
_X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072").bytes_le
_START, _ADDED = 0x55AA, 0x3F
_KEPT = 7
"""Attributes of a variable: kept, and for the firmware and for systems."""
_HEADER = "<HBBIQ16sIII16s"
_NUMBER = 0x0BED
CA_FILE = "etc/edk2/https/cacerts"
"""QEMU's name of the file from which OVMF takes the CAs of HTTPS."""


def boot_url_next(store: bytes, url: str) -> bytes:
    """Return a store whose next start boots a URL, once. Raises ValueError for a full store, or one with another format."""
    node = struct.pack("<BBH", 3, 24, 4 + len(url)) + url.encode() + b"\x7f\xff\x04\x00"
    option = struct.pack("<IH", 1, len(node)) + _text("installer") + node
    return _add(_add(store, f"Boot{_NUMBER:04X}", option), "BootNext", struct.pack("<H", _NUMBER))


def certificates(pem: str) -> bytes:
    """Return certificates (PEM) as a list of UEFI signatures."""
    found = b""
    for part in pem.split("-----BEGIN CERTIFICATE-----")[1:]:
        der = base64.b64decode(part.partition("-----END")[0])
        found += _X509 + struct.pack("<III", 28 + 16 + len(der), 0, 16 + len(der)) + bytes(16) + der
    return found


def _add(store: bytes, name: str, data: bytes) -> bytes:
    """Return a store with one variable more."""
    begin = store.index(_STORE)
    size = struct.unpack_from("<I", store, begin + 16)[0]
    place = begin + 28
    while struct.unpack_from("<H", store, place)[0] == _START:
        fields = struct.unpack_from(_HEADER, store, place)
        place += struct.calcsize(_HEADER) + fields[7] + fields[8]
        place += -place % 4
    key = _text(name)
    head = struct.pack(_HEADER, _START, _ADDED, 0, _KEPT, 0, bytes(16), 0, len(key), len(data), _GLOBAL)
    added = head + key + data
    if place + len(added) > begin + size or store[place : place + len(added)].strip(b"\xff"):
        raise ValueError("the store of variables is full, or has another format")
    return store[:place] + added + store[place + len(added) :]


def _text(text: str) -> bytes:
    return f"{text}\0".encode("utf-16-le")
