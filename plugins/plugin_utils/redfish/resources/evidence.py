# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the resources of a BMC that show its dialect, choose its System, and test conditions on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from .firmware_versions import OLDER, compare
from .reader import ROOT, Get, Resource, link, mappings, members, optional, path_of, value

_RESET = "Actions/#ComputerSystem.Reset"
SETTINGS_LINK = "@Redfish.Settings/SettingsObject"


class SystemChoiceError(ValueError):
    """Report that no single System of a BMC can be commanded."""


@dataclass(frozen=True)
class Evidence:
    """Hold the resources that show a dialect. A resource that the BMC does not have is empty."""

    root: Resource = field(default_factory=dict)
    systems: tuple[Resource, ...] = ()
    system: Resource = field(default_factory=dict)
    system_settings: Resource = field(default_factory=dict)
    managers: tuple[Resource, ...] = ()
    bios: Resource = field(default_factory=dict)
    media: tuple[Resource, ...] = ()
    update: Resource = field(default_factory=dict)


def gather(get: Get, serial: str = "") -> Evidence:
    """Return the evidence of a BMC, read through `get`: about ten resources. `serial` is the declared serial number, if it is known.

    SystemChoiceError: no System, or several, can be commanded. LookupError: the BMC has no service root.
    """
    root = get(ROOT)
    systems = tuple(members(get, link(root, "Systems") or f"{ROOT}Systems"))
    system = choose_system(systems, serial)
    managed_by = [optional(get, path_of(one)) for one in mappings(value(system, "Links/ManagedBy"))]
    managers = tuple(filter(None, managed_by)) or tuple(members(get, link(root, "Managers") or f"{ROOT}Managers"))
    return Evidence(
        root=root,
        systems=systems,
        system=system,
        system_settings=optional(get, link(system, SETTINGS_LINK)),
        managers=managers,
        bios=optional(get, link(system, "Bios")),
        media=tuple(_media(get, system, managers)),
        update=optional(get, link(root, "UpdateService")),
    )


def _media(get: Get, system: Resource, managers: Iterable[Resource]) -> list[Resource]:
    """Return the slots of virtual media: of the System if it has some, else of its managers."""
    found = members(get, link(system, "VirtualMedia"))
    return found or [slot for manager in managers for slot in members(get, link(manager, "VirtualMedia"))]


def serials_of(system: Resource) -> tuple[str, ...]:
    """Return the serial numbers that a System may be declared by: SerialNumber and SKU, without blanks around them."""
    found = (str(system.get(key) or "").strip() for key in ("SerialNumber", "SKU"))
    return tuple(one for one in found if one)


def choose_system(systems: Iterable[Resource], serial: str = "") -> Resource:
    """Return the System that can be commanded: with Boot and Reset, and of several the one with the declared serial number.

    The serial number of a single System is not compared here: another one is a finding of the caller.
    """
    able = [one for one in systems if isinstance(one.get("Boot"), Mapping) and isinstance(value(one, _RESET), Mapping)]
    if len(able) > 1 and serial:
        able = [one for one in able if serial in serials_of(one)]
    if len(able) == 1:
        return able[0]
    names = ", ".join(path_of(one) for one in able)
    raise SystemChoiceError(
        f"several Systems can be booted and reset: {names}. Record the serial number of the machine."
        if able
        else "no System with Boot and Reset. Compare the model and the firmware of the BMC with docs/reference/dialects.md."
    )


def holds(condition: Mapping[str, Any], evidence: Evidence) -> bool:
    """Return whether a condition of dialects.json holds.

    {"any": [conditions]} holds if one of them does. Otherwise `in` names an attribute of Evidence, `at` the keys of a value in it, `is` the
    test and `value` its argument. Of several resources one must pass, with `each` all, and there must be one.
    """
    if "any" in condition:
        return any(holds(one, evidence) for one in condition["any"])
    subject = getattr(evidence, condition["in"])
    resources = list(subject) if isinstance(subject, tuple) else [subject]
    # A subject without any resource has no values: only a test for absence passes.
    if not resources:
        return bool(condition["is"] == "absent" and not condition.get("each") and condition["at"] == "@odata.id")
    passed = (_passes(value(one, condition["at"]), condition["is"], condition.get("value")) for one in resources)
    return all(passed) if condition.get("each") else any(passed)


def _passes(found: Any, test: str, desired: Any) -> bool:
    if test in ("present", "absent"):
        return (found is None) == (test == "absent")
    if test in ("holds", "lacks"):
        return isinstance(found, list) and (desired in found) == (test == "holds")
    if not isinstance(found, str):
        return False
    if test == "like":
        return fnmatchcase(found.lower(), str(desired).lower())
    if test == "exact":
        return fnmatchcase(found, str(desired))
    if test == "below":
        return compare(found, str(desired)) == OLDER
    raise ValueError(f"dialects.json: {test!r} is not a test")
