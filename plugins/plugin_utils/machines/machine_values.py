# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the values that are on record of a machine: MACs, serial numbers, fingerprints. Sources write them in many ways."""

from __future__ import annotations

import re

SERIAL, BMC_MAC, BOOT_MAC, DISK_SERIAL, BMC_FINGERPRINT = KEYS = (
    "serial", "bmc_mac", "boot_mac", "disk_serial", "bmc_fingerprint",
)  # fmt: skip
"""Keys of a machine, in the order of the file."""
UNIQUE = {SERIAL: "serial number", BMC_MAC: "MAC", BOOT_MAC: "MAC", DISK_SERIAL: "disk"}
"""Keys whose value belongs to one machine, and what it identifies. Many BMCs have one certificate from the factory."""
_MACS = (BMC_MAC, BOOT_MAC)
ALLOWED = {
    **dict.fromkeys(_MACS, "the MAC of one adapter in small letters, such as 3c:ec:ef:12:34:56"),
    **dict.fromkeys((SERIAL, DISK_SERIAL), "1 to 64 letters, digits and . _ / : + # - with a digit or letter first, and no placeholder"),
    BMC_FINGERPRINT: "the SHA-256 of the certificate in 64 hexadecimal digits, in small letters",
}  # fmt: skip
_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z")
_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:+#-]{0,63}\Z")
_FINGERPRINT = re.compile(r"[0-9a-f]{64}\Z")
_SEPARATED = re.compile(r"[0-9a-f]{1,2}([:-][0-9a-f]{1,2}){5}\Z")
_DOTTED = re.compile(r"[0-9a-f]{4}([.-][0-9a-f]{4}){2}\Z")
_PLAIN = re.compile(r"[0-9a-f]{12}\Z")
# Firmware and inventories write these where they have no serial number.
_PLACEHOLDERS = frozenset({
    "", "-", "--", "0123456789", "123456789", "1234567890", "default", "default string", "empty", "na", "n/a", "nil", "no", "none",
    "not applicable", "not available", "not present", "not specified", "null", "o.e.m.", "oem", "system serial number", "tbd",
    "to be filled by o.e.m.", "undefined", "unknown", "unspecified",
})  # fmt: skip
_ONE_CHARACTER = re.compile(r"([0x.-])\1*\Z", re.IGNORECASE)


def is_placeholder(value: str) -> bool:
    """Return whether a source means that it has no value.

    >>> [is_placeholder(text) for text in ("To Be Filled By O.E.M.", "0000000", "7J0X4B3")]
    [True, True, False]
    """
    text = " ".join(value.split()).lower()
    return text in _PLACEHOLDERS or bool(_ONE_CHARACTER.match(text))


def is_right(key: str, value: object) -> bool:
    """Return whether a value is as the file has it."""
    if not isinstance(value, str):
        return False
    if key in _MACS:
        # The lowest bit of the first byte is that of groups.
        return bool(_MAC.match(value)) and not int(value[1], 16) & 1 and value != "00:00:00:00:00:00"
    if key == BMC_FINGERPRINT:
        return bool(_FINGERPRINT.match(value))
    return bool(_SERIAL.match(value)) and not is_placeholder(value)


def normal(key: str, value: str) -> str:
    """Return a value of a source in the form of the file, "" for a placeholder; a wrong value stays wrong.

    >>> normal("bmc_mac", "3C-EC-EF-12-34-56"), normal("boot_mac", "3cec.ef12.3456"), normal("serial", " Unknown ")
    ('3c:ec:ef:12:34:56', '3c:ec:ef:12:34:56', '')
    """
    text = value.strip()
    if key in _MACS:
        return _mac(text.lower())
    if key == BMC_FINGERPRINT:
        bare = text.lower().removeprefix("sha256:").removeprefix("sha256 fingerprint=").replace(":", "")
        return "" if is_placeholder(bare) else bare
    return "" if is_placeholder(text) else text


def _mac(text: str) -> str:
    if text in _PLACEHOLDERS or text in ("00:00:00:00:00:00", "0" * 12):
        return ""
    if _SEPARATED.match(text):
        return ":".join(part.zfill(2) for part in re.split("[:-]", text))
    digits = re.sub("[.-]", "", text) if _DOTTED.match(text) else text
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2)) if _PLAIN.match(digits) else text
