# SPDX-License-Identifier: GPL-3.0-or-later
"""Fill the placeholders of a part: `{{ values.name }}`, and `for_each: values.<list>`, whose elements are `item`.

There is nothing else: no condition, no filter, no statement. What needs one is decided in Python, as a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FOR_EACH = "for_each"
PLACEHOLDER = re.compile(r"\{\{ (values|item)(?:\.([a-z][a-z0-9_]*))? \}\}")
_LIST = re.compile(r"values\.([a-z][a-z0-9_]*)\Z")
_NONE = object()


class PlaceholderError(ValueError):
    """A placeholder that cannot be filled."""


@dataclass(frozen=True)
class Scope:
    """Names for placeholders: the values of a part, and the element of a `for_each`."""

    values: Mapping[str, Any]
    item: Any = _NONE

    def variables(self) -> dict[str, Any]:
        """Return the variables of a template."""
        return {"values": self.values, **({} if self.item is _NONE else {"item": self.item})}

    def look_up(self, owner: str, name: str | None) -> Any:
        """Return the value of a placeholder. PlaceholderError: the value is missing."""
        if owner == "item":
            if self.item is _NONE:
                raise PlaceholderError(f"item is known only in an entry with {FOR_EACH}")
            return self.item if name is None else _of(self.item, name, "item")
        if name is None:
            raise PlaceholderError("values needs a name, as in {{ values.version }}")
        return _of(self.values, name, "values")


def _of(mapping: Any, name: str, called: str) -> Any:
    if not isinstance(mapping, Mapping) or name not in mapping:
        known = ", ".join(sorted(mapping)) if isinstance(mapping, Mapping) else type(mapping).__name__
        raise PlaceholderError(f"{called}.{name} not found; {called} has: {known}")
    return mapping[name]


def filled(value: Any, scope: Scope) -> Any:
    """Return data with its placeholders filled. A text that is one placeholder becomes the value itself, of whichever type.

    PlaceholderError: a placeholder of another form, of an unknown name, or of a list or mapping within a text.

    >>> filled({"path": "/etc/{{ values.name }}.conf", "packages": "{{ values.all }}"}, Scope({"name": "x", "all": ["y"]}))
    {'path': '/etc/x.conf', 'packages': ['y']}
    """
    if isinstance(value, str):
        return _text(value, scope)
    if isinstance(value, Mapping):
        return {key: filled(each, scope) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(row, inner) for each in value for row, inner in expanded(each, scope)]
    return value


def expanded(row: Any, scope: Scope) -> Iterator[tuple[Any, Scope]]:
    """Yield a row of a list with its scope: once for each element of its `for_each`, with that as `item`; else once."""
    if not isinstance(row, Mapping) or FOR_EACH not in row:
        yield row, scope
        return
    rest = {key: one for key, one in row.items() if key != FOR_EACH}
    for item in _items(row[FOR_EACH], scope):
        yield rest, Scope(scope.values, item)


def _items(text: Any, scope: Scope) -> list[Any]:
    named = _LIST.match(str(text))
    if not named:
        raise PlaceholderError(f"{FOR_EACH}: {text!r}; allowed: values.<name of a list>")
    found = scope.look_up("values", named[1])
    if not isinstance(found, list | tuple):
        raise PlaceholderError(f"{FOR_EACH}: {text} is a {type(found).__name__}; allowed: a list")
    return list(found)


def _text(text: str, scope: Scope) -> Any:
    if "{%" in text or "{#" in text:
        raise PlaceholderError(f"{text!r} has a statement; allowed: {{{{ values.name }}}}")
    if whole := PLACEHOLDER.fullmatch(text):
        return scope.look_up(whole[1], whole[2])
    pieces, end = [], 0
    for found in PLACEHOLDER.finditer(text):
        value = scope.look_up(found[1], found[2])
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise PlaceholderError(
                f"{found[0]} in {text!r} is a {type(value).__name__}; allowed within a text: a text or a number"
            )
        pieces += [text[end : found.start()], str(value)]
        end = found.end()
    rest = "".join([*pieces, text[end:]])
    if "{{" in PLACEHOLDER.sub("", text):
        raise PlaceholderError(f"{text!r}; allowed: {{{{ values.name }}}} and {{{{ item.name }}}}, without a filter")
    return rest
