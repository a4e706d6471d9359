# SPDX-License-Identifier: GPL-3.0-or-later
"""Read typed values of a Redfish resource. A value of another type, as some BMCs send, counts as missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Resource = Mapping[str, Any]


def text(body: Resource, *keys: str) -> str:
    """Return the string at a path of keys, "" without one."""
    value = _at(body, keys)
    return value.strip() if isinstance(value, str) else ""


def number(body: Resource, *keys: str) -> int:
    """Return the whole number at a path of keys, 0 without one."""
    value = _at(body, keys)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return int(value) if is_number else 0


def flag(body: Resource, *keys: str) -> bool | None:
    """Return the boolean at a path of keys, None without one."""
    value = _at(body, keys)
    return value if isinstance(value, bool) else None


def texts(body: Resource, *keys: str) -> tuple[str, ...]:
    """Return the strings of the list at a path of keys."""
    value = _at(body, keys)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def part(body: Resource, *keys: str) -> Resource:
    """Return the object at a path of keys, empty without one."""
    value = _at(body, keys)
    return value if isinstance(value, Mapping) else {}


def parts(body: Resource, *keys: str) -> tuple[Resource, ...]:
    """Return the objects of the list at a path of keys."""
    value = _at(body, keys)
    return tuple(one for one in value if isinstance(one, Mapping)) if isinstance(value, list) else ()


def link(body: Resource, *keys: str) -> str:
    """Return the path of the linked resource at a path of keys, "" without one."""
    return text(part(body, *keys), "@odata.id")


def links(body: Resource, *keys: str) -> tuple[str, ...]:
    """Return the paths of the linked resources in the list at a path of keys."""
    return tuple(path for one in parts(body, *keys) if (path := text(one, "@odata.id")))


def _at(body: Resource, keys: tuple[str, ...]) -> Any:
    value: Any = body
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
