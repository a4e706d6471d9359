# SPDX-License-Identifier: GPL-3.0-or-later
"""BIOS attributes compared with a profile, over the trees of five vendors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles import bios
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios import (
    BiosState,
    compare,
    findings,
    read_state,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.firmware import (
    bios_version,
    read_inventory,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import bios_profile
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_registry import NO_REGISTRY
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.evidence import gather
from tests.kit import sentences
from tests.kit.redfish_trees import VENDORS, Reader, Tree, tree_of

FILE = Path(__file__).parent / "sentences.txt"
VERSIONS = {"dell": "2.4.*", "hpe": "U58 v2.44*", "lenovo": "*-5.11", "nvidia": "2.1b", "supermicro": "2.0"}
# Tree -> attribute -> its value in the profile, and the state that the comparison must find.
PROFILES: dict[str, dict[str, tuple[Any, str]]] = {
    "dell": {
        "LogicalProc": ("Enabled", "equal"),
        "SriovGlobalEnable": ("Enabled", "different"),
        "ProcCStates": ("Disabled", "blocked"),
        "SysMemSize": ("1024 GB", "blocked"),
        "SubNumaCluster": ("2-way", "invalid"),
        "AcPwrRcvryUserDelay": (60, "invalid"),
        "SetupPassword": ("secret", "invalid"),
        "LogicalProcs": ("Enabled", "unknown"),
    },
    "hpe": {
        "ProcHyperthreading": ("Disabled", "different"),
        "ProcVirtualization": ("Disabled", "blocked"),
        "EnabledCoresPerProc": (65, "invalid"),
        "AdminName": ("Operations", "different"),
        "IntelProcVtD": ("Enabled", "unknown"),
    },
    "lenovo": {
        "Processors_HyperThreading": ("Enabled", "equal"),
        "Processors_DFC_States": ("Disabled", "blocked"),
        "DevicesandIOPorts_SRIOV": ("Disabled", "different"),
        "OperatingModes_ChooseOperatingMode": ("Custom", "invalid"),
    },
    "nvidia": {
        "ActiveCores": (144, "equal"),
        "EGM": (False, "different"),
        "EGMHypervisorReservedMemory": (-1, "invalid"),
        "SR_IOVSupport": ("Enabled", "different"),
        "EGMode": (True, "unknown"),
    },
    "supermicro": {
        "Above4GDecoding": ("Enabled", "equal"),
        "CoresEnabled": (3, "invalid"),
        "QuietBoot": ("true", "invalid"),
        "SR_IOVSupport": ("Enabled", "different"),
        "Hyperthreading": ("Enabled", "unknown"),
    },
}


def state_of(tree: Tree) -> BiosState:
    reader = Reader(tree)
    evidence = gather(reader)
    return read_state(reader, evidence.system, version=bios_version(read_inventory(reader, evidence.root)))


def bios_of(tree: Tree) -> dict[str, Any]:
    return next(one for one in tree.values() if "@Redfish.Settings" in one and "Attributes" in one)


def settings_of(tree: Tree) -> dict[str, Any]:
    return tree[bios_of(tree)["@Redfish.Settings"]["SettingsObject"]["@odata.id"]]


def profile_of(name: str, **attributes: Any) -> Any:
    return bios_profile({"bios_version": VERSIONS[name], "attributes": attributes}, f"{name}.yml")


def test_all_trees_have_a_profile() -> None:
    assert set(PROFILES) == set(VERSIONS) == set(VENDORS)


@pytest.mark.parametrize("name", PROFILES)
def test_states(name: str) -> None:
    rows = compare(profile_of(name, **{key: one[0] for key, one in PROFILES[name].items()}), state_of(tree_of(name)))
    assert {row.name: row.state for row in rows} == {key: one[1] for key, one in PROFILES[name].items()}


@pytest.mark.parametrize("name", PROFILES)
def test_sentences(name: str) -> None:
    profile = profile_of(name, **{key: one[0] for key, one in PROFILES[name].items()})
    sentences.check(FILE, f"bios of {name}", findings(profile, state_of(tree_of(name))))


@pytest.mark.parametrize("name", PROFILES)
def test_machine_is_equal_to_itself(name: str) -> None:
    state = state_of(tree_of(name))
    assert findings(profile_of(name, **state.attributes), state) == []


def test_blocked_names_registry_reason_and_parent() -> None:
    row = compare(profile_of("lenovo", Processors_DFC_States="Disabled"), state_of(tree_of("lenovo")))[0]
    assert row.reason == "GrayOut while OperatingModes_ChooseOperatingMode is not CustomMode"
    assert row.parents == ("OperatingModes_ChooseOperatingMode",)


@pytest.mark.parametrize(
    ("current", "staged", "state"),
    [
        ("Disabled", "Enabled", "pending"),
        ("Enabled", "Disabled", "overwritten"),
        ("Enabled", "Enabled", "equal"),
        ("Disabled", "Disabled", "different"),
        ("Disabled", None, "different"),
    ],
)
@pytest.mark.parametrize("name", ["nvidia", "supermicro"])
def test_pending_settings(name: str, current: str, staged: str | None, state: str) -> None:
    """A settings object has pending values alone (GB300) or all values (Supermicro)."""
    tree = tree_of(name)
    bios_of(tree)["Attributes"]["SR_IOVSupport"] = current
    settings_of(tree)["Attributes"]["SR_IOVSupport"] = staged
    found = findings(profile_of(name, SR_IOVSupport="Enabled"), state_of(tree))
    assert compare(profile_of(name, SR_IOVSupport="Enabled"), state_of(tree))[0].state == state
    assert [(one.severity, one.reboot) for one in found] == {
        "equal": [],
        "pending": [("notice", True)],
    }.get(state, [("error", True)])


def test_other_pending_value_is_named() -> None:
    tree = tree_of("supermicro")
    settings_of(tree)["Attributes"]["ResizeBARSupport"] = "Auto"
    row = compare(profile_of("supermicro", ResizeBARSupport="Enabled"), state_of(tree))[0]
    assert (row.state, row.pending) == ("different", "Auto")
    assert "Auto" in row.reason


def test_number_as_text_is_equal() -> None:
    tree = tree_of("nvidia")
    bios_of(tree)["Attributes"] |= {"ActiveCores": "144", "EGM": "true"}
    assert [row.state for row in compare(profile_of("nvidia", ActiveCores=144, EGM=True), state_of(tree))] == [
        "equal"
    ] * 2


def test_text_is_compared_with_its_case() -> None:
    tree = tree_of("hpe")
    bios_of(tree)["Attributes"]["AdminName"] = "ops"
    assert compare(profile_of("hpe", AdminName="Ops"), state_of(tree))[0].state == "different"


def test_without_a_registry_the_current_value_has_the_type() -> None:
    state = state_of(tree_of("nvidia"))
    bare = BiosState(
        state.path, state.settings_path, state.version, state.attributes, state.pending, registry=NO_REGISTRY
    )
    profile = profile_of("nvidia", ActiveCores="144", EGM=1, SR_IOVSupport="Auto", EGM2=True)
    assert [row.state for row in compare(profile, bare)] == ["invalid", "invalid", "different", "unknown"]


def test_attribute_of_the_registry_without_a_current_value() -> None:
    tree = tree_of("supermicro")
    del bios_of(tree)["Attributes"]["BusMasterEnable"], settings_of(tree)["Attributes"]["BusMasterEnable"]
    row = compare(profile_of("supermicro", BusMasterEnable="Enabled"), state_of(tree))[0]
    assert (row.state, row.found) == ("different", None)


def test_nearest_names() -> None:
    row = compare(profile_of("dell", ProcCState="Disabled"), state_of(tree_of("dell")))[0]
    assert row.reason.startswith("nearest names: ProcCStates")
    row = compare(profile_of("dell", Zzz="Disabled"), state_of(tree_of("dell")))[0]
    assert row.reason == "no similar name"


@pytest.mark.parametrize(("version", "kinds"), [("2.4.1", []), ("2.5.0", ["bios-version"]), ("", ["bios-version"])])
def test_version_of_the_profile(version: str, kinds: list[str]) -> None:
    tree = tree_of("dell")
    tree["/redfish/v1/Systems/System.Embedded.1"]["BiosVersion"] = version
    reader = Reader(tree)
    state = read_state(reader, gather(reader).system)
    assert [one.kind for one in findings(profile_of("dell", LogicalProc="Enabled"), state)] == kinds


def test_version_of_the_inventory_counts_for_a_system_without_one() -> None:
    assert state_of(tree_of("nvidia")).version == "2.1b"


def test_machine_without_bios_resource() -> None:
    tree = tree_of("dell")
    del tree["/redfish/v1/Systems/System.Embedded.1"]["Bios"]
    assert [one.severity for one in findings(profile_of("dell", LogicalProc="Enabled"), state_of(tree))] == ["warning"]


def test_bios_without_settings_object_is_written_itself() -> None:
    tree = tree_of("nvidia")
    del bios_of(tree)["@Redfish.Settings"]
    assert state_of(tree).settings_path == "/redfish/v1/Systems/System_0/Bios"


def test_messages_of_the_bmc() -> None:
    tree = tree_of("supermicro")
    bios_of(tree)["@Redfish.Settings"]["Messages"] = [
        {"MessageId": "Base.1.10.Success"},
        {
            "MessageId": "Base.1.10.PropertyNotWritable",
            "MessageArgs": ["QuietBoot"],
            "RelatedProperties": ["#/Attributes/QuietBoot"],
        },
        {"MessageId": "Sys.1.Locked", "Message": "The BIOS is locked."},
        "text",
    ]
    settings_of(tree)["Attributes"]["SR_IOVSupport@Message.ExtendedInfo"] = [{"Message": "Not now."}]
    assert state_of(tree).messages == {
        "QuietBoot": "Base.1.10.PropertyNotWritable (QuietBoot)",
        "": "The BIOS is locked.",
        "SR_IOVSupport": "Not now.",
    }


@pytest.mark.parametrize(
    ("name", "attribute"), [("dell", "SetupPassword"), ("nvidia", "UserPassword"), ("nvidia", "EGMPassword")]
)
def test_password_is_in_no_finding(name: str, attribute: str) -> None:
    """Whether the registry, a current value or the name alone says that it is one."""
    tree = tree_of(name)
    if attribute == "UserPassword":
        bios_of(tree)["Attributes"][attribute] = "canary-4711"
    found = findings(profile_of(name, **{attribute: "canary-4711"}), state_of(tree))
    assert len(found) == 1
    assert "canary-4711" not in str(found)


def test_registry_is_read_once_for_many_machines() -> None:
    reader = Reader(tree_of("hpe"))
    evidence = gather(reader)
    registry = read_state(reader, evidence.system).registry
    reader.paths.clear()
    assert read_state(reader, evidence.system, registry).registry is registry
    assert len(reader.paths) == 2


def test_states_are_all_tested() -> None:
    tested = {one[1] for rows in PROFILES.values() for one in rows.values()} | {"pending", "overwritten"}
    assert tested == {
        bios.EQUAL,
        bios.DIFFERENT,
        bios.PENDING,
        bios.OVERWRITTEN,
        bios.UNKNOWN,
        bios.BLOCKED,
        bios.INVALID,
    }
