# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the data of bios/<name>.yml and firmware/<name>.yml, and return them as profiles. All mistakes of a file are reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ....module_utils.common.text import did_you_mean

_HEX = frozenset("0123456789abcdef")


class ProfileError(ValueError):
    """Report the mistakes of a profile, one sentence each in `mistakes`."""

    def __init__(self, name: str, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__("\n".join(f"{name}: {one}" for one in mistakes))


@dataclass(frozen=True)
class BiosProfile:
    """Hold a site's BIOS settings: attributes by the registry's own names, and the BIOS versions (shell patterns) that they are for."""

    name: str
    versions: tuple[str, ...]
    attributes: Mapping[str, str | int | bool]

    def is_for(self, version: str) -> bool:
        """Return whether the profile is for a BIOS of this version."""
        return any(fnmatchcase(version.strip(), one) for one in self.versions)


@dataclass(frozen=True)
class Component:
    """Hold the desired version of the firmware items whose id, name or software id matches the pattern. `file` and `sha256` may be ""."""

    pattern: str
    version: str
    file: str = ""
    sha256: str = ""


@dataclass(frozen=True)
class FirmwareProfile:
    """Hold the desired versions of a model's firmware, in the order of the file: the first pattern that matches an item counts."""

    name: str
    components: tuple[Component, ...]


def bios_profile(data: Any, name: str) -> BiosProfile:
    """Return the profile of {bios_version: "2.4*", attributes: {NAME: value}}; bios_version may be a list. ProfileError: its mistakes."""
    mistakes = list(_keys(data, {"bios_version", "attributes"}))
    if mistakes:
        raise ProfileError(name, mistakes)
    versions = data["bios_version"] if isinstance(data["bios_version"], list) else [data["bios_version"]]
    attributes = data["attributes"]
    if not versions or not all(isinstance(one, str) and one.strip() for one in versions):
        mistakes.append(
            f"bios_version: {data['bios_version']!r} is not a version. Allowed: a string or a list of strings. Quote it."
        )
    if not isinstance(attributes, Mapping) or not attributes:
        mistakes.append("attributes: no attribute. Allowed: a mapping of the registry's names to values.")
    else:
        mistakes += [
            f"attributes.{key}: {value!r} is not a value. Allowed: a string, an integer, true or false."
            for key, value in attributes.items()
            if not isinstance(key, str) or not isinstance(value, (str, int, bool))
        ]
    if mistakes:
        raise ProfileError(name, mistakes)
    return BiosProfile(name, tuple(one.strip() for one in versions), dict(attributes))


def firmware_profile(data: Any, name: str) -> FirmwareProfile:
    """Return the profile of {components: {PATTERN: VERSION or {version: , file: , sha256: }}}. ProfileError: its mistakes."""
    mistakes = list(_keys(data, {"components"}))
    if mistakes:
        raise ProfileError(name, mistakes)
    if not isinstance(data["components"], Mapping) or not data["components"]:
        raise ProfileError(name, ["components: no component. Allowed: a mapping of patterns to versions."])
    found = []
    for pattern, entry in data["components"].items():
        row = entry if isinstance(entry, Mapping) else {"version": entry}
        wrong = list(_component_mistakes(row))
        mistakes += [f"components.{pattern}{one}" for one in wrong]
        if not wrong:
            found.append(
                Component(str(pattern), row["version"].strip(), row.get("file") or "", row.get("sha256") or "")
            )
    if mistakes:
        raise ProfileError(name, mistakes)
    return FirmwareProfile(name, tuple(found))


def _component_mistakes(row: Mapping[str, Any]) -> Iterator[str]:
    known = ("version", "file", "sha256")
    for key in row:
        if key not in known:
            yield f": key {key!r} is unknown.{did_you_mean(str(key), known)} Allowed: {', '.join(known)}."
    version = row.get("version")
    if not isinstance(version, str) or not version.strip():
        yield f".version: {version!r} is not a version. Allowed: a string; YAML reads 1.10 as the number 1.1, so quote it."
    for key in ("file", "sha256"):
        if row.get(key) is not None and not isinstance(row[key], str):
            yield f".{key}: {row[key]!r} is not a string. Quote it."
    digest = row.get("sha256")
    if isinstance(digest, str) and (len(digest) != 64 or not _HEX.issuperset(digest.lower())):
        yield f".sha256: {digest!r} is not a SHA-256. Allowed: 64 hexadecimal digits."


def _keys(data: Any, known: set[str]) -> Iterator[str]:
    if not isinstance(data, Mapping):
        yield f"not a mapping. Allowed: a mapping with {', '.join(sorted(known))}."
        return
    for key in data:
        if key not in known:
            yield f"key {key!r} is unknown.{did_you_mean(str(key), known)} Allowed: {', '.join(sorted(known))}."
    for key in sorted(known - set(data)):
        yield f"key {key!r} is missing."
