# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and read an order: the text that one machine's installer obeys. docs/bare-metal.md has its keys.

A line is `key=value`. The first line is `bedplate_order=1`, the last is `end=N` with the number of lines before it, so that a text that was
cut is not an order. The installer reads it in a shell: values have neither quotes nor control characters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

VERSION = "1"
_HEX = r"[0-9a-f]"
_IPV4 = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}"
# The installer has no name server.
_HOST = _IPV4
_SERIAL = r"[A-Za-z0-9._:/+#-](?:[A-Za-z0-9._:/+# -]{0,62}[A-Za-z0-9._:/+#-])?"
_FORMS = {
    "id": rf"{_HEX}{{32}}",
    "node": r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}",
    "serial": _SERIAL,
    "mac": rf"{_HEX}{{2}}(?::{_HEX}{{2}}){{5}}",
    "disk": _SERIAL,
    "wipe": "yes|no",
    "server": rf"https://{_HOST}:[0-9]{{1,5}}",
    "token": rf"{_HEX}{{64}}",
    "issued": r"[1-9][0-9]{9}",
    "image": rf"https://{_HOST}(?::[0-9]{{1,5}})?/[A-Za-z0-9._/-]+",
    "image_sha256": rf"{_HEX}{{64}}",
    "raw_sha256": rf"{_HEX}{{64}}",
    "raw_bytes": r"[1-9][0-9]{6,15}",
    "root_start": r"[1-9][0-9]{5,15}",
    "seed_sha256": rf"{_HEX}{{64}}",
    "address": rf"{_IPV4}/[0-9]{{1,2}}",
    "gateway": rf"{_IPV4}|none",
    "host_key": "seed|machine",
}
PLACEHOLDERS = frozenset(
    (
        "",
        "0",
        "none",
        "n/a",
        "default string",
        "not specified",
        "to be filled by o.e.m.",
        "unknown",
        "system serial number",
    )
)
"""Serial numbers, in small letters, that firmware shows for a machine without one: they identify nothing."""


class OrderError(ValueError):
    """A text that is not an order, or a value that an order cannot have. It names the key, never the value of `token`."""


@dataclass(frozen=True)
class Order:
    """The order of one machine. All values are strings, as in the text.

    `issued` is in seconds since 1970: an installer whose clock is older sets it. `raw_bytes` and `root_start` are bytes of the image after
    decompression; the root partition, which begins at `root_start`, is the last one. `host_key`: the SSH host key is in the seed, or the
    machine makes it.
    """

    id: str
    node: str
    serial: str
    mac: str
    disk: str
    wipe: str
    server: str
    token: str
    issued: str
    image: str
    image_sha256: str
    raw_sha256: str
    raw_bytes: str
    root_start: str
    seed_sha256: str
    address: str
    gateway: str
    host_key: str


def check(values: Mapping[str, object]) -> Order:
    """Return the order of these values. Raises OrderError with the first key that is missing, unknown or has a wrong value."""
    names = [one.name for one in fields(Order)]
    if unknown := sorted(set(values) - set(names)):
        raise OrderError(f"{unknown[0]}: not a key of an order. Allowed: {', '.join(names)}")
    for name in names:
        value = values.get(name)
        if not isinstance(value, str):
            raise OrderError(f"{name}: missing, or not a string")
        if not re.fullmatch(_FORMS[name], value):
            raise OrderError(f"{name}: {'the value' if name == 'token' else repr(value)} is not allowed")
        if name in ("serial", "disk") and value.lower() in PLACEHOLDERS:
            raise OrderError(f"{name}: {value!r} is a placeholder of firmware, not a serial number")
    if int(str(values["raw_bytes"])) % (1 << 20):
        raise OrderError("raw_bytes: not a multiple of 1 MiB")
    if int(str(values["root_start"])) % (1 << 20):
        raise OrderError("root_start: not a multiple of 1 MiB")
    return Order(**{name: str(values[name]) for name in names})


def render(order: Order) -> str:
    """Return the text of an order."""
    lines = [f"bedplate_order={VERSION}", *(f"{key}={value}" for key, value in asdict(check(asdict(order))).items())]
    return "\n".join([*lines, f"end={len(lines)}", ""])


def parse(text: str) -> Order:
    """Read the text of an order. Raises OrderError."""
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] != f"bedplate_order={VERSION}" or lines[-1] != f"end={len(lines) - 1}":
        raise OrderError(
            f"The text does not begin with bedplate_order={VERSION}, or is cut: it does not end with its number of lines"
        )
    values: dict[str, object] = {}
    for line in lines[1:-1]:
        key, _equals, value = line.partition("=")
        if key in values:
            raise OrderError(f"{key}: given twice")
        values[key] = value
    return check(values)
