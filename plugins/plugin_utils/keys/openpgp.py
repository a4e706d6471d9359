# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the fingerprints of armored OpenPGP public keys.

Formats: RFC 9580, sections 4.2 (packets), 5.5.4 (fingerprints) and 6.2 (armor). gpg is not needed on the control node for this.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator

_BLOCK = re.compile(
    r"^-----BEGIN PGP PUBLIC KEY BLOCK-----[ \t]*\r?\n(?P<rest>.*?)^-----END PGP PUBLIC KEY BLOCK-----", re.S | re.M
)
_PUBLIC_KEY = 6
# Sizes of the numbers that precede a key's body in what is hashed, by version, and the hash.
_HASHED = {4: (b"\x99", 2, "sha1"), 5: (b"\x9a", 4, "sha256"), 6: (b"\x9b", 4, "sha256")}


def fingerprints(text: str) -> tuple[str, ...]:
    """Return the fingerprints of the primary keys in a text, in capital hexadecimal digits: 40 of them, or 64 from version 5 on.

    The text may have several blocks, and a block several keys. ValueError: no key, or a block that is damaged.
    """
    found = [
        _fingerprint(body) for block in _blocks(text) for kind, body in _packets(_decoded(block)) if kind == _PUBLIC_KEY
    ]
    if not found:
        raise ValueError("no public key in it")
    return tuple(dict.fromkeys(found))


def written(fingerprint: str) -> str:
    """Return a fingerprint as people compare it.

    >>> written("EB693B3035CD5710E231E123A4B469963BF863CC")
    'EB69 3B30 35CD 5710 E231 E123 A4B4 6996 3BF8 63CC'
    """
    return " ".join(fingerprint[at : at + 4] for at in range(0, len(fingerprint), 4))


def normalised(text: str) -> str:
    """Return a fingerprint as `fingerprints` does, from any way of writing it.

    >>> normalised("0xeb69 3b30:35cd")
    'EB693B3035CD'
    """
    return re.sub(r"[\s:]", "", text).upper().removeprefix("0X")


def _blocks(text: str) -> Iterator[str]:
    return (found["rest"] for found in _BLOCK.finditer(text))


def _decoded(block: str) -> bytes:
    lines = [line.strip() for line in block.splitlines()]
    # Header lines, such as Version:, end with an empty line.
    body = lines[lines.index("") + 1 :] if "" in lines else lines
    data = "".join(line for line in body if not line.startswith("="))
    checks = [line[1:] for line in body if line.startswith("=")]
    try:
        decoded = base64.b64decode(data, validate=True)
        if checks and base64.b64decode(checks[-1], validate=True) != _crc24(decoded).to_bytes(3, "big"):
            raise ValueError("its checksum is wrong, so a part of it is missing or changed")
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None
    return decoded


def _crc24(data: bytes) -> int:
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _unused in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return crc


def _packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield kind and body of each packet."""
    at = 0
    try:
        while at < len(data):
            head = data[at]
            if not head & 0x80:
                raise ValueError("not OpenPGP packets")
            kind = head & 0x3F if head & 0x40 else (head & 0x3F) >> 2
            length, at = _new_length(data, at + 1) if head & 0x40 else _old_length(data, at + 1, head & 3)
            if at + length > len(data):
                raise ValueError("cut off")
            yield kind, data[at : at + length]
            at += length
    except IndexError:
        raise ValueError("cut off") from None


def _new_length(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 192:
        return first, at + 1
    if first < 224:
        return ((first - 192) << 8) + data[at + 1] + 192, at + 2
    if first == 255:
        return int.from_bytes(data[at + 1 : at + 5], "big"), at + 5
    raise ValueError("a key in parts, which no key file has")


def _old_length(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind == 3:
        return len(data) - at, at
    size = 1 << kind
    return int.from_bytes(data[at : at + size], "big"), at + size


def _fingerprint(body: bytes) -> str:
    version = body[0] if body else 0
    if version not in _HASHED:
        raise ValueError(f"a key of version {version}; known: {', '.join(map(str, _HASHED))}")
    mark, size, name = _HASHED[version]
    hashed = mark + len(body).to_bytes(size, "big") + body
    # The fingerprint of version 4 is SHA-1 by definition.
    return hashlib.new(name, hashed, usedforsecurity=False).hexdigest().upper()
