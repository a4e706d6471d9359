# SPDX-License-Identifier: GPL-3.0-or-later
"""Captures and mockups of real BMCs, where a folder has some: $BEDPLATE_REDFISH_CAPTURES. The repository has no capture of others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles import bios, firmware
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios_plan import BiosPlan, plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import (
    BiosProfile,
    firmware_profile,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import dialects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_rules import mistake
from tests.kit.redfish_trees import Reader, foreign_tree

_FOLDER = os.environ.get("BEDPLATE_REDFISH_CAPTURES", "")
CAPTURES = sorted(path for path in Path(_FOLDER).iterdir() if path.is_dir()) if _FOLDER else []


# Without a folder there is no test here, rather than one that is skipped.
if CAPTURES:

    @pytest.mark.parametrize("folder", CAPTURES, ids=lambda one: one.name)
    def test_capture_is_read_whole_and_equal_to_itself(folder: Path) -> None:
        reader = Reader(foreign_tree(folder))
        evidence, dialect = dialects.read(reader)
        items = firmware.read_inventory(reader, evidence.root)
        state = bios.read_state(reader, evidence.system, version=firmware.bios_version(items))
        print(
            f"{folder.name}: {' '.join(dialect.rows)}; {len(state.attributes)} attributes, {len(items)} items of firmware"
        )
        if state.attributes:
            legal = {
                name: value
                for name, value in state.attributes.items()
                if isinstance(value, (str, int, bool))
                and not mistake(bios.described(name, state), value)
                and name not in state.pending
            }
            assert len(legal) >= 0.98 * len(state.attributes)
            profile = BiosProfile(folder.name, ("*",), legal)
            assert bios.findings(profile, state) == []
            assert plan(profile, state, dialect) == BiosPlan()
        known = {one.id: one.version for one in items if one.version}
        if known:
            assert (
                firmware.findings(
                    firmware.compare_firmware(firmware_profile({"components": known}, folder.name), items)
                )
                == []
            )
