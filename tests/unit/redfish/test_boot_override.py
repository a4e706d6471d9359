# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot override: Once, read back in both places, used up by one boot, and cleared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.boot_override import (
    CD,
    HTTP,
    PXE,
    Override,
    clear_override,
    set_override,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import PENDING, read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import set_power
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.read_back import Change
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Bmc

from .conftest import Made

URI = "https://198.51.100.1/boot/x.efi"
SET = Override(CD)


def override(bmc: Bmc, wanted: Override | None, read_only: bool = False) -> Change:
    with Client(bmc, read_only=read_only) as client:
        machine = read_machine(client, only=(PENDING,))
        return set_override(client, machine, wanted) if wanted else clear_override(client, machine)


SHAPES: list[Mapping[str, Any]] = [
    {},
    {"settings_elsewhere": True},
    {"settings_without_boot": True},
    {"second_system": True},
    {"mode_writable": False},
    {"whole_boot": True},
    {"etag": "required"},
    {"etag": "weak-as-strong"},
    {"faults": {"tasks": ["boot"]}},
    {"faults": {"takes_s": 0.1}},
    {"faults": {"in_post": 1}},
    {"faults": {"changed_between": 1}},
    {"faults": {"not_taken": ["boot"], "not_taken_count": 2}},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("wanted", [Override(CD), Override(PXE), Override(HTTP, uri=URI)], ids=str)
def test_once_is_set_used_up_and_boots(make: Made, shape: Mapping[str, Any], wanted: Override) -> None:
    simulated, bmc = make(**shape)
    assert override(bmc, wanted).changed
    assert simulated.state()["boot"]["BootSourceOverrideEnabled"] == "Once"
    simulated.forget_log()
    assert not override(bmc, wanted).changed
    assert simulated.writes() == []
    with Client(bmc) as client:
        set_power(client, read_machine(client, only=()), "reset")
        set_power(client, read_machine(client, only=()), "reset")
    assert [(one["target"], one["uri"]) for one in simulated.state()["boots"]] == [
        (wanted.target, wanted.uri),
        ("None", ""),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clear(make: Made, shape: Mapping[str, Any]) -> None:
    simulated, bmc = make(**shape)
    assert not override(bmc, None).changed
    override(bmc, SET)
    assert override(bmc, None).changed
    assert simulated.state()["boot"]["BootSourceOverrideEnabled"] == "Disabled"
    assert not override(bmc, None).changed


@pytest.mark.parametrize("elsewhere", [False, True])
def test_accepted_and_not_taken(make: Made, elsewhere: bool) -> None:
    simulated, bmc = make(settings_elsewhere=elsewhere, faults={"not_taken": ["boot"]})
    with pytest.raises(BmcError) as caught:
        override(bmc, SET)
    error = caught.value
    assert error.kind == errors.NOT_TAKEN
    assert error.path == ("/redfish/v1/Systems/1/Settings" if elsewhere else "/redfish/v1/Systems/1")
    assert error.expected == "Once Cd UEFI"
    assert error.found.startswith("Disabled")
    assert len(simulated.writes()) == 3


def test_clear_that_is_not_taken(make: Made) -> None:
    simulated, bmc = make()
    override(bmc, SET)
    simulated.faults(not_taken=["boot"])
    with pytest.raises(BmcError) as caught:
        override(bmc, None)
    assert (caught.value.kind, caught.value.expected, caught.value.found) == (
        errors.NOT_TAKEN,
        "Disabled",
        "Once Cd UEFI",
    )


def test_continuous_is_not_once(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        client.patch(
            "/redfish/v1/Systems/1",
            {"Boot": {"BootSourceOverrideEnabled": "Continuous", "BootSourceOverrideTarget": "Cd"}},
        )
    assert override(bmc, SET).changed
    assert simulated.state()["boot"]["BootSourceOverrideEnabled"] == "Once"


def test_machine_that_was_read_before_a_change_is_read_again(make: Made) -> None:
    simulated, bmc = make()
    override(bmc, SET)
    with Client(bmc) as client:
        machine = read_machine(client, only=(PENDING,))
        clear_override(client, machine)
        assert set_override(client, machine, SET).changed
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Cd"


def test_override_at_sd_by_the_dialect(make: Made) -> None:
    simulated, bmc = make(settings_elsewhere=True, settings_at="SD")
    with Client(bmc) as client:
        with pytest.raises(BmcError) as caught:
            set_override(client, read_machine(client, only=(PENDING,)), SET)
        assert caught.value.has("OperationSupportedInFutureStateURI")
        machine = read_machine(client, only=(PENDING,), dialect=Dialect(boot_written_at="sd"))
        change = set_override(client, machine, SET)
    assert (change.changed, change.path) == (True, "/redfish/v1/Systems/1/SD")
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Cd"


def test_another_uri_is_a_change(make: Made) -> None:
    simulated, bmc = make()
    override(bmc, Override(HTTP, uri=URI))
    assert override(bmc, Override(HTTP, uri=f"{URI}2")).changed
    assert simulated.state()["boot"]["HttpBootUri"] == f"{URI}2"


@pytest.mark.parametrize(("targets", "wanted"), [(["None", "Pxe"], SET), (["None", "Cd"], Override(HTTP, uri=URI))])
def test_target_that_is_not_offered(make: Made, targets: list[str], wanted: Override) -> None:
    simulated, bmc = make(targets=targets)
    with pytest.raises(BmcError) as caught:
        override(bmc, wanted)
    assert caught.value.kind == errors.UNSUPPORTED
    assert ", ".join(targets) in caught.value.what
    assert simulated.writes() == []


def test_mode_that_is_wrong_and_not_writable_is_an_error(make: Made) -> None:
    simulated, bmc = make(mode_writable=False)
    with pytest.raises(BmcError) as caught:
        override(bmc, Override(CD, mode="Legacy"))
    assert caught.value.has("PropertyNotWritable")
    assert simulated.state()["boot"]["BootSourceOverrideEnabled"] == "Disabled"


def test_check_mode_only_reads(make: Made) -> None:
    simulated, bmc = make()
    assert override(bmc, SET, read_only=True).changed
    assert not override(bmc, None, read_only=True).changed
    assert simulated.writes() == []


def test_arming_takes_four_requests(make: Made) -> None:
    simulated, bmc = make()
    override(bmc, SET)
    assert [one.split()[0] for one in simulated.state()["log"]] == [
        "GET",
        "POST",
        "GET",
        "GET",
        "PATCH",
        "GET",
        "DELETE",
    ]


@pytest.mark.parametrize(("target", "uri"), [(HTTP, ""), (CD, URI)])
def test_uri_is_for_http(target: str, uri: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        Override(target, uri=uri)
