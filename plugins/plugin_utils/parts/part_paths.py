# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the paths and units of parts, without their contents: as a part file has them, or with the values of a host."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..common import shipped
from .part_files import part_file, parts_of
from .placeholders import FOR_EACH, PLACEHOLDER, Scope, expanded, filled

UNREAD: Mapping[tuple[str, str], frozenset[str]] = {
    ("gpu_driver", "driver"): frozenset({"reboot_reasons"}),
    ("opensm", "opensm"): frozenset({"proved"}),
    ("container_runtime", "pyxis"): frozenset({"slurmd", "touched"}),
}
"""Role and part -> values that are known only after a task has read the node."""


@dataclass(frozen=True)
class PartPath:
    """A path that a part writes. It has placeholders where it is as the part file has it.

    `template`: the role's own template of the content, or "".
    """

    role: str
    part: str
    path: str
    state: str = "file"
    manifest: str = ""
    template: str = ""

    @property
    def source(self) -> str:
        """Return the part file, below the directory of the collection."""
        return f"roles/{self.role}/parts/{self.part}.yml"


@dataclass(frozen=True)
class PartUnit:
    """A unit of a part on a host."""

    name: str
    masked: bool = False


def manifests_of(role: str) -> set[str]:
    """Return the manifests that have a site's own files of a role."""
    documents = (part_file(role, part) for part in parts_of(role))
    return {str(one["manifest"]) for one in documents if one.get("site_files")}


@cache
def literal_paths(role: str, part: str) -> tuple[PartPath, ...]:
    """Return the paths of a part as its file has them."""
    document = part_file(role, part)
    found = [_path(role, part, row, document) for row in _rows(document)]
    programs = dict.fromkeys(unit["program"] for unit in document.get("units", ()) if "program" in unit)
    return (*found, *(one for name in programs for one in _program(role, part, name, document)))


@cache
def literal_units(role: str, part: str) -> tuple[str, ...]:
    """Return the names of the units of a part as its file has them."""
    return tuple(unit["name"] for unit in part_file(role, part).get("units", ()))


def host_paths(role: str, part: str, values: Mapping[str, Any]) -> Iterator[PartPath]:
    """Yield the paths of a part on a host. A path that needs one of UNREAD is as the part file has it, since the host may get it.

    PlaceholderError: a value is missing.
    """
    document, scope = part_file(role, part), Scope(values)
    manifest = {"manifest": filled(document.get("manifest", ""), scope)}
    for row in _rows(document):
        if _is_unread(role, part, row):
            yield _path(role, part, row, manifest)
            continue
        for one, inner in expanded(row, scope):
            yield _path(role, part, {**one, "path": filled(one["path"], inner)}, manifest)
    for row in document.get("units", ()):
        if "program" in row and any(True for _each in expanded(row, scope)):
            yield from _program(role, part, row["program"], manifest)


def host_units(role: str, part: str, values: Mapping[str, Any]) -> Iterator[PartUnit]:
    """Yield the units of a part on a host, as `host_paths` yields its paths."""
    scope = Scope(values)
    for row in part_file(role, part).get("units", ()):
        if _is_unread(role, part, row):
            yield PartUnit(row["name"], row.get("masked") is True)
            continue
        for one, inner in expanded(row, scope):
            yield PartUnit(filled(one["name"], inner), filled(one.get("masked"), inner) is True)


def template_uses(
    role: str, part: str, values: Mapping[str, Any], names: Mapping[str, Any]
) -> Iterator[tuple[str, str, Scope]]:
    """Yield name, path on the host and scope of each use of the role's templates `names`."""
    scope = Scope(values)
    for row in _rows(part_file(role, part)):
        if row.get("template") in names:
            for one, inner in expanded(row, scope):
                yield one["template"], filled(one["path"], inner), inner


@cache
def templates_used(role: str, part: str) -> frozenset[str]:
    """Return the names of the templates of a part."""
    return frozenset(row["template"] for row in _rows(part_file(role, part)) if "template" in row)


def matches(pattern: str, path: str) -> bool:
    """Return whether a path can be one with placeholders.

    >>> matches("/etc/slurm/{{ item.name }}", "/etc/slurm/gres.conf"), matches("/etc/hosts", "/etc/host")
    (True, False)
    """
    return pattern == path or ("{{" in pattern and _expression(pattern).fullmatch(path) is not None)


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(PLACEHOLDER.sub("\0", pattern)).replace("\0", ".+"))


def _rows(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*document.get("sources", ()), *document.get("files", ())]


def _is_unread(role: str, part: str, row: Mapping[str, Any]) -> bool:
    return str(row.get(FOR_EACH, "")).removeprefix("values.") in UNREAD.get((role, part), ())


def _path(role: str, part: str, row: Mapping[str, Any], document: Mapping[str, Any]) -> PartPath:
    template = str(row.get("template", ""))
    own = "" if "/" in template else template
    return PartPath(role, part, row["path"], row.get("state", "file"), str(document.get("manifest", "")), own)


def _program(role: str, part: str, name: str, document: Mapping[str, Any]) -> Iterator[PartPath]:
    yield from (_path(role, part, entry, document) for entry in shipped.entries(name))
