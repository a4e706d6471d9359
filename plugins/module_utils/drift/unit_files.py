# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files of a unit (fragment and drop-ins) in systemd's order, and read their settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..common.sysfs import Root

# systemd.unit(5): of several files with one name, the first one counts.
DIRECTORIES = (
    "etc/systemd/system.control",
    "run/systemd/system.control",
    "run/systemd/transient",
    "run/systemd/generator.early",
    "etc/systemd/system",
    "run/systemd/system",
    "run/systemd/generator",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
    "run/systemd/generator.late",
)
# Settings whose lines add up; dependencies cannot be reset.
_DEPENDENCIES = re.compile(
    r"(After|Before|Wants|Requires|Requisite|BindsTo|PartOf|Conflicts|OnFailure|WantedBy|RequiredBy|Alias|Also)\Z"
)
_LISTS = re.compile(r"(Exec\w+|Environment(File)?|Condition\w+|Assert\w+|(ReadWrite|ReadOnly|Inaccessible)Paths)\Z")


@dataclass(frozen=True)
class UnitLine:
    """A line of a unit's file."""

    path: str
    line: int
    section: str
    key: str
    value: str

    @property
    def place(self) -> str:
        """Return file and line."""
        return f"{self.path}:{self.line}"

    @property
    def name(self) -> tuple[str, str]:
        """Return section and key."""
        return self.section, self.key


@dataclass(frozen=True)
class UnitFiles:
    """Hold the files of a unit as absolute paths: the fragment ("" if none) and the ordered drop-ins."""

    fragment: str
    drop_ins: tuple[str, ...]

    @property
    def paths(self) -> list[str]:
        """Return all files in the order in which systemd reads them."""
        return [*([self.fragment] if self.fragment else []), *self.drop_ins]


def files_of(root: Root, unit: str) -> UnitFiles:
    """Return the files of a unit that systemd will find at its next reload."""
    names = [unit, *filter(None, [template_of(unit)])]
    fragments = (f"{folder}/{name}" for name in names for folder in DIRECTORIES)
    fragment = next((f"/{path}" for path in fragments if exists(root, path)), "")
    found: dict[str, str] = {}
    for name in _folders(unit):
        for folder in DIRECTORIES:
            for one in root.names(f"{folder}/{name}"):
                if one.endswith(".conf"):
                    found.setdefault(one, f"/{folder}/{name}/{one}")
    # A link to /dev/null disables a drop-in.
    return UnitFiles(fragment, tuple(path for _name, path in sorted(found.items()) if not is_nothing(root, path)))


def template_of(unit: str) -> str:
    """Return the template of an instance, "" for any other unit.

    >>> [template_of(one) for one in ("opensm-plane@fabric.service", "getty@.service", "slurmd.service")]
    ['opensm-plane@.service', '', '']
    """
    stem, _dot, kind = unit.rpartition(".")
    name, at, instance = stem.partition("@")
    return f"{name}@.{kind}" if at and instance else ""


def exists(root: Root, path: str) -> bool:
    """Return whether a file or a link exists, even if the link is dangling."""
    folder, _slash, name = path.rpartition("/")
    return os.path.lexists(root.find(folder) / name)


def is_nothing(root: Root, path: str) -> bool:
    """Return whether a file is empty, or a link to /dev/null, which masks files of the same name elsewhere."""
    at = root.find(path)
    return str(at).endswith("/dev/null") or (at.is_file() and at.stat().st_size == 0)


def _folders(unit: str) -> Iterator[str]:
    """Yield names of drop-in directories, the most specific one first: foo-bar.service.d, foo-.service.d, service.d."""
    stem, _dot, kind = unit.rpartition(".")
    yield f"{unit}.d"
    if template := template_of(unit):
        yield f"{template}.d"
    for place in range(len(stem) - 1, 0, -1):
        if stem[place] == "-" and place < len(stem) - 1:
            yield f"{stem[: place + 1]}.{kind}.d"
    yield f"{kind}.d"


def settings(root: Root, path: str) -> Iterator[UnitLine]:
    """Yield the settings of a file, with continued lines joined."""
    section, number, pending = "", 0, ""
    for at, line in enumerate(root.lines(path), 1):
        if pending and line.lstrip()[:1] in ("#", ";"):
            continue
        number = number if pending else at
        text, pending = pending + line.strip(), ""
        if text.endswith("\\"):
            pending = text[:-1] + " "
        elif head := re.match(r"\[(.+)\]\Z", text):
            section = head[1]
        elif text and text[0] not in "#;" and "=" in text:
            key, _equals, value = text.partition("=")
            yield UnitLine(path, number, section, key.strip(), value.strip())


def in_force(found: Sequence[UnitLine], name: tuple[str, str]) -> list[UnitLine]:
    """Return the lines of a setting that are in force, given the lines of all files in order; an empty line resets the earlier ones."""
    counting: list[UnitLine] = []
    for one in found:
        if one.name != name:
            continue
        if _DEPENDENCIES.match(one.key):
            counting += [one] if one.value else []
        elif not one.value:
            counting = []
        elif _LISTS.match(one.key):
            counting.append(one)
        else:
            counting = [one]
    return counting
