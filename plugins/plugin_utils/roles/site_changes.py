# SPDX-License-Identifier: GPL-3.0-or-later
"""Find mistakes in a site's extra files, drop-ins and templates that take the decisions of a host to see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

from ..parts.part_paths import PartUnit
from ..parts.path_conflicts import SitePath, candidates, conflicts, part_mistake, site_mistake, site_paths
from .role_mistakes import ROLES
from .site_host import SiteHost, UndecidedError

VARIABLES = ("extra_files", "drop_ins", "templates")
"""What a site changes in parts, by what is behind `<role>_` in the name of a variable."""


def path_mistakes(host: SiteHost) -> Iterator[str]:
    """Yield the mistakes in paths and units of the site's extra files and drop-ins on a host.

    A role decides only if the path of one of its part files, with any name in place of a placeholder, excludes a path of the site.
    """
    found = [(role, host.variable(role, "extra_files"), host.variable(role, "drop_ins")) for role in host.roles]
    paths = [one for role, files, drop_ins in found for one in site_paths(role, files, drop_ins)]
    yield from (text for one in paths if (text := _of_parts(host, one)))
    for one, other in combinations(paths, 2):
        # Two files of one variable are compared by the check of the variable, also where the role does not run.
        text = site_mistake(one, other) if (one.role, one.unit) != (other.role, other.unit) else ""
        if text and _is_written(host, one) and _is_written(host, other):
            yield text
    yield from _unit_mistakes(
        host, {role: drop_ins for role, _files, drop_ins in found if isinstance(drop_ins, Mapping)}
    )


def _of_parts(host: SiteHost, site: SitePath) -> str:
    """Return the mistake of a path that excludes one of a part on this host, or ""."""
    named = dict.fromkeys((one.role, one.part) for one in candidates(site, ROLES))
    for role, part in named:
        wrong = next((one for one in host.paths(role, part) if conflicts(site, one)), None)
        if wrong and _is_written(host, site):
            return part_mistake(site, wrong)
    return ""


def _is_written(host: SiteHost, site: SitePath) -> bool:
    if not site.unit or site.role == "opensm":
        return host.writes_site_files(site.role)
    return any(True for _unit in _units(host, site.role, site.unit))


def _units(host: SiteHost, role: str, name: str) -> Iterator[PartUnit]:
    """Yield a unit of a role on this host; where its units are unknown, as a unit that is not masked."""
    try:
        yield from host.units(role, name)
    except UndecidedError:
        yield PartUnit(name)


def _unit_mistakes(host: SiteHost, drop_ins: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the mistakes of units that a role masks here, and of units with drop-ins of two roles."""
    owners: dict[str, str] = {}
    for role, units in drop_ins.items():
        # Those of opensm are of every plane's unit, and have no unit's name.
        for name in units if role != "opensm" else ():
            found = list(_units(host, role, name))
            if any(unit.masked for unit in found):
                text = f"{role}_drop_ins: {name}: this host masks the unit, so it never runs; allowed: units that run"
                yield f"{text}. Remove its drop-ins here"
            if found and name in owners:
                text = f"{role}_drop_ins: {name}: {owners[name]}_drop_ins has drop-ins of this unit, too, and each role removes the other's"
                yield f"{text}; allowed: a unit in one of the two. Move all its drop-ins there"
            if found:
                owners.setdefault(name, role)
