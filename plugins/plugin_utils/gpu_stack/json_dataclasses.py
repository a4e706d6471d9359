# SPDX-License-Identifier: GPL-3.0-or-later
"""Dataclasses from what json.loads returns, by the types of their fields."""

from __future__ import annotations

from dataclasses import is_dataclass
from functools import cache
from typing import Any, TypeVar, cast, get_args, get_type_hints

T = TypeVar("T")


def typed(kind: type[T], value: Any) -> T:
    """Return an object as the dataclass `kind`, its lists as tuples; unknown keys are left out.

    A value that is neither list nor object stays as it is: whether a file is right is for its schema to say.
    """
    return cast(T, _value(kind, value))


def _value(kind: Any, value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(kind, type) and is_dataclass(kind):
            hints = _hints(kind)
            return kind(**{key: _value(hints[key], one) for key, one in value.items() if key in hints})
        return {key: _value(get_args(kind)[1], one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        kinds = get_args(kind)
        each = kinds[:1] * len(value) if kinds[-1] is ... else kinds
        return tuple(_value(one, part) for one, part in zip(each, value, strict=True))
    return value


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
