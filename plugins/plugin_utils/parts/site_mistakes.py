# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what a site changes in the parts of a role: `<role>_extra_files`, `<role>_drop_ins` and `<role>_templates`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import drop_in_mistakes

from ..common.file_entries import mistakes as file_mistakes
from .part_files import is_owned, part_file, parts_of, templates_of
from .placeholders import PLACEHOLDER


@cache
def units_of(role: str) -> tuple[str, ...]:
    """Return the units that a role owns; a `*` replaces a placeholder in a name."""
    rows = (unit for part in parts_of(role) for unit in part_file(role, part).get("units", ()) if is_owned(unit))
    return tuple(dict.fromkeys(PLACEHOLDER.sub("*", unit["name"]) for unit in rows))


def site_mistakes(role: str, choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes of the site's changes. `choices` are the role's variables by their name after `<role>_`."""
    for text in file_mistakes(role, choices.get("extra_files") or [], []):
        yield f"{role}_extra_{text}" if text.startswith("files") else f"{role}_extra_files: {text}"
    known = templates_of(role)
    for name in choices.get("templates") or {}:
        if name not in known:
            hint = did_you_mean(str(name), known, lead="; did")
            yield f"{role}_templates: {name!r} is not a template of the role{hint}; allowed: {', '.join(known)}"
    drop_ins = choices.get("drop_ins") or {}
    # Those of opensm are of every plane's unit, and have no unit's name.
    if role == "opensm":
        yield from _drop_ins(f"{role}_drop_ins", drop_ins)
        return
    for unit, files in drop_ins.items():
        if any(fnmatchcase(str(unit), one) for one in units_of(role)):
            yield from _drop_ins(f"{role}_drop_ins: {unit}", files)
        else:
            yield f"{role}_drop_ins: {unit!r} is not a unit of the role; allowed: {', '.join(units_of(role))}"


def _drop_ins(place: str, files: Any) -> Iterator[str]:
    """Yield the mistakes in drop-ins, as the module on the node judges them."""
    for text in drop_in_mistakes({} if files is None else files):
        yield f"{place}: {text.removeprefix('drop_ins ')}"
