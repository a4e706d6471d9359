# SPDX-License-Identifier: GPL-3.0-or-later
"""Each row of the table of dialects decides how a simulated BMC is commanded: without the row, the command fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.compare_run import FIRMWARE, comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.found_machine import serial_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.model.metal import ProfileMetal
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine as Recorded
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import power
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.accounts import put_administrator, read_accounts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.boot_override import (
    CD,
    HTTP,
    PXE,
    Override,
    clear_override,
    set_override,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.certificate import read_place
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.live_reader import reader_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media, insert_media
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles import bios
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.bios_plan import plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.profiles.profile_files import (
    bios_profile,
    firmware_profile,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import dialects
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account
from tests.kit.bmc.simulation import Simulated

from .conftest import Made

URI, ISO = "https://198.51.100.1/boot/x.efi", "https://198.51.100.1/media/x.iso"
SYSTEM = "/redfish/v1/Systems/1"
IDRAC = {"/redfish/v1/Managers/1": "/redfish/v1/Managers/iDRAC.Embedded.1"}
PENDING_BIOS = {f"{SYSTEM}/Bios/Settings": f"{SYSTEM}/Bios/Pending"}
Act = Callable[[Client, Simulated], None]


@dataclass(frozen=True)
class Case:
    """A simulated BMC that has the difference, and what must succeed at it. `limits` are those of the client."""

    spec: dict[str, Any]
    act: Act
    limits: dict[str, Any] = field(default_factory=dict)


def boots(wanted: Override) -> Act:
    """Set an override once, without a refused request, see it used by a reset, and clear another one."""

    def act(client: Client, simulated: Simulated) -> None:
        assert set_override(client, read_machine(client), wanted).changed
        power.set_power(client, read_machine(client), power.RESET)
        boot = simulated.state()["boots"][-1]
        assert (boot["target"].removeprefix("Uefi"), boot["uri"]) == (wanted.target.removeprefix("Uefi"), wanted.uri)
        set_override(client, read_machine(client), wanted)
        clear_override(client, read_machine(client))
        assert simulated.state()["boot"]["BootSourceOverrideEnabled"] == "Disabled"
        assert refused(simulated) == []

    return act


def refused(simulated: Simulated) -> list[str]:
    return [one for one in simulated.writes() if int(one.rpartition(" ")[2]) >= 400]


def inserts(slot: str) -> Act:
    """Insert a medium into this slot without a refused request, exchange it, and eject it."""

    def act(client: Client, simulated: Simulated) -> None:
        insert_media(client, read_machine(client), ISO)
        assert simulated.state()["media"][slot] == ISO
        insert_media(client, read_machine(client), f"{ISO}2.iso")
        eject_media(client, read_machine(client))
        assert not any(simulated.state()["media"].values())
        assert refused(simulated) == []

    return act


def no_write_but_an_error(says: str, wanted: Override) -> Act:
    """Refuse an override before the first write."""

    def act(client: Client, simulated: Simulated) -> None:
        with pytest.raises(BmcError, match=says) as caught:
            set_override(client, read_machine(client), wanted)
        assert caught.value.kind == "unsupported"
        assert simulated.writes() == []

    return act


def both(*acts: Act) -> Act:
    def act(client: Client, simulated: Simulated) -> None:
        for one in acts:
            one(client, simulated)

    return act


def turns_on(client: Client, simulated: Simulated) -> None:
    power.set_power(client, read_machine(client, only=()), power.ON)
    assert simulated.state()["power"] == "On"


def resets(client: Client, simulated: Simulated) -> None:
    power.set_power(client, read_machine(client, only=()), power.RESET)
    assert simulated.state()["resets"] == ["PowerCycle"]


def records_the_sku(client: Client, simulated: Simulated) -> None:
    assert serial_of(read_machine(client, only=())) == "TAG0001"


def writes_bios(client: Client, simulated: Simulated) -> None:
    """Write what the plan of a profile has."""
    get = reader_of(client)
    evidence, dialect = dialects.read(get)
    profile = bios_profile({"bios_version": "1.2.3", "attributes": {"SriovEnable": "Enabled"}}, "sim")
    patch = plan(profile, bios.read_state(get, evidence.system), dialect).patches[0]
    client.patch(patch.path, patch.body)
    assert simulated.state()["bios_pending"] == {"SriovEnable": "Enabled"}


def says_that_firmware_is_not_listed(client: Client, simulated: Simulated) -> None:
    @dataclass
    class OfFirmware:
        metal = ProfileMetal(firmware="sim")

    node = client.bmc.node
    target = Target(node, client.bmc.address, recorded=Recorded(f"SN-{node}"), profile=OfFirmware())  # type: ignore[arg-type]
    profile = firmware_profile({"components": {"BMC": "2.1.0", "BIOS": "1.2.3"}}, "sim")
    found = comparison({node: target}, {"sim": profile}, FIRMWARE)(client)
    assert [one.found for one in found.findings] == ["the BMC has no UpdateService"]


def creates_an_account(client: Client, simulated: Simulated) -> None:
    _evidence, dialect = dialects.read(reader_of(client))
    put_administrator(client, read_accounts(client), Account("bedplate", "own-canary-1"), dialect)
    assert simulated.state()["accounts"]["bedplate"]["Id"] == "3"
    assert refused(simulated) == []


def refuses_a_certificate(client: Client, simulated: Simulated) -> None:
    evidence, dialect = dialects.read(reader_of(client))
    with pytest.raises(BmcError, match="only after a reset"):
        read_place(client, evidence.managers[0], dialect)
    assert simulated.writes() == []


OLD_IDRAC = {"names": IDRAC, "manager_model": "14G Monolithic", "bmc_firmware": "5.10.50.00"}
NEW_IDRAC = {"names": IDRAC, "manager_model": "17G Monolithic", "bmc_firmware": "1.20.50.52"}
CASES: dict[str, Case] = {
    "serial_in_sku": Case({"names": IDRAC, "sku": "TAG0001"}, records_the_sku),
    "boot_in_settings": Case({"settings_elsewhere": True}, boots(Override(CD))),
    "boot_in_future_state": Case(
        {"settings_elsewhere": True, "settings_at": "SD", "names": {SYSTEM: "/redfish/v1/Systems/Self"}},
        boots(Override(PXE)),
    ),
    "mode_not_writable": Case({"mode_writable": False, "oem": "Hpe"}, boots(Override(CD))),
    "mode_missing": Case({"no_mode": True}, boots(Override(PXE))),
    "boot_mode_by_bios_job": Case(
        {"mode_writable": False, "names": IDRAC},
        both(no_write_but_an_error("boot mode UEFI", Override(PXE, "Legacy")), boots(Override(CD))),
    ),
    "resets_in_action_info": Case(
        {"reset_info": "action-info", "reset_types": ["On", "ForceOff", "PowerCycle"]}, resets
    ),
    "power_on_conflict": Case({**NEW_IDRAC, "power": "Off", "faults": {"conflicts": 3}}, turns_on),
    "http_uri_in_bios": Case(
        {"names": IDRAC, "http_uri_in_bios": True, "bios_apply": "needed"}, boots(Override(HTTP, uri=URI))
    ),
    "media_slot_of_kvm": Case({"kvm_slot": True, "kvm_without_action": True}, inserts("2")),
    "media_by_patch": Case({"insert": "patch"}, inserts("2")),
    "media_slot_1": Case({**NEW_IDRAC, "slots": ["2", "1"]}, inserts("1")),
    "media_ejects_slowly": Case({"names": IDRAC, "faults": {"eject_s": 1.3}}, inserts("2")),
    "cd_is_physical": Case(OLD_IDRAC, no_write_but_an_error("physical drive", Override(CD))),
    "cd_by_other_name": Case({"targets": ["None", "Pxe", "UefiCd"]}, boots(Override(CD))),
    "bios_apply_time": Case({"bios_apply": "needed"}, writes_bios),
    "bios_apply_time_refused": Case({"bios_apply": "refused", "names": PENDING_BIOS}, writes_bios),
    "account_slots": Case({"names": IDRAC, "manager_model": "16G Monolithic", "account_slots": 4}, creates_an_account),
    "certificate_after_reset": Case(OLD_IDRAC, refuses_a_certificate),
    "update_none": Case({"update_service": False}, says_that_firmware_is_not_listed),
}
"""Row -> its case."""


def chooses_the_system(client: Client, simulated: Simulated) -> None:
    machine: Machine = read_machine(client)
    assert (machine.system.path, machine.other_systems) == (SYSTEM, ("/redfish/v1/Systems/HGX_Baseboard_0",))


def reads_through_other_letters(client: Client, simulated: Simulated) -> None:
    machine = read_machine(client)
    state = bios.read_state(reader_of(client), client.get(SYSTEM).body)
    assert (machine.unread, len(machine.nics), state.attributes["SriovEnable"]) == ((), 2, "Disabled")


ALWAYS: dict[str, Case] = {
    "second_system": Case({"second_system": True}, chooses_the_system),
    "enabled_every_time": Case({"resets_boot": True}, boots(Override(CD))),
    "whole_boot": Case({"whole_boot": True}, boots(Override(CD))),
    "post_refuses": Case({"faults": {"in_post": 2}}, lambda client, _simulated: _changed(client)),
    "no_http_boot": Case(
        {"targets": ["None", "Pxe", "Cd"]}, no_write_but_an_error("UefiHttp", Override(HTTP, uri=URI))
    ),
    "no_media": Case({"slots": ["9"], "media_at": "nowhere"}, lambda client, _simulated: _no_slot(client)),
    "media_refuses_insert": Case({"kvm_slot": True}, lambda client, simulated: _next_slot(client, simulated)),
    "paths_any_case": Case(
        {"names": {SYSTEM: SYSTEM}, "links": {SYSTEM: "/redfish/v1/systems/1"}}, reads_through_other_letters
    ),
}
"""What every BMC is expected to do -> its case."""


def _changed(client: Client) -> None:
    assert set_override(client, read_machine(client), Override(CD)).changed


def _no_slot(client: Client) -> None:
    with pytest.raises(BmcError, match="no slot of virtual media"):
        insert_media(client, read_machine(client), ISO)


def _next_slot(client: Client, simulated: Simulated) -> None:
    insert_media(client, read_machine(client), ISO)
    assert simulated.state()["media"] == {"0": "", "1": "", "2": ISO}


def run(make: Made, case: Case) -> None:
    simulated, bmc = make(case.limits, **case.spec)
    with Client(bmc) as client:
        case.act(client, simulated)


def test_each_row_has_a_case() -> None:
    assert set(CASES) == {row.id for row in dialects.rows()}
    assert set(ALWAYS) == {one.id for one in dialects.always()}


@pytest.mark.parametrize("row", CASES)
def test_a_row_decides(row: str, make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    run(make, CASES[row])
    others = tuple(one for one in dialects.rows() if one.id != row)
    monkeypatch.setattr(dialects, "rows", lambda: others)
    with pytest.raises((BmcError, AssertionError, pytest.fail.Exception)):
        run(make, CASES[row])


@pytest.mark.parametrize("difference", ALWAYS)
def test_what_is_expected_of_every_bmc(difference: str, make: Made) -> None:
    run(make, ALWAYS[difference])


def test_a_standard_bmc_costs_no_request_more(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        simulated.forget_log()
        read_machine(client, only=())
    paths = [one.split()[1] for one in simulated.state()["log"] if one.startswith("GET")]
    assert paths == ["/redfish/v1/Systems", SYSTEM]
