# SPDX-License-Identifier: GPL-3.0-or-later
"""Firmware compared with a profile, over the trees of five vendors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.firmware import (
    FirmwareItem,
    bios_version,
    compare_firmware,
    findings,
    read_inventory,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import firmware_profile
from tests.kit import sentences
from tests.kit.redfish_trees import VENDORS, Reader, tree_of

FILE = Path(__file__).parent / "sentences.txt"
# Tree -> kind of firmware -> ids of the items.
KINDS: dict[str, dict[str, list[str]]] = {
    "dell": {
        "bmc": ["Installed-25227-7.10.70.00__iDRAC.Embedded.1-1"],
        "bios": ["Installed-159-2.4.1__BIOS.Setup.1-1"],
    },
    "hpe": {"bmc": ["1"], "bios": ["2"]},
    "lenovo": {"bmc": ["BMC-Primary"], "bios": ["UEFI"]},
    "nvidia": {"bmc": ["FW_BMC_0", "HGX_FW_BMC_0"], "bios": ["AB86B73D_8D56_41E4_971E_B11DB71F2E33"]},
    "supermicro": {"bmc": ["BMC"], "bios": ["BIOS"]},
}
# Tree -> pattern -> version of the profile, and the state of each item that the pattern matches.
PROFILES: dict[str, dict[str, tuple[str, list[str]]]] = {
    "dell": {
        "BIOS": ("2.4.1", ["equal"]),
        "*iDRAC*": ("7.20.10.50", ["older"]),
        "*ConnectX-7*": ("28.40.10.00", ["newer"]),
        "*CPLD*": ("1.2.7", ["equal"]),
        "*GPU*": ("96.00", ["missing"]),
    },
    "hpe": {
        "iLO 6": ("1.70*", ["unknown"]),
        "System ROM": ("U58 v2.44 (01/17/2025)", ["equal"]),
        "*Logic*": ("0x17", ["unknown"]),
    },
    "lenovo": {
        "BMC-*": ("QGX328I-5.40", ["older"]),
        "UEFI": ("QGE144N-5.20", ["unknown"]),
        "*ConnectX-7*": ("28.39.20.48", ["equal"]),
    },
    "nvidia": {
        "HGX_FW_BMC_?": ("GB200Nvl-25.08-1", ["older"]),
        "*BMC_?": ("70.01.00.09", ["equal", "unknown"]),
        "0xC000": ("97.10.3E.00.06", ["older", "older"]),
        "FW_CPLD_*": ("0b", ["unknown"]),
        "CX8_*": ("40.45.*", ["equal"]),
    },
    "supermicro": {"BMC": ("1.3.19", ["equal"]), "BIOS": ("2.1", ["older"]), "PowerSupply?": ("1.0", ["unknown"])},
}


def profile_of(components: dict[str, Any]) -> Any:
    return firmware_profile({"components": components}, "profile.yml")


@pytest.mark.parametrize("name", VENDORS)
def test_kinds(name: str) -> None:
    items = read_inventory(Reader(tree_of(name)))
    assert {kind: [one.id for one in items if one.kind == kind] for kind in ("bmc", "bios")} == KINDS[name]


@pytest.mark.parametrize("name", VENDORS)
def test_states(name: str) -> None:
    rows = compare_firmware(
        profile_of({key: one[0] for key, one in PROFILES[name].items()}), read_inventory(Reader(tree_of(name)))
    )
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row.component.pattern, []).append(row.state)
    assert found == {key: one[1] for key, one in PROFILES[name].items()}


@pytest.mark.parametrize("name", VENDORS)
def test_sentences(name: str) -> None:
    rows = compare_firmware(
        profile_of({key: one[0] for key, one in PROFILES[name].items()}), read_inventory(Reader(tree_of(name)))
    )
    sentences.check(FILE, f"firmware of {name}", findings(rows))


@pytest.mark.parametrize("name", VENDORS)
def test_machine_is_equal_to_itself(name: str) -> None:
    items = [one for one in read_inventory(Reader(tree_of(name))) if one.version]
    profile = profile_of({one.id: one.version for one in items})
    assert findings(compare_firmware(profile, items)) == []


def test_severities() -> None:
    items = [
        FirmwareItem(f"X{number}", "", version, "other") for number, version in enumerate(("1.0", "3.0", "text", ""))
    ]
    rows = compare_firmware(profile_of({"X*": "2.0", "Y": "1"}), items)
    assert [(one.where, one.severity) for one in findings(rows)] == [
        ("firmware X0", "error"),
        ("firmware X1", "notice"),
        ("firmware X2", "warning"),
        ("firmware X3", "warning"),
        ("firmware Y", "warning"),
    ]


def test_first_pattern_counts() -> None:
    items = [FirmwareItem("HGX_FW_BMC_0", "", "1.0", "bmc")]
    rows = compare_firmware(profile_of({"HGX_*": "1.0", "*BMC*": "2.0"}), items)
    assert [(one.component.pattern, one.state) for one in rows] == [("HGX_*", "equal"), ("*BMC*", "missing")]


def test_previous_and_backup_copies_are_not_compared() -> None:
    for name in VENDORS:
        assert not any(
            word in f"{one.id} {one.name}".lower()
            for one in read_inventory(Reader(tree_of(name)))
            for word in ("prev", "backup", "redund")
        )


def test_bios_version_of_the_inventory() -> None:
    assert bios_version(read_inventory(Reader(tree_of("nvidia")))) == "2.1b"
    two = [FirmwareItem(one, "", one, "bios") for one in ("1", "2")]
    assert bios_version(two) == bios_version([]) == ""


@pytest.mark.parametrize("missing", ["UpdateService", "FirmwareInventory"])
def test_bmc_without_an_inventory(missing: str) -> None:
    tree = {path: one for path, one in tree_of("dell").items() if not path.endswith(missing)}
    assert read_inventory(Reader(tree)) == []


def test_one_request_for_each_item() -> None:
    reader = Reader(tree_of("nvidia"))
    items = read_inventory(reader)
    assert len(reader.paths) == len(set(reader.paths)) == 3 + len(items)
