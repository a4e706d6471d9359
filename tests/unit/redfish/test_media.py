# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual media: by action or by PATCH, the slot that accepts, read back, and ejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import SLOTS, read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media, insert_media
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.read_back import Change
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Bmc

from .conftest import Made

IMAGE, OTHER = "https://198.51.100.1/media/a.iso", "https://198.51.100.1/media/b.iso"


def media(bmc: Bmc, image: str, read_only: bool = False, only: str = "") -> Change:
    with Client(bmc, read_only=read_only) as client:
        machine = read_machine(client, only=(SLOTS,))
        return insert_media(client, machine, image) if image else eject_media(client, machine, only)


SHAPES: list[Mapping[str, Any]] = [
    {},
    {"insert": "patch"},
    {"insert_strict": True},
    {"kvm_slot": True},
    {"kvm_slot": True, "insert": "patch"},
    {"media_at": "system"},
    {"etag": "required"},
    {"faults": {"tasks": ["media"]}},
    {"faults": {"takes_s": 0.1}},
    {"faults": {"not_taken": ["media"], "not_taken_count": 1}},
    {"faults": {"cut": 1, "cut_after": True, "methods": ["POST"], "paths": ["InsertMedia"]}},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_insert_replace_and_eject(make: Made, shape: Mapping[str, Any]) -> None:
    simulated, bmc = make(**shape)
    assert media(bmc, IMAGE).changed
    assert simulated.state()["media"]["2"] == IMAGE
    simulated.forget_log()
    assert not media(bmc, IMAGE).changed
    assert simulated.writes() == []
    assert media(bmc, OTHER).before == IMAGE
    assert simulated.state()["media"]["2"] == OTHER
    assert media(bmc, "").changed
    assert not any(simulated.state()["media"].values())
    assert not media(bmc, "").changed


def test_insert_that_is_not_taken(make: Made) -> None:
    _simulated, bmc = make(faults={"not_taken": ["media"]})
    with pytest.raises(BmcError) as caught:
        media(bmc, IMAGE)
    error = caught.value
    assert (error.kind, error.expected, error.found) == (errors.NOT_TAKEN, IMAGE, "no medium")
    assert error.path.endswith("/VirtualMedia/2")


def test_eject_that_is_not_taken(make: Made) -> None:
    simulated, bmc = make()
    media(bmc, IMAGE)
    simulated.faults(not_taken=["eject"])
    for image in ("", OTHER):
        with pytest.raises(BmcError) as caught:
            media(bmc, image)
        assert (caught.value.kind, caught.value.found) == (errors.NOT_TAKEN, IMAGE)


def test_only_the_named_medium_is_ejected(make: Made) -> None:
    simulated, bmc = make()
    media(bmc, IMAGE)
    assert not media(bmc, "", only=OTHER).changed
    assert simulated.state()["media"]["2"] == IMAGE
    assert media(bmc, "", only=IMAGE).changed


def test_failed_task_is_an_error(make: Made) -> None:
    _simulated, bmc = make(faults={"tasks": ["media"], "task_state": "Exception"})
    with pytest.raises(BmcError) as caught:
        media(bmc, IMAGE)
    assert caught.value.has("TaskFailed")


def test_bmc_without_a_way_to_insert(make: Made) -> None:
    _simulated, bmc = make(insert="none")
    with pytest.raises(BmcError) as caught:
        media(bmc, IMAGE)
    assert caught.value.status == 405
    _simulated, bmc = make(faults={"missing": ["VirtualMedia"]})
    with pytest.raises(BmcError) as caught:
        media(bmc, IMAGE)
    assert caught.value.kind == errors.UNSUPPORTED


def test_check_mode_only_reads(make: Made) -> None:
    simulated, bmc = make()
    assert media(bmc, IMAGE, read_only=True).changed
    assert not media(bmc, "", read_only=True).changed
    media(bmc, IMAGE)
    simulated.forget_log()
    assert not media(bmc, IMAGE, read_only=True).changed
    assert media(bmc, OTHER, read_only=True).changed
    assert media(bmc, "", read_only=True).changed
    assert simulated.writes() == []
