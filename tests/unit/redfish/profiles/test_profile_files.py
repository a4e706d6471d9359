# SPDX-License-Identifier: GPL-3.0-or-later
"""Data of bios/<name>.yml and firmware/<name>.yml: all mistakes at once, each with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import (
    Component,
    ProfileError,
    bios_profile,
    firmware_profile,
)
from tests.kit import sentences

FILE = Path(__file__).parent / "sentences.txt"
SHA = "ab" * 32


def test_bios_profile() -> None:
    profile = bios_profile({"bios_version": " 2.4* ", "attributes": {"A": "On", "B": 4, "C": True}}, "h100")
    assert (profile.versions, profile.attributes) == (("2.4*",), {"A": "On", "B": 4, "C": True})
    assert [profile.is_for(one) for one in ("2.4.1", "2.5.0", "")] == [True, False, False]


def test_bios_profile_for_several_versions() -> None:
    profile = bios_profile({"bios_version": ["2.4.1", "2.5.*"], "attributes": {"A": "On"}}, "h100")
    assert [profile.is_for(one) for one in ("2.4.1", "2.5.3", "2.4.2")] == [True, True, False]


def test_firmware_profile() -> None:
    data = {"components": {"*BMC*": "1.10", "BIOS": {"version": "2.0 ", "file": "bios.bin", "sha256": SHA}}}
    assert firmware_profile(data, "q3").components == (
        Component("*BMC*", "1.10"),
        Component("BIOS", "2.0", "bios.bin", SHA),
    )


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (None, ["not a mapping"]),
        ([], ["not a mapping"]),
        ({"bios_versions": "1"}, ["'bios_versions'", "'attributes'", "'bios_version'"]),
        ({"bios_version": 2.4, "attributes": {"A": 1}}, ["bios_version: 2.4"]),
        ({"bios_version": [], "attributes": {"A": 1}}, ["bios_version"]),
        ({"bios_version": "1", "attributes": {}}, ["attributes"]),
        ({"bios_version": "", "attributes": ["A"]}, ["bios_version", "attributes"]),
        ({"bios_version": "1", "attributes": {"A": None, "B": 1.5, "C": [1], 4: "x"}}, ["A", "B", "C", "attributes.4"]),
    ],
)
def test_mistakes_of_a_bios_profile(data: Any, places: list[str]) -> None:
    with pytest.raises(ProfileError) as error:
        bios_profile(data, "h100")
    assert len(error.value.mistakes) == len(places)
    assert all(place in one for place, one in zip(places, error.value.mistakes, strict=True))


@pytest.mark.parametrize(
    ("data", "places"),
    [
        ("text", ["not a mapping"]),
        ({"component": {}}, ["'component'", "'components'"]),
        ({"components": {}}, ["components"]),
        ({"components": {"BMC": 1.1, "BIOS": "", "X": {"version": "1", "sha": SHA}}}, ["BMC", "BIOS", "'sha'"]),
        ({"components": {"BMC": {"version": "1", "sha256": "short", "file": 4}}}, ["file", "sha256"]),
        ({"components": {"BMC": None}}, ["BMC.version"]),
    ],
)
def test_mistakes_of_a_firmware_profile(data: Any, places: list[str]) -> None:
    with pytest.raises(ProfileError) as error:
        firmware_profile(data, "q3")
    assert len(error.value.mistakes) == len(places)
    assert all(place in one for place, one in zip(places, error.value.mistakes, strict=True))


def test_sentences() -> None:
    lines: list[str] = []
    for read, text in (
        (bios_profile, "{bios_version: 2.4, attribute: {}}"),
        (bios_profile, "{bios_version: 2.4, attributes: {A: [1]}}"),
        (firmware_profile, "{components: {BMC: 1.10, BIOS: {version: '2', sha256: x, fil: y}}}"),
    ):
        with pytest.raises(ProfileError) as error:
            read(yaml.safe_load(text), "profile.yml")
        lines.append(str(error.value))
    sentences.check(FILE, "mistakes of profiles", lines)
