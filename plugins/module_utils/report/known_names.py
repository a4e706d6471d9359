# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the names of a machine that a report must not have: of hosts, domains and users, and serial numbers."""

from __future__ import annotations

from collections.abc import Iterable

from ..common.sysfs import Root

_DMI = "sys/class/dmi/id"
_SERIALS = (
    *(f"{_DMI}/{name}" for name in ("product_serial", "board_serial", "chassis_serial", "product_uuid")),
    *(f"{_DMI}/{name}" for name in ("board_asset_tag", "chassis_asset_tag")),
    "sys/firmware/devicetree/base/serial-number",
    "etc/machine-id",
)
# What firmware has where nobody wrote a number.
_FILLERS = ("default", "to be filled", "not ", "none", "n/a", "unknown", "system ", "chassis ", "0123456789", "asset")
_FIRST_USER, _NOBODY = 1000, 65534


def known_names(root: Root) -> dict[str, list[str]]:
    """Return names by kind: host, domain, user, serial. A file that is missing or unreadable adds no name."""
    silent = Root(str(root.top))  # a number that only root may read is not a problem of the report
    hosts = [silent.text(path, needed=False) or "" for path in ("proc/sys/kernel/hostname", "etc/hostname")]
    domains = [silent.text("proc/sys/kernel/domainname", needed=False) or ""]
    for line in silent.lines("etc/hosts"):
        hosts += line.partition("#")[0].split()[1:]
    for line in silent.lines("etc/resolv.conf"):
        words = line.split()
        if words[:1] and words[0] in ("search", "domain"):
            domains += words[1:]
    domains += [host.partition(".")[2] for host in hosts if "." in host]
    short = [host.partition(".")[0] for host in hosts]
    serials = [(silent.text(path, needed=False) or "").strip("\0 ") for path in _SERIALS]
    return {
        "host": _unique([*hosts, *short]),
        "domain": _unique(one for one in domains if "." in one),
        "user": _unique([*_users(silent), *silent.names("home")]),
        "serial": _unique(one for one in serials if len(one) > 3 and not one.lower().startswith(_FILLERS)),
    }


def _unique(names: Iterable[str]) -> list[str]:
    return sorted({name for name in names if name})


def _users(root: Root) -> list[str]:
    found = []
    for line in root.lines("etc/passwd"):
        fields = line.split(":")
        if len(fields) > 2 and fields[2].isdecimal() and _FIRST_USER <= int(fields[2]) != _NOBODY:
            found.append(fields[0])
    return found
