# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine as another system has it: the one type that all sources return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

OfCluster = Callable[[str, str], bool]
"""Whether a machine is of the cluster, by its name and its serial number: of others no details are fetched."""


class SourceError(ValueError):
    """A source that cannot be used: all mistakes, each with its place in the source."""

    def __init__(self, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(mistakes))


@dataclass(frozen=True)
class MachineRow:
    """A machine of a source.

    `where`: its place, such as `machines.csv:3` or `NetBox device 12`. `name`: as the source has it, "" for none. `values`: key of the
    record -> text as the source has it. `notes`: key -> why its value is not known, such as two NICs that could be the boot NIC.
    """

    where: str
    name: str
    values: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A part of an export: its name for people, and its text or its parsed JSON."""

    name: str
    content: Any


def text(value: Any) -> str:
    """Return a scalar of JSON as text, "" for null, booleans, lists and objects."""
    return str(value).strip() if isinstance(value, str | int | float) and not isinstance(value, bool) else ""


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list, [] for anything else."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def filled(**values: str) -> dict[str, str]:
    """Return the values that are not empty."""
    return {key: value for key, value in values.items() if value}


def chosen(names: Iterable[str], patterns: tuple[str, ...]) -> list[str]:
    """Return the names that the first pattern with any matches, without regard to case.

    >>> chosen(["eno1", "eno2", "ib0"], ("enp*", "eno1"))
    ['eno1']
    """
    known = list(names)
    found = ([name for name in known if fnmatchcase(name.lower(), pattern.lower())] for pattern in patterns)
    return next((matches for matches in found if matches), [])
