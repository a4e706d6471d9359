# SPDX-License-Identifier: GPL-3.0-or-later
"""Resources with values of wrong types, as BMCs send them now and then: nothing fails, and nothing is written by mistake."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles import bios, firmware
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios_plan import judge, plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import (
    BiosProfile,
    firmware_profile,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import dialects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.evidence import SystemChoiceError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.reader import MissingResourceError
from tests.kit.redfish_trees import VENDORS, Reader, Tree, tree_of

GARBAGE: tuple[Any, ...] = (
    None,
    "",
    "text",
    7,
    1.5,
    True,
    [],
    {},
    [None],
    ["text"],
    [[]],
    {"@odata.id": 7},
    {"a": {}},
    [{}],
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with each of its keys or indexes."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def everything(tree: Tree, profile: BiosProfile) -> None:
    reader = Reader(tree)
    evidence, dialect = dialects.read(reader)
    dialects.boot_path(dialect, evidence)
    dialects.serial_of(dialect, evidence)
    items = firmware.read_inventory(reader, evidence.root)
    state = bios.read_state(reader, evidence.system, version=firmware.bios_version(items))
    for one in bios.findings(profile, state):
        str(one)
    found = plan(profile, state, dialect)
    assert len(found.patches) <= 2
    for patch in found.patches:
        assert set(patch.attributes) <= set(profile.attributes)
        assert patch.path
        judge(patch.attributes, state, after_reset=True)
    firmware.findings(firmware.compare_firmware(firmware_profile({"components": {"*": "1.0"}}, "any"), items))


@pytest.mark.parametrize("name", VENDORS)
def test_one_wrong_value(name: str) -> None:
    chance = random.Random(name)
    count = len(list(places(tree_of(name))))
    for _ in range(150):
        tree = tree_of(name)
        attributes = next(one for one in tree.values() if "@Redfish.Settings" in one and "Attributes" in one)[
            "Attributes"
        ]
        profile = BiosProfile(
            "any", ("*",), {key: value if chance.random() < 0.5 else "Disabled" for key, value in attributes.items()}
        )
        spots = list(places(tree))
        assert len(spots) == count
        container, key = chance.choice(spots)
        # The tree's own values are the resources: a BMC that sends no object has no resource, which the client refuses.
        if container is tree:
            continue
        container[key] = chance.choice(GARBAGE)
        with suppress(SystemChoiceError, MissingResourceError):
            everything(tree, profile)
