# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse LLDP neighbours from `lldpctl -f json` or `-f json0`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_MAC = re.compile(r"(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\Z")


class LldpError(ValueError):
    """Report a text that is not an answer of lldpctl."""


def neighbours(answer: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the own interface, and the neighbour's name, port and MAC. Raises LldpError if this is not an answer of lldpctl.

    A neighbour without a name is `""`; a port that is identified only by its MAC has the MAC as its name. An interface that cannot be read
    has a neighbour with empty fields.
    """
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
                    yield interface, name, _port_name(port), str(_first(chassis.get("id")).get("value", ""))
            if not seen:
                yield interface, "", "", ""


def _port_name(port: Mapping[str, Any]) -> str:
    name, description = (str(_first(port.get(key)).get("value", "")) for key in ("id", "descr"))
    by_mac = _first(port.get("id")).get("type") == "mac" or bool(_MAC.match(name))
    return description if by_mac and description and not _MAC.match(description) else name


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
