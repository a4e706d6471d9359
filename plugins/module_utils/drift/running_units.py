# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare units with their desired state: what systemd has in force, and other files that override bedplate's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import WARNING, Finding
from ..common.sysfs import Root
from ..primitives.units.unit_plan import PROPERTIES, Unit, UnitState, parse_show
from . import unit_files, written_files
from .unit_files import UnitLine

_KEYS = ("name", "enabled", "masked", "state", "condition", "state_where")
_OWN_PLACE = re.compile(r"/(?:etc|run|usr/local/lib|usr/lib|lib)/systemd/system/([^/]+?)(?:\.d/[^/]+\.conf)?\Z")
_LIMIT = re.compile(r"Limit[A-Z]+\Z")
_BOOTS = ("static", "indirect", "alias", "generated", "transient")
# Drop-ins that a vendor's package adds to its own unit are not reported.
_VENDOR = ("/usr/lib/", "/lib/")


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Compare the units of `expected["units"]`, entries of bedplate.cluster.units, and units that bedplate wrote a file of."""
    wanted = [Unit(**{key: row[key] for key in _KEYS if row.get(key) is not None}) for row in expected["units"]]
    wanted = [one.where(_text(root, one)) for one in _merged(wanted)]
    own = {path for path, one in written_files.records(root).items() if one.type == "file" and _OWN_PLACE.match(path)}
    names = {one.name for one in wanted}
    touched = sorted({match[1] for path in own if (match := _OWN_PLACE.match(path))} - names)
    # systemctl shows the instances of a template, not the template itself.
    wanted = [one for one in [*wanted, *(Unit(name) for name in touched if _is_unit(name))] if "@." not in one.name]
    if not wanted:
        return
    seen, problem = _show(run, [one.name for one in wanted])
    if problem:
        yield Finding("systemd", "systemctl show", "output", problem, "systemctl is-system-running")
    for unit in wanted:
        now = seen.get(unit.name)
        overrides = list(_files(root, unit.name, own))
        yield from overrides
        if now is not None:
            yield from _state(root, unit, now)
            yield from _limits(root, unit.name, run, own, {one.where for one in overrides})


def _merged(units: Sequence[Unit]) -> list[Unit]:
    """Return one unit for each name, as several parts of a role may name it; a value that one of them states counts."""
    found: dict[str, Unit] = {}
    for unit in units:
        old = found.get(unit.name)
        known = {key: getattr(unit, key) for key in _KEYS if getattr(unit, key) not in (None, "required")}
        found[unit.name] = replace(old, **known) if old else unit
    return list(found.values())


def _text(root: Root, unit: Unit) -> str | None:
    """Return the text of the file that decides whether a unit's desired state applies here."""
    return root.text(str(unit.state_where["path"]), needed=False) if unit.state_where else None


def _is_unit(name: str) -> bool:
    return "." in name and not name.endswith((".wants", ".requires", ".d"))


def _show(run: Runner, names: Sequence[str]) -> tuple[dict[str, UnitState], str]:
    outcome = run(["systemctl", "show", f"--property={','.join(PROPERTIES)}", "--", *names])
    try:
        return (parse_show(outcome.stdout, names), "") if outcome.code == 0 else ({}, outcome.error_line)
    except ValueError as error:
        return {}, str(error)


def _state(root: Root, unit: Unit, now: UnitState) -> Iterator[Finding]:
    """Compare whether a unit is enabled, and whether it runs."""
    name = unit.name
    if now.masked:
        if unit.masked is not True and (unit.enabled or unit.to_run):
            yield Finding(
                "unit-masked", f"unit {name}", "enabled" if unit.enabled else "not masked", "masked",
                f"systemctl unmask {name}", overridden_by=_mask(root, name),
            )  # fmt: skip
        return
    if now.absent:
        if unit.enabled or unit.to_run:
            yield Finding("unit-absent", f"unit {name}", "installed", "not found", "reinstall its package")
        return
    if unit.masked:
        yield Finding("unit-enabled", f"unit {name}", "masked", now.file or "not masked", f"systemctl mask {name}")
    elif unit.enabled and now.file not in ("enabled", *_BOOTS):
        yield Finding("unit-enabled", f"unit {name}", "enabled", now.file or "disabled", f"systemctl enable {name}")
    elif unit.enabled is False and now.file.startswith(("enabled", "linked")):
        yield Finding("unit-enabled", f"unit {name}", "disabled", now.file, f"systemctl disable {name}")
    is_excused = now.done or (unit.condition == "allowed" and (now.unmet or (now.active == "inactive" and _unmet(now))))
    if unit.to_run and not now.running and not is_excused:
        remedy = f"systemctl status {name}; systemctl start {name}"
        yield Finding("unit-active", f"unit {name}", "active", f"{now.active} ({now.sub})", remedy)
    elif unit.state == "stopped" and now.running:
        yield Finding("unit-active", f"unit {name}", "stopped", now.active, f"systemctl stop {name}")
    if now.stale:
        yield Finding(
            "unit-reload", f"unit {name}", "systemd has read its files", "its files changed after systemd read them",
            "systemctl daemon-reload", severity=WARNING,
        )  # fmt: skip


def _unmet(now: UnitState) -> bool:
    """Return whether a unit with conditions is inactive as if never started: systemd forgets the reason."""
    return now.result in ("success", "") and now.started == 0


def _mask(root: Root, name: str) -> str:
    """Return the link that masks a unit."""
    found = (f"/{folder}/{name}" for folder in unit_files.DIRECTORIES if unit_files.exists(root, f"{folder}/{name}"))
    return next((path for path in found if unit_files.is_nothing(root, path)), "")


def _files(root: Root, name: str, own: Collection[str]) -> Iterator[Finding]:
    """Compare the settings of all files of a unit with the settings of bedplate's files alone."""
    there = unit_files.files_of(root, name)
    mine = next((path for path in own if path.endswith(_own_names(name))), "")
    if there.fragment and unit_files.is_nothing(root, there.fragment):
        return
    if mine and there.fragment and there.fragment != mine:
        yield Finding(
            "unit-fragment", f"unit {name}", mine, there.fragment, f"remove {there.fragment}", overridden_by=there.fragment
        )  # fmt: skip
        return
    found = [one for path in there.paths for one in unit_files.settings(root, path)]
    for path in sorted(own):
        if any(f"{one}.d/" in path for one in _own_names(name)) and path not in there.drop_ins and root.exists(path):
            yield from _hidden(there, path)
    base = {path for path in there.paths if path in own or path == there.fragment or path.startswith(_VENDOR)}
    without = [one for one in found if one.path in base]
    for key in dict.fromkeys(one.name for one in found if one.path not in base):
        if key not in {one.name for one in without if one.path in own} and not _is_vital(key[1]):
            continue
        before, after = (unit_files.in_force(lines, key) for lines in (without, found))
        if [one.value for one in before] != [one.value for one in after] and not _is_harmless(key[1], before, after):
            winner = [one for one in found if one.name == key and one.path not in base][-1]
            yield _overridden(name, key[1], before, after, winner)


def _own_names(name: str) -> tuple[str, ...]:
    """Return the path suffixes of a unit's file and of its template."""
    return tuple(f"/{one}" for one in (name, unit_files.template_of(name)) if one)


def _hidden(there: unit_files.UnitFiles, path: str) -> Iterator[Finding]:
    """Yield a finding if a file of the same name, in a directory of higher priority, hides a drop-in."""
    base = path.rpartition("/")[2]
    by = next((one for one in there.drop_ins if one.endswith(f"/{base}")), "a file of the same name")
    yield Finding("unit-drop-in", f"drop-in {path}", "read", "hidden", f"remove {by}", overridden_by=by)


def _is_vital(key: str) -> bool:
    """Return whether a setting decides which program a unit runs, or whether it runs."""
    return key.startswith(("ExecStart", "Condition", "Assert")) or key in ("User", "Group", "Type")


def _is_harmless(key: str, before: Sequence[UnitLine], after: Sequence[UnitLine]) -> bool:
    """Return whether only lines were added to a list that does not change what runs: dependencies, environment."""
    values = [one.value for one in after]
    return not _is_vital(key) and len(after) > 1 and all(one.value in values for one in before)


def _overridden(
    name: str, key: str, before: Sequence[UnitLine], after: Sequence[UnitLine], winner: UnitLine
) -> Finding:
    texts = [", ".join(one.value for one in lines) or "empty" for lines in (before, after)]
    remedy = f"remove the line or the file, then systemctl daemon-reload; see systemctl cat {name}"
    return Finding("unit-drop-in", f"{key} of {name}", texts[0], texts[1], remedy, overridden_by=winner.place)


def _limits(root: Root, name: str, run: Runner, own: Collection[str], named: Collection[str]) -> Iterator[Finding]:
    """Compare the limits that systemd has in force with the limits in bedplate's files, if no other file sets them."""
    mine = [
        one
        for path in sorted(own)
        if any(end in path for end in _own_names(name))
        for one in unit_files.settings(root, path)
    ]
    keys = [key for key in dict.fromkeys(one.name for one in mine) if _LIMIT.match(key[1])]
    keys = [key for key in keys if f"{key[1]} of {name}" not in named]
    if not keys:
        return
    outcome = run(["systemctl", "show", f"--property=LoadState,{','.join(key[1] for key in keys)}", "--", name])
    there = dict(line.split("=", 1) for line in outcome.stdout.splitlines() if "=" in line)
    # systemd shows its own defaults for a unit that is not installed; its drop-ins may exist before it.
    if there.get("LoadState") == "not-found":
        return
    for key in keys:
        wanted = unit_files.in_force(mine, key)
        value = wanted[0].value if wanted else ""
        if value and key[1] in there and there[key[1]] != value:
            yield Finding(
                "unit-property", f"{key[1]} of {name}", value, there[key[1]], f"systemctl daemon-reload; systemctl cat {name}"
            )  # fmt: skip
