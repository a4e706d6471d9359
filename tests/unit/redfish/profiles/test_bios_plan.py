# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes of a BIOS profile: two rounds at most, parents first; and what a machine did not take."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios import (
    BiosState,
    compare,
    read_state,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios_plan import (
    BiosPlan,
    is_done,
    judge,
    plan,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import BiosProfile
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import dialects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_registry import (
    Attribute,
    AttributeRegistry,
    Condition,
    Dependency,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect
from tests.kit import sentences
from tests.kit.redfish_trees import VENDORS, Reader, tree_of
from tests.kit.redfish_trees.machine import Machine

FILE = Path(__file__).parent / "sentences.txt"


def state_of(machine: Machine) -> BiosState:
    reader = Reader(machine.tree)
    return read_state(reader, dialects.read(reader)[0].system, version="2.1b")


def profile_of(**attributes: Any) -> BiosProfile:
    return BiosProfile("profile", ("*",), attributes)


def planned(machine: Machine, profile: BiosProfile) -> BiosPlan:
    return plan(profile, state_of(machine), dialects.read(Reader(machine.tree))[1])


def rounds(found: BiosPlan) -> list[dict[str, Any]]:
    assert [one.round for one in found.patches] == list(range(1, len(found.patches) + 1))
    return [dict(one.attributes) for one in found.patches]


def test_nothing_to_write() -> None:
    machine = Machine(tree_of("dell"))
    assert planned(machine, profile_of(LogicalProc="Enabled")) == BiosPlan()


def test_parent_is_written_before_what_it_blocks() -> None:
    found = planned(
        Machine(tree_of("dell")), profile_of(ProcCStates="Disabled", SysProfile="Custom", SriovGlobalEnable="Enabled")
    )
    assert rounds(found) == [{"SysProfile": "Custom", "SriovGlobalEnable": "Enabled"}, {"ProcCStates": "Disabled"}]
    assert found.left == ()


def test_what_the_parent_sets_is_not_written() -> None:
    found = planned(
        Machine(tree_of("dell")), profile_of(ProcCStates="Disabled", ProcPwrPerf="MaxPerf", SysProfile="PerfOptimized")
    )
    assert rounds(found) == [{"SysProfile": "PerfOptimized"}]
    assert found.left == ()


def test_profile_against_its_own_parent() -> None:
    found = planned(
        Machine(tree_of("hpe")), profile_of(WorkloadProfile="HighPerformanceCompute(HPC)", ProcVirtualization="Enabled")
    )
    assert rounds(found) == [{"WorkloadProfile": "HighPerformanceCompute(HPC)"}]
    assert [(one.name, one.state, one.parents) for one in found.left] == [
        ("ProcVirtualization", "blocked", ("WorkloadProfile",))
    ]


def test_profile_against_itself() -> None:
    """With SR-IOV, VT-d is set again: writing it off would be undone."""
    machine = Machine(tree_of("hpe"))
    machine.values["WorkloadProfile"] = machine.settings["Attributes"]["WorkloadProfile"] = "Custom"
    found = planned(machine, profile_of(IntelProcVtd="Disabled", ProcHyperthreading="Disabled"))
    assert rounds(found) == [{"ProcHyperthreading": "Disabled"}]
    assert [(one.name, one.reason) for one in found.left] == [
        ("IntelProcVtd", "the registry sets Enabled when IntelProcVtd = Disabled and Sriov = Enabled")
    ]
    found = planned(machine, profile_of(IntelProcVtd="Disabled", Sriov="Disabled"))
    assert rounds(found) == [{"Sriov": "Disabled"}, {"IntelProcVtd": "Disabled"}]


def test_attribute_that_the_parent_changes_is_written_again() -> None:
    """It has its value now, loses it by the parent, and is free afterwards."""
    rules = (Dependency((Condition("Mode", "CurrentValue", "EQU", "Custom"),), "Turbo", "CurrentValue", "Off"),)
    registry = AttributeRegistry("/r", {name: Attribute(name, "Enumeration") for name in ("Mode", "Turbo")}, rules)
    state = BiosState("/b", "/b/s", "1", {"Mode": "Auto", "Turbo": "On"}, registry=registry)
    assert rounds(plan(profile_of(Mode="Custom", Turbo="On"), state, Dialect())) == [
        {"Mode": "Custom"},
        {"Turbo": "On"},
    ]


def test_blocked_by_an_attribute_outside_the_profile() -> None:
    found = planned(Machine(tree_of("lenovo")), profile_of(Processors_DFC_States="Disabled"))
    assert found.patches == ()
    assert [(one.name, one.reason) for one in found.left] == [
        ("Processors_DFC_States", "GrayOut while OperatingModes_ChooseOperatingMode is not CustomMode")
    ]


def test_unknown_and_invalid_are_left() -> None:
    found = planned(Machine(tree_of("nvidia")), profile_of(EGMode=True, ActiveCores=999, EGM=False))
    assert rounds(found) == [{"EGM": False}]
    assert [(one.name, one.state) for one in found.left] == [("EGMode", "unknown"), ("ActiveCores", "invalid")]


def test_pending_is_not_written_again() -> None:
    machine = Machine(tree_of("nvidia"))
    machine.patch({"Attributes": {"EGM": False, "ActiveCores": 72}})
    found = planned(machine, profile_of(EGM=False, ActiveCores=144))
    assert rounds(found) == [{"ActiveCores": 144}]


def test_mutual_dependency_does_not_loop() -> None:
    rules = tuple(
        Dependency((Condition(one, "CurrentValue", "EQU", "X"),), other, "ReadOnly", True)
        for one, other in (("A", "B"), ("B", "A"))
    )
    registry = AttributeRegistry("/r", {name: Attribute(name, "String") for name in "AB"}, rules)
    state = BiosState("/b", "/b/s", "1", {"A": "1", "B": "1"}, registry=registry)
    assert rounds(plan(profile_of(A="2", B="2"), state, Dialect())) == [{"A": "2", "B": "2"}]
    assert rounds(plan(profile_of(A="X", B="2"), state, Dialect())) == [{"A": "X", "B": "2"}]


def test_what_depends_on_a_mutual_dependency_is_second() -> None:
    pairs = (("A", "B"), ("B", "A"), ("A", "C"))
    rules = tuple(
        Dependency((Condition(one, "CurrentValue", "EQU", "X"),), other, "ReadOnly", True) for one, other in pairs
    )
    registry = AttributeRegistry("/r", {name: Attribute(name, "String") for name in "ABC"}, rules)
    state = BiosState("/b", "/b/s", "1", {"A": "1", "B": "1", "C": "1"}, registry=registry)
    assert rounds(plan(profile_of(C="2", A="2", B="2"), state, Dialect())) == [{"A": "2", "B": "2"}, {"C": "2"}]


def test_third_round_does_not_exist() -> None:
    rules = tuple(
        Dependency((Condition(one, "CurrentValue", "NEQ", "2"),), other, "ReadOnly", True)
        for one, other in (("A", "B"), ("B", "C"))
    )
    registry = AttributeRegistry("/r", {name: Attribute(name, "String") for name in "ABC"}, rules)
    state = BiosState("/b", "/b/s", "1", {"A": "1", "B": "1", "C": "1"}, registry=registry)
    found = plan(profile_of(A="2", B="2", C="2"), state, Dialect())
    assert rounds(found) == [{"A": "2"}, {"B": "2"}]
    assert [(one.name, one.parents) for one in found.left] == [("C", ("B",))]


@pytest.mark.parametrize("version", ["", "2.5.0"])
def test_profile_of_another_version_writes_nothing(version: str) -> None:
    state = BiosState("/b", "/b/s", version, {"A": "1"})
    found = plan(BiosProfile("profile", ("2.4.*",), {"A": "2"}), state, Dialect())
    assert (found.patches, found.left, bool(found.refused)) == ((), (), True)


def test_machine_without_bios_resource_writes_nothing() -> None:
    assert plan(profile_of(A="1"), BiosState(version="1"), Dialect()).refused


@pytest.mark.parametrize(
    ("name", "path", "apply_time"),
    [
        ("dell", "/redfish/v1/Systems/System.Embedded.1/Bios/Settings", {"ApplyTime": "OnReset"}),
        ("hpe", "/redfish/v1/systems/1/bios/settings/", None),
        ("lenovo", "/redfish/v1/Systems/1/Bios/Pending", None),
        ("nvidia", "/redfish/v1/Systems/System_0/Bios/Settings", None),
        ("supermicro", "/redfish/v1/Systems/1/Bios/SD", None),
    ],
)
def test_path_and_body(name: str, path: str, apply_time: dict[str, str] | None) -> None:
    machine = Machine(tree_of(name))
    free = next(
        one
        for one, entry in machine.entries.items()
        if len(entry.get("Value", [])) > 1 and not machine.is_blocked(one, machine.values)
    )
    other = next(one["ValueName"] for one in machine.entries[free]["Value"] if one["ValueName"] != machine.values[free])
    patch = planned(machine, profile_of(**{free: other})).patches[0]
    assert (patch.path, patch.attributes) == (path, {free: other})
    stated = patch.body.get("@Redfish.SettingsApplyTime")
    assert {key: one for key, one in (stated or {}).items() if key[0] != "@"} == (apply_time or {})
    assert (stated is None) == (apply_time is None)


def applied(machine: Machine, found: BiosPlan) -> list[Any]:
    """Write the rounds of a plan, each with its reset; return the findings of the read-backs."""
    seen = []
    for patch in found.patches:
        machine.patch(patch.body)
        seen += judge(patch.attributes, state_of(machine), after_reset=False)
        machine.reset()
        seen += judge(patch.attributes, state_of(machine), after_reset=True)
    return seen


def some_profile(machine: Machine, chance: random.Random) -> BiosProfile:
    choices = {
        name: [one["ValueName"] for one in entry["Value"]]
        for name, entry in machine.entries.items()
        if entry.get("Value")
    }
    choices |= {name: [True, False] for name, entry in machine.entries.items() if entry["Type"] == "Boolean"}
    names = chance.sample(sorted(choices), chance.randint(1, len(choices)))
    return profile_of(**{name: chance.choice(choices[name]) for name in names})


@pytest.mark.parametrize("name", VENDORS)
def test_any_profile_ends_equal_left_or_as_a_finding(name: str) -> None:
    """Random profiles on a machine that obeys its registry: nothing is lost, and a second plan writes nothing that the first has left."""
    chance = random.Random(name)
    for _ in range(150):
        machine = Machine(tree_of(name))
        profile = some_profile(machine, chance)
        found = planned(machine, profile)
        assert len(found.patches) <= 2
        seen = applied(machine, found)
        left = {one.name for one in found.left}
        after = {row.name: row for row in compare(profile, state_of(machine))}
        for row in after.values():
            finding = [one for one in seen if one.where == f"BIOS attribute {row.name}"]
            assert row.state == "equal" or row.name in left or finding, (profile.attributes, row, rounds(found))
        assert not seen, (profile.attributes, seen)
        assert is_done([row for row in after.values() if row.name not in left])
        resets = machine.resets
        second = planned(machine, profile)
        assert {name for patch in second.patches for name in patch.attributes} <= left
        assert machine.resets == resets


@pytest.mark.parametrize("name", VENDORS)
def test_each_attribute_that_is_not_taken_is_a_finding(name: str) -> None:
    """The machine accepts, resets, and keeps the old value (Lenovo's issue 174)."""
    chance = random.Random(f"{name} frozen")
    for _ in range(60):
        free = Machine(tree_of(name))
        profile = some_profile(free, chance)
        written = [attribute for patch in planned(free, profile).patches for attribute in patch.attributes]
        if not written:
            continue
        lost = chance.choice(written)
        machine = Machine(tree_of(name), frozenset({lost}))
        seen = applied(machine, planned(machine, profile))
        assert f"BIOS attribute {lost}" in [one.where for one in seen]
        assert machine.resets <= 2


def test_finding_has_the_registrys_reason() -> None:
    """A write past the plan, of an attribute that the operating mode blocks."""
    machine = Machine(tree_of("lenovo"))
    machine.patch({"Attributes": {"Processors_DFC_States": "Disabled"}})
    assert judge({"Processors_DFC_States": "Disabled"}, state_of(machine), after_reset=False) == []
    machine.reset()
    found = judge({"Processors_DFC_States": "Disabled"}, state_of(machine), after_reset=True)
    assert [(one.kind, one.where, one.expected, one.severity) for one in found] == [
        ("bios-attribute", "BIOS attribute Processors_DFC_States", "Disabled", "error")
    ]
    assert "GrayOut while OperatingModes_ChooseOperatingMode is not CustomMode" in found[0].found
    sentences.check(FILE, "accepted and not taken, by the registry", found)


def test_finding_has_the_bmcs_message() -> None:
    machine = Machine(tree_of("hpe"))
    machine.bios["@Redfish.Settings"]["Messages"] = [
        {
            "MessageId": "iLO.2.14.PropertyNotWritable",
            "RelatedProperties": ["#/Attributes/Sriov"],
            "MessageArgs": ["Sriov"],
        }
    ]
    found = judge({"Sriov": "Disabled", "ProcHyperthreading": "Disabled"}, state_of(machine), after_reset=True)
    assert ["iLO.2.14.PropertyNotWritable (Sriov)" in one.found for one in found] == [True, False]
    sentences.check(FILE, "accepted and not taken, by the BMC", found)


def test_message_about_all_attributes_counts_if_nothing_else_explains() -> None:
    machine = Machine(tree_of("nvidia"))
    machine.bios["@Redfish.Settings"]["Messages"] = [{"MessageId": "X.1.Locked", "Message": "The BIOS is locked."}]
    found = judge({"EGM": False}, state_of(machine), after_reset=True)
    assert "The BIOS is locked." in found[0].found


def test_not_staged_is_found_before_the_reset() -> None:
    machine = Machine(tree_of("nvidia"))
    found = judge({"EGM": False, "ActiveCores": 144}, state_of(machine), after_reset=False)
    assert [one.where for one in found] == ["BIOS attribute EGM"]


def test_still_pending_after_the_reset() -> None:
    machine = Machine(tree_of("nvidia"))
    machine.patch({"Attributes": {"EGM": False}})
    assert judge({"EGM": False}, state_of(machine), after_reset=False) == []
    found = judge({"EGM": False}, state_of(machine), after_reset=True)
    assert "still pending" in found[0].found
    sentences.check(FILE, "still pending after the reset", found)
