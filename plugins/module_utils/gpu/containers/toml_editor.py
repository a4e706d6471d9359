# SPDX-License-Identifier: GPL-3.0-or-later
"""Set keys in the text of a TOML file of another owner; comments, order and all other keys stay.

The program that reads the file validates it; Python can parse TOML only from 3.11 on, and nodes have older versions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*(\.|\Z)""")
_HEADER = re.compile(r"\s*\[(?!\[)(?P<name>[^\]#]+)\]\s*(?:#.*)?\Z")
_ANY_HEADER = re.compile(r"\s*\[")
_FENCES = ('"' * 3, "'" * 3)


class TomlError(ValueError):
    """File in which a key cannot be set; the text is complete."""


def set_values(text: str, values: Mapping[str, Any]) -> str:
    r"""Return a TOML text with these values set; a mapping is a table.

    >>> print(set_values('version = 2\n', {"plugins": {"io.x": {"cdi": True}}}), end="")
    version = 2
    <BLANKLINE>
    [plugins."io.x"]
      cdi = true
    """
    for table, key, value in _leaves(values, ()):
        text = _set(text, table, key, _literal(value))
    return text


def value_of(text: str, table: tuple[str, ...], key: str) -> str:
    r"""Return a value as it is written; "" where the table has no such key.

    >>> value_of('[plugins."io.x"]\n  cdi = true # yes\n', ("plugins", "io.x"), "cdi")
    'true'
    """
    lines = text.split("\n")
    start, end = _body(lines, table)
    found = [match for line in lines[start:end] if (match := _key(key).match(line))] if start is not None else []
    return _bare(found[-1]["value"]) if found else ""


def _key(key: str) -> re.Pattern[str]:
    name = re.escape(key)
    return re.compile(rf"(?P<indent>\s*)(?:{name}|\"{name}\"|'{name}')\s*=\s*(?P<value>.*)")


def _leaves(values: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    # Keys of a table come before its sub-tables, as they must in a file.
    for key, value in values.items():
        if not isinstance(value, Mapping):
            yield above, key, value
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))


def _set(text: str, table: tuple[str, ...], key: str, literal: str) -> str:
    lines = text.split("\n")
    start, end = _body(lines, table)
    if start is None:
        name = ".".join(_name(part) for part in table)
        before = text if text.endswith("\n") or not text else f"{text}\n"
        return f"{before}{'' if not before else chr(10)}[{name}]\n  {_name(key)} = {literal}\n"
    found = _key(key)
    for number in range(start, end):
        match = found.match(lines[number])
        if match:
            if _bare(match["value"]) == literal:
                return text
            _refuse_long(match["value"], key)
            lines[number] = f"{match['indent']}{_name(key)} = {literal}"
            return "\n".join(lines)
    lines.insert(start, f"{_indent(lines, start, end)}{_name(key)} = {literal}")
    return "\n".join(lines)


def _body(lines: Sequence[str], table: tuple[str, ...]) -> tuple[int | None, int]:
    """Return the lines of a table: the first after its header, and the one after its last; None if the table is missing."""
    start: int | None = None if table else 0
    fence = ""
    for number, line in enumerate(lines):
        if fence:
            fence = "" if fence in line else fence
            continue
        if _ANY_HEADER.match(line) and not _inside_array(lines, number):
            if start is not None:
                return start, number
            match = _HEADER.match(line)
            if match and _split(match["name"]) == table:
                start = number + 1
            continue
        fence = next((mark for mark in _FENCES if line.count(mark) % 2), "")
    # A file ends with a line end, after which split() sees one more line.
    return start, len(lines) - 1 if lines and lines[-1] == "" else len(lines)


def _inside_array(lines: Sequence[str], number: int) -> bool:
    """Return whether a line that starts with a bracket continues an array of arrays: the line before ends with [ or ,"""
    before = next((line for line in reversed(lines[:number]) if line.strip() and not line.lstrip().startswith("#")), "")
    return before.rstrip().endswith(("[", ","))


def _split(name: str) -> tuple[str, ...]:
    parts, at = [], 0
    while at < len(name):
        match = _PART.match(name, at)
        if not match:
            return ()
        parts.append(next(group for group in match.groups()[:3] if group is not None))
        at = match.end()
    return tuple(parts)


def _name(part: str) -> str:
    return part if re.fullmatch(r"[A-Za-z0-9_-]+", part) else json.dumps(part)


def _bare(value: str) -> str:
    """Return a value without a trailing comment, if the end of the value is obvious."""
    return value.strip() if value.strip()[:1] in ('"', "'", "[") else value.partition("#")[0].strip()


def _refuse_long(value: str, key: str) -> None:
    if (value.startswith("[") and "]" not in value) or value.startswith(_FENCES):
        raise TomlError(f"{key} has a value of several lines, which bedplate does not change. Write it on one line")


def _indent(lines: Sequence[str], start: int, end: int) -> str:
    """Return the indent of the table's keys, or one level below its header."""
    first = next((line for line in lines[start:end] if line.strip() and not line.lstrip().startswith("#")), None)
    if first is not None:
        return first[: len(first) - len(first.lstrip())]
    header = lines[start - 1] if start else ""
    return header[: len(header) - len(header.lstrip())] + ("  " if start else "")


def _literal(value: Any) -> str:
    # A bool is an int: JSON writes it as TOML does.
    if isinstance(value, (str, int)):
        return json.dumps(value)
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return f"[{', '.join(json.dumps(one) for one in value)}]"
    raise TomlError(f"{value!r} cannot be written. Allowed: true, false, a number, a text or a list of texts")
