# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the paths of a site's extra files and drop-ins with the paths of parts, and with each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import UNIT_DIRECTORY

from .part_files import parts_of
from .part_paths import PartPath, literal_paths, manifests_of, matches

_PLANES = "opensm-plane@{{ item.plane }}.service"
_CONTENTS = ("file", "block")


@dataclass(frozen=True)
class SitePath:
    """A path that a variable of a site names. `place`: the variable with the entry. `unit`: the unit of a drop-in, or ""."""

    role: str
    place: str
    path: str
    state: str = "file"
    unit: str = ""

    @property
    def where(self) -> str:
        """Return the place with the path, where the place does not have it."""
        return self.place if self.path in self.place else f"{self.place}: {self.path}"


def site_paths(role: str, extra_files: Any, drop_ins: Any) -> Iterator[SitePath]:
    """Yield the paths of a site's variables of a role. Entries that cannot be are left out; the check of the variables reports them."""
    for number, entry in enumerate(extra_files if isinstance(extra_files, list) else ()):
        path = entry.get("path") if isinstance(entry, Mapping) else None
        if isinstance(path, str) and path.startswith("/"):
            yield SitePath(role, f"{role}_extra_files[{number}] {path}", path, str(entry.get("state", "file")))
    units = drop_ins if isinstance(drop_ins, Mapping) else {}
    if role == "opensm":
        # Those of opensm are of every plane's unit.
        units = {_PLANES: units} if units else {}
    for unit, files in units.items():
        for name in files if isinstance(files, Mapping) else ():
            place = f"{role}_drop_ins: {name}" if unit == _PLANES else f"{role}_drop_ins: {unit}: {name}"
            yield SitePath(role, place, f"{UNIT_DIRECTORY}/{unit}.d/{name}", unit=str(unit))


def conflicts(site: SitePath, part: PartPath) -> bool:
    """Return whether a path of a site and a path of a part exclude each other."""
    # Blocks of two manifests are beside each other in one file.
    beside = site.state == part.state == "block" and part.manifest not in manifests_of(site.role)
    return bool(_relation(site, part, site.role == part.role)) and not beside


def candidates(site: SitePath, roles: tuple[str, ...]) -> Iterator[PartPath]:
    """Yield the paths of all parts of these roles that can exclude the path of a site, as the part files have them."""
    for role in roles:
        for part in parts_of(role):
            yield from (one for one in literal_paths(role, part) if _may_conflict(site, one))


def part_mistake(site: SitePath, part: PartPath) -> str:
    """Return the mistake of a path of a site that excludes a path of a part."""
    writer = f"the part {part.part} of the role {part.role} ({part.source})"
    relation = _relation(site, part, site.role == part.role)
    if relation == "above":
        text = f"{site.where}: is a {site.state}, and {writer} writes {part.path} below it"
        return f"{text}; allowed: a path above no file of a part. Choose another path, or state: directory"
    if relation == "below":
        text = f"{site.where}: is below {part.path}, which {writer} writes as a {part.state}"
        return f"{text}; allowed: a path below no file of a part. Choose another path"
    what = "directory" if part.state == "directory" else "path"
    text = f"{site.where}: {writer} writes this {what}, too; allowed: a path that no part writes. "
    if part.template:
        return f"{text}To change its content, set {part.role}_templates: {{{part.template}: ...}}; else choose another path"
    if site.unit:
        return f"{text}Choose another name"
    return f"{text}Choose another path, or change it with the variables of the role {part.role} or the cluster file"


def site_mistake(one: SitePath, other: SitePath) -> str:
    """Return the mistake of two paths of a site that exclude each other, or ""."""
    relation = _relation(one, other, one.role == other.role)
    if not relation:
        return ""
    if relation == "same":
        return f"{one.where}: {other.place} writes this path, too; allowed: each path once. Remove one of the two"
    upper, lower = (one, other) if relation == "above" else (other, one)
    text = f"{lower.where}: is below {upper.path}, which {upper.place} writes as a {upper.state}"
    return f"{text}; allowed: a path below no file. Choose another path"


def _may_conflict(site: SitePath, part: PartPath) -> bool:
    if conflicts(site, part):
        return True
    # A name in place of a placeholder may have directories of its own.
    return "{{" in part.path and site.state != "directory" and matches(part.path, f"{site.path}/_")


def _relation(one: SitePath | PartPath, other: SitePath | PartPath, same_role: bool) -> str:
    """Return where the first path is: `same`, `above` or `below` the second one; "" if both can be on a host."""
    if matches(one.path, other.path) or matches(other.path, one.path):
        return "same"
    # A link of another role may be there before, and lead to a directory.
    closed = (*_CONTENTS, "link") if same_role else _CONTENTS
    if one.state in closed and _is_below(other.path, one.path):
        return "above"
    if other.state in closed and _is_below(one.path, other.path):
        return "below"
    return ""


def _is_below(path: str, directory: str) -> bool:
    if path.startswith(f"{directory}/"):
        return True
    parts = path.split("/") if "{{" in directory else ()
    return any(matches(directory, "/".join(parts[:end])) for end in range(2, len(parts)))
