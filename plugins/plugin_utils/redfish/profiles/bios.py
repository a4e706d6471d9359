# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the BIOS attributes of a machine, current and pending, with a site's profile, attribute by attribute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ....module_utils.common.finding import NOTICE, WARNING, Finding
from ....module_utils.common.text import nearest
from ..resources import attribute_registry
from ..resources.attribute_registry import (
    BOOLEAN,
    ENUMERATION,
    INTEGER,
    NO_REGISTRY,
    PASSWORD,
    STRING,
    Attribute,
    AttributeRegistry,
)
from ..resources.attribute_rules import Block, block_of, mistake
from ..resources.reader import Get, Resource, link, mapping, mappings, optional, path_of, texts, value
from .profile_files import BiosProfile

# States of an attribute. PENDING: the desired value applies at the next reset. OVERWRITTEN: the next reset replaces the desired value.
# UNKNOWN: the BIOS has no attribute of this name. BLOCKED: read-only now. INVALID: not a legal value.
EQUAL, DIFFERENT, PENDING, OVERWRITTEN = "equal", "different", "pending", "overwritten"
UNKNOWN, BLOCKED, INVALID = "unknown", "blocked", "invalid"
WRITABLE = (DIFFERENT, OVERWRITTEN, BLOCKED)
KIND, VERSION_KIND = "bios-attribute", "bios-version"
_MOST_NEAR = 3


@dataclass(frozen=True)
class BiosState:
    """Hold what a machine's BIOS resource, its settings object and its registry have.

    `pending` has the attributes whose value changes at the next reset. `messages` are the texts of the BMC about the last change, by
    attribute; "" is about all. `settings_path` is where changes are written.
    """

    path: str = ""
    settings_path: str = ""
    version: str = ""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    pending: Mapping[str, Any] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    registry: AttributeRegistry = NO_REGISTRY


@dataclass(frozen=True)
class AttributeRow:
    """Hold the comparison of one attribute. Without a value, `found` or `pending` is `None`. `reason` has the registry's words."""

    name: str
    state: str
    desired: Any
    found: Any = None
    pending: Any = None
    reason: str = ""
    # Attributes that block this one.
    parents: tuple[str, ...] = ()


def read_state(get: Get, system: Resource, registry: AttributeRegistry | None = None, version: str = "") -> BiosState:
    """Return the state of the BIOS of a System: three resources, and two more for the registry unless the caller has it already.

    A machine without a Bios resource has an empty state. `version` is for a System that does not state the version of its BIOS.
    """
    version = str(system.get("BiosVersion") or "").strip() or version
    bios = optional(get, link(system, "Bios"))
    if not bios:
        return BiosState(version=version)
    settings_path = link(bios, "@Redfish.Settings/SettingsObject")
    settings = optional(get, settings_path)
    attributes = dict(mapping(bios.get("Attributes")))
    staged = mapping(settings.get("Attributes"))
    return BiosState(
        path=path_of(bios) or link(system, "Bios"),
        settings_path=settings_path or path_of(bios) or link(system, "Bios"),
        version=version,
        attributes=attributes,
        pending={
            name: one
            for name, one in staged.items()
            if one is not None and "@" not in name and one != attributes.get(name)
        },
        messages=_messages(bios, settings),
        registry=attribute_registry.find(get, bios) if registry is None else registry,
    )


def _messages(bios: Resource, settings: Resource) -> dict[str, str]:
    """Return attribute -> text of @Redfish.Settings.Messages and of the message annotations of the settings object; success is left out."""
    found: dict[str, str] = {}
    for name, annotation in mapping(settings.get("Attributes")).items():
        if name.endswith("@Message.ExtendedInfo") and isinstance(annotation, list):
            found[name.partition("@")[0]] = " ".join(_text(one) for one in mappings(annotation))
    for message in mappings(value(bios, "@Redfish.Settings/Messages")):
        if str(message.get("MessageId") or "").rpartition(".")[2] == "Success":
            continue
        names = [one.rpartition("/")[2] for one in texts(message.get("RelatedProperties"))] or [""]
        for name in names:
            found[name] = f"{found.get(name, '')} {_text(message)}".strip()
    return found


def _text(message: Mapping[str, Any]) -> str:
    arguments = ", ".join(texts(message.get("MessageArgs")))
    text = str(message.get("Message") or message.get("MessageId") or "")
    return text if message.get("Message") or not arguments else f"{text} ({arguments})"


def compare(profile: BiosProfile, state: BiosState) -> list[AttributeRow]:
    """Return one row for each attribute of the profile, in its order."""
    return [_row(name, desired, state) for name, desired in profile.attributes.items()]


def _row(name: str, desired: Any, state: BiosState) -> AttributeRow:
    found, pending = state.attributes.get(name), state.pending.get(name)
    row = AttributeRow(name, EQUAL, desired, found, pending)
    if name not in state.attributes and name not in state.registry.attributes:
        near = _near(name, {**state.attributes, **state.registry.attributes})
        return replace(row, state=UNKNOWN, reason=f"nearest names: {', '.join(near)}" if near else "no similar name")
    attribute = described(name, state)
    wrong = mistake(attribute, desired)
    if wrong:
        return replace(row, state=INVALID, reason=wrong)
    at_reset = found if pending is None else pending
    if same(attribute, found, desired):
        if same(attribute, at_reset, desired):
            return row
        return replace(row, state=OVERWRITTEN, reason=f"{pending} is pending for the next reset")
    if same(attribute, at_reset, desired):
        return replace(row, state=PENDING, reason="applies at the next reset")
    block: Block | None = block_of(state.registry, name, state.attributes, now=True)
    if block:
        return replace(row, state=BLOCKED, reason=block.reason, parents=block.parents)
    return replace(row, state=DIFFERENT, reason="" if pending is None else f"{pending} is pending for the next reset")


def described(name: str, state: BiosState) -> Attribute:
    """Return an attribute of the registry; if the registry has no type, the one of the current value."""
    attribute = state.registry.of(name)
    found = state.attributes.get(name)
    if attribute.kind in ("", STRING) and "password" in name.lower():
        return replace(attribute, kind=PASSWORD)
    if attribute.kind or found is None:
        return attribute
    return replace(
        attribute, kind=BOOLEAN if isinstance(found, bool) else INTEGER if isinstance(found, int) else STRING
    )


def same(attribute: Attribute, one: Any, other: Any) -> bool:
    """Return whether two values of an attribute are equal: by its type, since some BMCs report numbers and booleans as text."""
    if attribute.kind == PASSWORD or one is None or other is None:
        return False
    if attribute.kind in (ENUMERATION, STRING):
        return str(one) == str(other)
    return str(one).lower() == str(other).lower()


def shown_value(found: Any) -> str:
    """Return a value of an attribute as text, as JSON writes it, a text without quotes.

    >>> shown_value(True), shown_value("On"), shown_value(""), shown_value(None)
    ('true', 'On', '""', 'no value')
    """
    if found is None:
        return "no value"
    return str(found).lower() if isinstance(found, bool) else '""' if found == "" else str(found)


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Return the most similar names, the best first."""
    left: set[str] = set(known)
    found: list[str] = []
    while len(found) < _MOST_NEAR and (one := nearest(name, sorted(left), fold=True)):
        found.append(one)
        left.discard(one)
    return found


def findings(profile: BiosProfile, state: BiosState) -> list[Finding]:
    """Return the differences of a machine's BIOS from its profile. PENDING is a notice, since the desired value is already written."""
    if not state.path:
        return [
            Finding(
                VERSION_KIND,
                "BIOS",
                f"profile {profile.name}",
                "the BMC has no Bios resource",
                "Set the BIOS by hand.",
                WARNING,
            )
        ]
    found: list[Finding] = []
    if not profile.is_for(state.version):
        remedy = "Update the BIOS, or add this version to bios_version after a comparison of the attributes."
        found.append(
            Finding(
                VERSION_KIND,
                "BIOS version",
                " or ".join(profile.versions),
                state.version or "no version",
                remedy,
                WARNING,
            )
        )
    return found + [_finding(row, state) for row in compare(profile, state) if row.state != EQUAL]


def _finding(row: AttributeRow, state: BiosState) -> Finding:
    remedies = {
        UNKNOWN: "Correct the name in the profile.",
        INVALID: "Correct the value in the profile.",
        PENDING: "Reset the machine.",
        BLOCKED: f"Set {', '.join(row.parents)} in the profile."
        if row.parents
        else "Remove the attribute from the profile.",
    }
    is_secret = described(row.name, state).kind == PASSWORD
    shown = (
        "not an attribute of this BIOS"
        if row.state == UNKNOWN
        else "a password"
        if is_secret
        else shown_value(row.found)
    )
    return Finding(
        KIND,
        f"BIOS attribute {row.name}",
        "no password" if is_secret else shown_value(row.desired),
        f"{shown} ({row.state}{f': {row.reason}' if row.reason else ''})",
        remedies.get(row.state, "Write the profile to the BMC, and reset the machine."),
        NOTICE if row.state == PENDING else "error",
        reboot=row.state in (PENDING, DIFFERENT, OVERWRITTEN, BLOCKED),
    )
