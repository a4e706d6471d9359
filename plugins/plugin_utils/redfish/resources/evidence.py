# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect the resources of a BMC that show its dialect, choose its System, and test conditions on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
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

    @property
    def manager_links(self) -> tuple[Resource, ...]:
        """Return the managers; their paths are enough."""
        return self.managers


class LazyEvidence:
    """The resources of Evidence, each read when the first condition needs it: most BMCs are recognised by the links of their System.

    Resources that the caller has read already are `known`, by their names in Evidence.
    """

    def __init__(self, get: Get, root: Resource, system: Resource, **known: Any) -> None:
        """Take the ServiceRoot and the chosen System."""
        self._get, self.root, self.system = get, root, system
        vars(self).update(known)

    @cached_property
    def system_settings(self) -> Resource:
        """Return the settings object of the System."""
        return optional(self._get, link(self.system, SETTINGS_LINK))

    @cached_property
    def manager_links(self) -> tuple[Resource, ...]:
        """Return the links to the managers of the System; the managers themselves if it links to none."""
        return tuple(mappings(value(self.system, "Links/ManagedBy"))) or self.managers

    @cached_property
    def managers(self) -> tuple[Resource, ...]:
        """Return the managers of the System, else all managers."""
        managed_by = [optional(self._get, path_of(one)) for one in mappings(value(self.system, "Links/ManagedBy"))]
        listed = link(self.root, "Managers") or f"{ROOT}Managers"
        return tuple(filter(None, managed_by)) or tuple(members(self._get, listed))

    @cached_property
    def bios(self) -> Resource:
        """Return the Bios resource."""
        return optional(self._get, link(self.system, "Bios"))

    @cached_property
    def media(self) -> tuple[Resource, ...]:
        """Return the slots of virtual media: of the System if it has some, else of its managers."""
        found = members(self._get, link(self.system, "VirtualMedia"))
        return tuple(found or [slot for one in self.managers for slot in members(self._get, link(one, "VirtualMedia"))])

    @cached_property
    def update(self) -> Resource:
        """Return the UpdateService."""
        return optional(self._get, link(self.root, "UpdateService"))


def gather(get: Get, serial: str = "") -> Evidence:
    """Return the evidence of a BMC, read through `get`: about ten resources. `serial` is the declared serial number, if it is known.

    SystemChoiceError: no System, or several, can be commanded. LookupError: the BMC has no service root.
    """
    root = get(ROOT)
    systems = tuple(members(get, link(root, "Systems") or f"{ROOT}Systems"))
    lazy = LazyEvidence(get, root, choose_system(systems, serial))
    return Evidence(root, systems, lazy.system, lazy.system_settings, lazy.managers, lazy.bios, lazy.media, lazy.update)


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


def holds(condition: Mapping[str, Any], evidence: Evidence | LazyEvidence) -> bool:
    """Return whether a condition of dialects.json holds.

    {"any": [conditions]} holds if one of them does. Otherwise `in` names an attribute of Evidence, `at` the keys of a value in it, `is` the
    test and `value` its argument. Of several resources one must pass, with `each` all, and there must be one.
    """
    if "any" in condition:
        return any(holds(one, evidence) for one in condition["any"])
    # The path of a manager needs no request: the System links to it.
    is_path = (condition["in"], condition["at"]) == ("managers", "@odata.id")
    subject = evidence.manager_links if is_path else getattr(evidence, condition["in"])
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
