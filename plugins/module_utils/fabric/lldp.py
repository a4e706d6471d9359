# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse LLDP neighbours from `lldpctl -f json` or `-f json0`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\Z")
# A MAU type as lldpd writes it: 1000BaseTFD in Mbit/s, 2p5GigT, 10GigBaseLR and 400GbaseDR4 in Gbit/s.
_MAU = re.compile(r"(\d+(?:p\d+)?)(G?)(?:ig)?(?:[Bb]ase|T\b)")


class LldpError(ValueError):
    """Report a text that is not an answer of lldpctl."""


@dataclass(frozen=True)
class Neighbour:
    """Hold what one interface reports of the device at the other end of its cable; "" and 0 where LLDP does not say it.

    `system` is the chassis's description, such as `Cumulus Linux version 5.9`. `port` and `port_description` are both kept: a switch may
    send an index as its port and the port's name as the description. `is_bridge` is true if the device enabled bridging or routing.
    `frame` is the largest frame in bytes (MFS), with its header; `gbits` the speed of the port in Gbit/s, from the MAU type in use.
    """

    interface: str
    name: str = ""
    port: str = ""
    port_description: str = ""
    mac: str = ""
    system: str = ""
    is_bridge: bool = False
    frame: int = 0
    gbits: float = 0

    @property
    def port_name(self) -> str:
        """Return the port's name: its description if the port is identified only by its MAC and has another description."""
        by_mac = bool(_MAC.match(self.port))
        return self.port_description if by_mac and not _MAC.match(self.port_description or self.port) else self.port


def neighbours(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the own interface, and the neighbour's name, port and MAC. Raises LldpError if this is not an answer of lldpctl.

    A neighbour without a name is `""`; a port that is identified only by its MAC has the MAC as its name. An interface that cannot be read
    has a neighbour with empty fields.
    """
    for one in reports(answer):
        yield one.interface, one.name, one.port_name, one.mac


def reports(answer: Mapping[str, Any]) -> Iterator[Neighbour]:
    """Yield each neighbour of an answer. Raises LldpError if this is not an answer of lldpctl."""
    lldp = answer.get("lldp")
    # json0 writes everything as a list; json writes a single item as a map.
    for part in lldp if isinstance(lldp, list) else [lldp]:
        if not isinstance(part, Mapping):
            raise LldpError("`lldp` not found. Pass the output of `lldpctl -f json`")
        for interface, told in _interfaces(part.get("interface", [])):
            seen = False
            for chassis, name in _chassis(told.get("chassis", {})):
                for port in _listed(told.get("port", {})):
                    seen = True
                    yield _neighbour(interface, name, chassis, port)
            if not seen:
                yield Neighbour(interface)


def _neighbour(interface: str, name: str, chassis: Mapping[str, Any], port: Mapping[str, Any]) -> Neighbour:
    enabled = {str(one.get("type")) for one in _listed(chassis.get("capability", [])) if one.get("enabled") is True}
    frame = _value(port, "mfs")
    return Neighbour(
        interface,
        name,
        _value(port, "id"),
        _value(port, "descr"),
        _value(chassis, "id"),
        _value(chassis, "descr"),
        bool(enabled & {"Bridge", "Router"}),
        int(frame) if frame.isascii() and frame.isdigit() else 0,
        gbits_of(_value(_first(port.get("auto-negotiation")), "current")),
    )


def gbits_of(mau: str) -> float:
    """Return the speed of a MAU type in Gbit/s, 0 if the text has no speed.

    >>> gbits_of("100GbaseSR4 - 100GBASE-R PCS/PMA over 4 lane multimode fiber"), gbits_of("1000BaseTFD - UTP"), gbits_of("unknown")
    (100.0, 1.0, 0)
    """
    match = _MAU.match(mau)
    if not match:
        return 0
    number = float(match[1].replace("p", "."))
    return number if match[2] else number / 1000


def _value(found: Mapping[str, Any], key: str) -> str:
    return str(_first(found.get(key)).get("value", ""))


def _interfaces(found: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one in found if isinstance(found, list) else [found]:
        if not isinstance(one, Mapping):
            raise LldpError(f"`interface` has {one!r}, which is not an interface")
        if isinstance(one.get("name"), str):
            yield one["name"], one
        else:
            for name, told in one.items():
                for each in _listed(told) or [{}]:
                    yield str(name), each


def _chassis(found: object) -> Iterator[tuple[Mapping[str, Any], str]]:
    for one in _listed(found):
        if "id" in one:
            yield one, str(_first(one.get("name")).get("value", ""))
        else:
            for name, told in one.items():
                for each in _listed(told):
                    yield each, str(name)


def _listed(found: object) -> list[Mapping[str, Any]]:
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, Mapping)]


def _first(found: object) -> Mapping[str, Any]:
    """Return {"value": ..}, which json0 wraps in a list and json does not."""
    one = found[0] if isinstance(found, list) and found else found
    if isinstance(one, Mapping):
        return one
    return {} if one is None or one == [] else {"value": one}
