"""OVMF's store of variables: what is there stays, the next start boots a URL once, and a store that is full is refused."""

from __future__ import annotations

import base64
import struct

import pytest

from lab.guest import firmware_variables


def store(free: int) -> bytes:
    """Return an empty store with so many free bytes."""
    head = firmware_variables._STORE + struct.pack("<IBBHI", 28 + free, 0x5A, 0xFE, 0, 0)
    return bytes(72) + head + b"\xff" * free + b"behind"


def variables(data: bytes) -> dict[str, bytes]:
    """Read variables by the description of the format: name -> data."""
    found, place = {}, 100
    while data[place : place + 2] == b"\xaa\x55":
        name, size = struct.unpack_from("<II", data, place + 36)
        text = data[place + 60 : place + 60 + name].decode("utf-16-le").rstrip("\0")
        found[text] = data[place + 60 + name : place + 60 + name + size]
        place += 60 + name + size
        place += -place % 4
    return found


def test_the_next_start_boots_a_url() -> None:
    empty = store(1000)
    before = firmware_variables._add(empty, "Timeout", b"\x05\x00\x01")
    url = "https://10.87.9.1:8443/media/x.iso"
    after = firmware_variables.boot_url_next(before, url)
    assert (len(after), after[-6:]) == (len(empty), b"behind")
    found = variables(after)
    assert list(found) == ["Timeout", "Boot0BED", "BootNext"]
    assert found["BootNext"] == b"\xed\x0b"
    option = found["Boot0BED"]
    path = option[6 + 2 * len("installer\0") :]
    assert struct.unpack_from("<IH", option) == (1, len(path))
    assert path == b"\x03\x18" + struct.pack("<H", 4 + len(url)) + url.encode() + b"\x7f\xff\x04\x00"


def test_a_full_store_is_refused() -> None:
    with pytest.raises(ValueError, match="full"):
        firmware_variables.boot_url_next(store(100), "https://10.87.9.1:8443/media/x.iso")


def test_certificates_of_https() -> None:
    pem = "".join(
        f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----\n"
        for der in (b"one", b"three")
    )
    data = firmware_variables.certificates(pem)
    size = struct.unpack_from("<III", data, 16)
    assert size == (28 + 16 + 3, 0, 16 + 3)
    assert data[44:47] == b"one"
    assert data[47 + 44 :] == b"three"
