# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of dialects.json is recognised by its evidence, and only by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import dialects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.evidence import (
    Evidence,
    SystemChoiceError,
    choose_system,
    gather,
    holds,
)
from tests.kit.redfish_trees import VENDORS, Reader, tree_of

V1 = "/redfish/v1"
RESET = {"#ComputerSystem.Reset": {"target": "/r", "ResetType@Redfish.AllowableValues": ["On", "ForceOff"]}}
TARGETS = "BootSourceOverrideTarget@Redfish.AllowableValues"
BOOT = {
    "BootSourceOverrideMode": "UEFI",
    "BootSourceOverrideTarget": "None",
    "HttpBootUri": None,
    TARGETS: ["None", "Cd", "UefiHttp"],
}
INSERT = {"Actions": {"#VirtualMedia.InsertMedia": {"target": "/i"}}, "Inserted": False}
SYSTEM = {
    "@odata.id": f"{V1}/Systems/1",
    "Boot": BOOT,
    "Actions": RESET,
    "Bios": {"@odata.id": f"{V1}/Systems/1/Bios"},
    "SKU": "S",
}
# A BMC as the standard has it: no row may recognise it.
STANDARD = Evidence(
    root={"@odata.id": f"{V1}/"},
    systems=(SYSTEM,),
    system=SYSTEM,
    managers=({"@odata.id": f"{V1}/Managers/1", "FirmwareVersion": "1.0"},),
    bios={"@odata.id": f"{V1}/Systems/1/Bios"},
    media=({"@odata.id": f"{V1}/Managers/1/VirtualMedia/1", **INSERT},),
    update={"@odata.id": f"{V1}/UpdateService", "Actions": {"#UpdateService.SimpleUpdate": {"target": "/u"}}},
)
IDRAC = {"@odata.id": f"{V1}/Managers/iDRAC.Embedded.1", "FirmwareVersion": "7.10.70.00", "Model": "16G Monolithic"}


def system(**changes: Any) -> Evidence:
    """Return the standard with a System of other properties."""
    other = {key: one for key, one in {**SYSTEM, **changes}.items() if one is not ...}
    return replace(STANDARD, system=other, systems=(other,))


def boot(**changes: Any) -> Evidence:
    return system(Boot={key: one for key, one in {**BOOT, **changes}.items() if one is not ...})


def managed_by(**changes: Any) -> Evidence:
    return replace(STANDARD, managers=({**IDRAC, **changes},))


def vendor(name: str) -> Evidence:
    return gather(Reader(tree_of(name)))


# Row -> evidence, and what it changes.
CASES: dict[str, tuple[Evidence, Mapping[str, Any]]] = {
    "serial_in_sku": (vendor("dell"), {"serial_from": "SKU"}),
    "boot_in_settings": (vendor("nvidia"), {"boot_written_at": "settings"}),
    "boot_in_future_state": (system(**{"@odata.id": f"{V1}/Systems/Self"}), {"boot_written_at": "sd"}),
    "mode_not_writable": (vendor("hpe"), {"boot_mode_writable": False}),
    "mode_missing": (vendor("nvidia"), {"boot_mode_writable": False}),
    "boot_mode_by_bios_job": (vendor("dell"), {"boot_mode_writable": False}),
    "resets_in_action_info": (vendor("nvidia"), {"reset_types_at": "action_info"}),
    "power_on_conflict": (managed_by(Model="17G Monolithic"), {"retry_power_conflict": True}),
    "http_uri_in_bios": (vendor("dell"), {"http_boot": "bios_attribute"}),
    "media_slot_of_kvm": (vendor("nvidia"), {"media_slots": "with_insert"}),
    "media_by_patch": (vendor("lenovo"), {"media_insert": "patch"}),
    "media_slot_1": (managed_by(Model="17G Monolithic", FirmwareVersion="1.20.50.52"), {"media_slot": "1"}),
    "media_ejects_slowly": (vendor("dell"), {"media_settle": 9}),
    "cd_is_physical": (managed_by(Model="14G Monolithic", FirmwareVersion="5.10.50.00"), {"cd_target": "VCD-DVD"}),
    "cd_by_other_name": (boot(**{TARGETS: ["None", "CD/DVD", "UsbCd", "UefiCd", "UefiHttp"]}), {"cd_target": "UefiCd"}),
    "bios_apply_time": (vendor("dell"), {"bios_apply_time": "OnReset"}),
    "bios_apply_time_refused": (vendor("lenovo"), {"bios_apply_time": ""}),
    "update_none": (replace(STANDARD, update={}), {"firmware_listed": False}),
    "account_slots": (vendor("dell"), {"accounts_added": "slots", "accounts_reserved": ("1",)}),
    "certificate_after_reset": (
        managed_by(Model="14G Monolithic", FirmwareVersion="5.10.50.00"),
        {"certificate_applies": "bmc_reset"},
    ),
}


def test_each_row_has_a_case() -> None:
    assert [row.id for row in dialects.rows()] == list(CASES)


@pytest.mark.parametrize("row", CASES)
def test_row_is_recognised(row: str) -> None:
    evidence, changes = CASES[row]
    dialect = dialects.recognise(evidence)
    assert row in dialect.rows
    assert {name: getattr(dialect, name) for name in changes} == changes


def test_page_of_tests_has_the_counts() -> None:
    known = [row.known_from for row in (*dialects.rows(), *dialects.always())]
    page = (Path(__file__).parents[4] / "docs/testing.md").read_text(encoding="utf-8")
    capture, source = map(known.count, ("capture", "source"))
    assert capture + source == len(known)
    assert f"{capture} from captures, {source} from the source of other projects" in page


def test_the_standard_has_no_dialect() -> None:
    assert dialects.recognise(STANDARD) == Dialect()


def test_rows_change_fields_to_values_of_their_types() -> None:
    default, names = Dialect(), {field.name for field in fields(Dialect)} - {"rows"}
    for row in dialects.rows():
        assert set(row.changes) <= names, row.id
        assert all(type(one) is type(getattr(default, name)) for name, one in row.changes.items()), row.id
        assert row.known_from in dialects.KNOWN_FROM
        assert row.source.startswith("https://")
        assert all((row.about, row.effect, row.seen, row.changes, row.when)), row.id
    for one in dialects.always():
        assert one.known_from in dialects.KNOWN_FROM
        assert one.source.startswith("https://")
        assert all((one.about, one.effect, one.seen)), one.id


def test_no_row_is_without_effect() -> None:
    """Each row changes the default, or what an earlier row has changed."""
    for row in dialects.rows():
        evidence, _ = CASES[row.id]
        before = [
            one for one in dialects.rows()[: dialects.rows().index(row)] if all(holds(c, evidence) for c in one.when)
        ]
        known = replace(Dialect(), **{name: value for one in before for name, value in one.changes.items()})
        assert row.id == "mode_missing" or replace(known, **row.changes) != known, row.id


@pytest.mark.parametrize(
    ("name", "rows"),
    {
        "dell": "serial_in_sku boot_mode_by_bios_job http_uri_in_bios media_ejects_slowly bios_apply_time "
        "account_slots",
        "hpe": "mode_not_writable",
        "lenovo": "media_by_patch bios_apply_time bios_apply_time_refused",
        "nvidia": "boot_in_settings mode_missing resets_in_action_info media_slot_of_kvm",
        "supermicro": "",
    }.items(),
)
def test_dialect_of_a_tree(name: str, rows: str) -> None:
    evidence, dialect = dialects.read(Reader(tree_of(name)))
    assert dialect.rows == tuple(rows.split())
    assert dialects.serial_of(dialect, evidence)


def test_all_trees_are_named_above() -> None:
    assert VENDORS == ("dell", "hpe", "lenovo", "nvidia", "supermicro")


def test_boot_of_gb300_is_written_to_its_settings_object() -> None:
    evidence, dialect = dialects.read(Reader(tree_of("nvidia")))
    assert dialects.boot_path(dialect, evidence) == f"{V1}/Systems/System_0/Settings"


def test_boot_of_ami_is_written_to_sd() -> None:
    evidence, _ = CASES["boot_in_future_state"]
    assert dialects.boot_path(dialects.recognise(evidence), evidence) == f"{V1}/Systems/Self/SD"


def test_settings_object_without_boot_is_not_written() -> None:
    tree = tree_of("nvidia")
    del tree[f"{V1}/Systems/System_0/Settings"]["Boot"]
    evidence, dialect = dialects.read(Reader(tree))
    assert dialects.boot_path(dialect, evidence) == f"{V1}/Systems/System_0"


def test_serial_number_of_dell_is_the_service_tag() -> None:
    evidence, dialect = dialects.read(Reader(tree_of("dell")))
    assert dialects.serial_of(dialect, evidence) == "BPL0001"


def test_cd_of_a_new_idrac_is_the_standard_target() -> None:
    assert dialects.recognise(managed_by(Model="14G Monolithic", FirmwareVersion="6.10.80.00")).cd_target == "Cd"
    assert dialects.recognise(managed_by(Model="17G Monolithic", FirmwareVersion="1.20.50.52")).cd_target == "Cd"


def test_idrac_10_is_not_taken_for_an_old_one_without_its_model() -> None:
    assert "cd_is_physical" not in dialects.recognise(managed_by(Model="", FirmwareVersion="1.20.50.52")).rows


def one_system(path: str, serial: str, **more: Any) -> dict[str, Any]:
    return {"@odata.id": path, "SerialNumber": serial, "Boot": BOOT, "Actions": RESET, **more}


def test_system_is_chosen_by_boot_and_reset() -> None:
    board = {"@odata.id": "/board", "SerialNumber": "A"}
    assert choose_system([board, one_system("/a", "A")], "A")["@odata.id"] == "/a"


def test_of_several_systems_the_declared_serial_decides() -> None:
    both = [one_system("/a", "A"), one_system("/b", "B"), one_system("/c", "C", SKU="TAG")]
    assert choose_system(both, "B")["@odata.id"] == "/b"
    assert choose_system(both, "TAG")["@odata.id"] == "/c"
    for serial in ("", "X"):
        with pytest.raises(SystemChoiceError):
            choose_system(both, serial)


def test_serial_of_a_single_system_does_not_hide_it() -> None:
    assert choose_system([one_system("/a", "A")], "X")["@odata.id"] == "/a"


@pytest.mark.parametrize("systems", [[], [{"@odata.id": "/board"}], [{"@odata.id": "/x", "Boot": BOOT}]])
def test_no_system_can_be_commanded(systems: list[dict[str, Any]]) -> None:
    with pytest.raises(SystemChoiceError):
        choose_system(systems)


def test_unknown_test_is_an_error() -> None:
    with pytest.raises(ValueError, match="guess"):
        holds({"in": "root", "at": "@odata.id", "is": "guess"}, STANDARD)


@pytest.mark.parametrize("name", VENDORS)
def test_evidence_is_few_requests(name: str) -> None:
    reader = Reader(tree_of(name))
    gather(reader)
    assert len(reader.paths) <= 15
    assert len(set(reader.paths)) == len(reader.paths)
