# SPDX-License-Identifier: GPL-3.0-or-later
"""Find and read the attribute registry of a BIOS: type, allowed values and dependencies of attributes (schema: DMTF DSP8010)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .reader import ROOT, Get, Resource, link, mapping, mappings, optional, path_of, value

ENUMERATION, INTEGER, BOOLEAN, STRING, PASSWORD = "Enumeration", "Integer", "Boolean", "String", "Password"
_ENTRIES = "RegistryEntries"
_LANGUAGE = "en"
# Where a BMC has its registry if no registry file links to it: below its Bios resource (iDRAC).
_BELOW_BIOS = "/BiosRegistry"
_BIOS_REGISTRY = "biosattributeregistry"


@dataclass(frozen=True)
class Attribute:
    """Hold what the registry states of one attribute. None: not limited. `kind` is the type, "" if the registry states none."""

    name: str
    kind: str = ""
    title: str = ""
    read_only: bool = False
    gray_out: bool = False
    hidden: bool = False
    # Names of the values of an enumeration; empty if the registry lists none.
    values: tuple[str, ...] = ()
    lower: int | None = None
    upper: int | None = None
    step: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""


@dataclass(frozen=True)
class Condition:
    """Compare a property of an attribute with a value. `term`, AND or OR, joins the condition with the one before it."""

    attribute: str
    property: str
    operator: str
    value: Any
    term: str = "AND"


@dataclass(frozen=True)
class Dependency:
    """Set a property of an attribute, such as ReadOnly or CurrentValue, while the conditions hold."""

    conditions: tuple[Condition, ...]
    attribute: str
    property: str
    value: Any


@dataclass(frozen=True)
class AttributeRegistry:
    """Hold a registry: attributes by name, and dependencies in the registry's order. `path` is "" where the BMC shows no registry."""

    path: str = ""
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    dependencies: tuple[Dependency, ...] = ()

    def of(self, name: str) -> Attribute:
        """Return an attribute; one without a type if the registry does not have it."""
        return self.attributes.get(name) or Attribute(name)


NO_REGISTRY = AttributeRegistry()


def find(get: Get, bios: Resource) -> AttributeRegistry:
    """Return the registry of a Bios resource, NO_REGISTRY where the BMC shows none.

    The registry file is the one that `AttributeRegistry` of the Bios resource names. Without that name it is the only registry of BIOS
    attributes. Then the registry below the Bios resource is tried.
    """
    for path in (*_located(get, str(bios.get("AttributeRegistry") or "")), f"{path_of(bios).rstrip('/')}{_BELOW_BIOS}"):
        resource = optional(get, path)
        if isinstance(resource.get(_ENTRIES), Mapping):
            return parse(resource, path)
    return NO_REGISTRY


def _located(get: Get, name: str) -> Iterator[str]:
    """Yield where the registry of this name can be: the English location first."""
    collection = optional(get, link(optional(get, ROOT), "Registries") or f"{ROOT}Registries")
    paths = [path_of(one) for one in mappings(collection.get("Members"))]
    found = [path for path in paths if _last(path) == name.lower()] if name else []
    candidates = [path for path in paths if _last(path).startswith(_BIOS_REGISTRY)]
    if not found and len(candidates) == 1:
        found = candidates
    for path in found or ([f"{path_of(collection) or f'{ROOT}Registries'}/{name}"] if name else []):
        file = optional(get, path)
        locations = mappings(file.get("Location"))
        for location in sorted(locations, key=lambda one: one.get("Language") != _LANGUAGE):
            uri = location.get("Uri")
            yield uri if isinstance(uri, str) else path_of(mapping(uri))
        yield path


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].lower()


def parse(resource: Resource, path: str = "") -> AttributeRegistry:
    """Return a registry from its resource. Entries without a name, and dependencies without a target, are left out."""
    attributes = (_attribute(one) for one in mappings(value(resource, f"{_ENTRIES}/Attributes")))
    dependencies = (_dependency(one) for one in mappings(value(resource, f"{_ENTRIES}/Dependencies")))
    return AttributeRegistry(
        path or path_of(resource),
        {one.name: one for one in attributes if one.name},
        tuple(one for one in dependencies if one.attribute and one.conditions),
    )


def _attribute(entry: Mapping[str, Any]) -> Attribute:
    return Attribute(
        name=str(entry.get("AttributeName") or ""),
        kind=str(entry.get("Type") or ""),
        title=str(entry.get("DisplayName") or ""),
        read_only=is_true(entry.get("ReadOnly")) or is_true(entry.get("Immutable")),
        gray_out=is_true(entry.get("GrayOut")),
        hidden=is_true(entry.get("Hidden")),
        values=tuple(
            str(one.get("ValueName") or one.get("ValueDisplayName"))
            for one in mappings(entry.get("Value"))
            if one.get("ValueName") or one.get("ValueDisplayName")
        ),
        lower=_number(entry.get("LowerBound")),
        upper=_number(entry.get("UpperBound")),
        step=_number(entry.get("ScalarIncrement")),
        min_length=_number(entry.get("MinLength")),
        max_length=_number(entry.get("MaxLength")),
        pattern=str(entry.get("ValueExpression") or ""),
    )


def _dependency(entry: Mapping[str, Any]) -> Dependency:
    body = entry.get("Dependency")
    if not isinstance(body, Mapping) or entry.get("Type", "Map") != "Map":
        return Dependency((), "", "", None)
    return Dependency(
        tuple(
            Condition(
                str(one.get("MapFromAttribute") or ""),
                str(one.get("MapFromProperty") or "CurrentValue"),
                str(one.get("MapFromCondition") or "EQU"),
                one.get("MapFromValue"),
                str(one.get("MapTerms") or "AND"),
            )
            for one in mappings(body.get("MapFrom"))
        ),
        str(body.get("MapToAttribute") or entry.get("DependencyFor") or ""),
        str(body.get("MapToProperty") or ""),
        body.get("MapToValue"),
    )


def is_true(found: Any) -> bool:
    """Return whether a registry means true: the boolean, or the word, which AMI's registries have instead.

    >>> is_true(True), is_true("true"), is_true("False"), is_true(None)
    (True, True, False, False)
    """
    return found is True or (isinstance(found, str) and found.lower() == "true")


def _number(found: Any) -> int | None:
    return int(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None
