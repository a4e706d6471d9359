# SPDX-License-Identifier: GPL-3.0-or-later
"""Render a part of a role: from its file, its templates and values to the arguments of bedplate.cluster.deploy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..common import shipped
from .part_files import PartError, is_owned, part_file, rendered_template, role_file
from .placeholders import PlaceholderError, Scope, expanded, filled

_OWN = ("sources", "files", "site_files", "undivided")
SiteRenderer = Callable[[str, str, Mapping[str, Any]], str]
"""Render a site's own template: its path, the path of the file on the node, `values` and `item`; returns the text."""


def _no_renderer(path: str, _destination: str, _variables: Mapping[str, Any]) -> str:
    raise PartError(f"{path}: a template of the site needs Ansible's templar")


@dataclass(frozen=True)
class SiteChanges:
    """Changes of a site to the parts of a role.

    `templates`: name of a template of the role -> path of the site's own. `extra_files`: further entries of bedplate.cluster.files.
    `drop_ins`: unit -> file name -> content.
    """

    templates: Mapping[str, str] = field(default_factory=dict)
    extra_files: Sequence[Mapping[str, Any]] = ()
    drop_ins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    render: SiteRenderer = _no_renderer


def render_part(role: str, part: str, values: Mapping[str, Any], site: SiteChanges | None = None) -> dict[str, Any]:
    """Return the arguments of bedplate.cluster.deploy for a part with these values. PartError: it cannot be rendered."""
    document, site = part_file(role, part), site or SiteChanges()
    scope = Scope(values)
    try:
        found = {key: filled(document[key], scope) for key in document if key not in _OWN}
        entries = _Entries(role, site)
        for key in ("sources", "files"):
            if key in document:
                found[key] = [entry for one in document[key] for entry in entries.of(one, scope)]
        units = found.get("units", [])
        programs = list(dict.fromkeys(unit["program"] for unit in units if "program" in unit))
        if programs:
            found["files"] = [*found.get("files", []), *(one for name in programs for one in shipped.entries(name))]
        found["units"] = [_unit(unit, site.drop_ins) for unit in units]
        if document.get("site_files"):
            found["files"] = [*found.get("files", []), *site.extra_files]
    except PlaceholderError as error:
        raise PartError(f"part {part!r} of role {role}: {error}") from None
    return found


class _Entries:
    """Make entries of bedplate.cluster.files from the entries of a part."""

    def __init__(self, role: str, site: SiteChanges) -> None:
        self._role = role
        self._site = site

    def of(self, row: Mapping[str, Any], scope: Scope) -> Iterator[dict[str, Any]]:
        """Yield the entries of one row of a part: several with a `for_each`."""
        for one, inner in expanded(row, scope):
            yield self._entry(filled(one, inner), inner)

    def _entry(self, entry: dict[str, Any], scope: Scope) -> dict[str, Any]:
        if "template" in entry:
            entry["content"] = self._template(entry.pop("template"), entry["path"], scope)
        if "json" in entry:
            entry["content"] = json.dumps(entry.pop("json"), indent=1) + "\n"
        if "src" in entry:
            entry["content"] = role_file(self._role, entry.pop("src"))
        if "validate_script" in entry:
            entry["validate"] = f"sh -c {shlex.quote(role_file(self._role, entry.pop('validate_script')))} sh %s"
        return entry

    def _template(self, name: str, destination: str, scope: Scope) -> str:
        own = self._site.templates.get(name)
        if own:
            return self._site.render(own, destination, scope.variables())
        return rendered_template(self._role, name, scope.variables())


def _unit(unit: Mapping[str, Any], drop_ins: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Return a unit as bedplate.cluster.units takes it: one with a `program` restarts when that changes."""
    found = {key: value for key, value in unit.items() if key != "program"}
    if "program" in unit:
        files = [path for path, _text in shipped.files(unit["program"])]
        found["restart_after"] = [*found.get("restart_after", []), *files]
    if is_owned(unit):
        # Also without drop-ins: one that the site no longer names is removed.
        own = (drop_ins.get(unit["name"]) or {}) if unit["enabled"] else {}
        found["drop_ins"] = {**found.get("drop_ins", {}), **own}
    return found
