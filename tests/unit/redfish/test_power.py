# SPDX-License-Identifier: GPL-3.0-or-later
"""Power: read back, sent once, and what is an error."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import set_power
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.read_back import Change
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Bmc

from .conftest import Made

SHORT = {"power_s": 0.3}


def power(bmc: Bmc, wanted: str, read_only: bool = False, **choices: Any) -> Change:
    with Client(bmc, read_only=read_only) as client:
        return set_power(client, read_machine(client, only=()), wanted, **choices)


@pytest.mark.parametrize("power_s", [0.0, 0.2])
@pytest.mark.parametrize(
    ("before", "wanted", "sent", "after"),
    [
        ("Off", "on", ["On"], "On"),
        ("On", "on", [], "On"),
        ("On", "off", ["ForceOff"], "Off"),
        ("Off", "off", [], "Off"),
        ("On", "reset", ["ForceRestart"], "On"),
        ("Off", "reset", ["On"], "On"),
        ("On", "cycle", ["ForceOff", "On"], "On"),
        ("Off", "cycle", ["On"], "On"),
    ],
)
def test_each_state(make: Made, before: str, wanted: str, sent: list[str], after: str, power_s: float) -> None:
    simulated, bmc = make(power=before, power_s=power_s)
    change = power(bmc, wanted)
    assert (change.changed, change.before, change.is_proven) == (bool(sent), before, True)
    assert simulated.state()["resets"] == sent
    assert simulated.state()["power"] == after


def test_second_run_sends_only_reads(make: Made) -> None:
    simulated, bmc = make(power="Off")
    power(bmc, "on")
    simulated.forget_log()
    assert not power(bmc, "on").changed
    assert simulated.writes() == []


@pytest.mark.parametrize("wanted", ["on", "off", "reset", "cycle"])
def test_check_mode_only_reads(make: Made, wanted: str) -> None:
    simulated, bmc = make()
    assert power(bmc, wanted, read_only=True).changed == (wanted != "on")
    assert simulated.writes() == []


@pytest.mark.parametrize(("before", "wanted"), [("Off", "on"), ("On", "off"), ("On", "reset"), ("On", "cycle")])
def test_accepted_and_not_taken(make: Made, before: str, wanted: str) -> None:
    simulated, bmc = make(SHORT, power=before, faults={"not_taken": ["power"]})
    with pytest.raises(BmcError) as caught:
        power(bmc, wanted)
    error = caught.value
    assert (error.kind, error.path) == (errors.NOT_TAKEN, "/redfish/v1/Systems/1")
    assert f"PowerState {before}" in error.found
    assert error.expected != error.found
    # A reset is never sent twice.
    assert len(simulated.writes()) == 1


def test_reset_without_a_time_is_not_proven(make: Made) -> None:
    simulated, bmc = make(reset_time=False)
    assert not power(bmc, "reset").is_proven
    assert simulated.state()["resets"] == ["ForceRestart"]


@pytest.mark.parametrize("cut_after", [False, True])
@pytest.mark.parametrize(("before", "wanted", "sent"), [("Off", "on", "On"), ("On", "reset", "ForceRestart")])
def test_lost_answer_is_decided_by_the_state(make: Made, before: str, wanted: str, sent: str, cut_after: bool) -> None:
    faults = {"cut": 1, "cut_after": cut_after, "methods": ["POST"]}
    simulated, bmc = make({} if cut_after else SHORT, power=before, faults=faults)
    if cut_after:
        assert power(bmc, wanted).changed
        assert simulated.state()["resets"] == [sent]
    else:
        with pytest.raises(BmcError) as caught:
            power(bmc, wanted)
        assert caught.value.kind == errors.CUT
        assert simulated.state()["resets"] == []


def test_lost_answer_of_a_reset_without_a_time_is_an_error(make: Made) -> None:
    simulated, bmc = make(reset_time=False, faults={"cut": 1, "cut_after": True, "methods": ["POST"]})
    with pytest.raises(BmcError) as caught:
        power(bmc, "reset")
    assert caught.value.kind == errors.CUT
    assert simulated.state()["resets"] == ["ForceRestart"]


def test_operating_system_is_shut_down_first(make: Made) -> None:
    simulated, bmc = make()
    power(bmc, "off", graceful_s=1)
    assert simulated.state()["resets"] == ["GracefulShutdown"]


def test_operating_system_that_does_not_shut_down_loses_power(make: Made) -> None:
    simulated, bmc = make(faults={"ignores_graceful": True})
    power(bmc, "off", graceful_s=0.2)
    assert simulated.state()["resets"] == ["GracefulShutdown", "ForceOff"]
    assert simulated.state()["power"] == "Off"


@pytest.mark.parametrize("where", ["allowable", "action-info"])
def test_reset_types_of_the_bmc_are_used(make: Made, where: str) -> None:
    simulated, bmc = make(reset_types=["ForceOn", "ForceOff", "PowerCycle"], reset_info=where)
    power(bmc, "reset")
    power(bmc, "cycle")
    assert simulated.state()["resets"] == ["PowerCycle", "ForceOff", "ForceOn"]


def test_missing_reset_type_is_unsupported(make: Made) -> None:
    simulated, bmc = make(reset_types=["ForceOff"], power="Off")
    with pytest.raises(BmcError) as caught:
        power(bmc, "on")
    assert caught.value.kind == errors.UNSUPPORTED
    assert simulated.writes() == []


def test_power_that_changes_is_waited_for(make: Made) -> None:
    simulated, bmc = make(power="Off", power_s=0.4)
    with Client(bmc) as client:
        client.post("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset", {"ResetType": "On"})
        assert not set_power(client, read_machine(client, only=()), "on").changed
    assert simulated.state()["resets"] == ["On"]


def test_reset_as_a_task(make: Made) -> None:
    simulated, bmc = make(power="Off", faults={"tasks": ["reset"]})
    assert power(bmc, "on").changed
    assert simulated.state()["power"] == "On"


def test_state_that_does_not_exist(make: Made) -> None:
    _simulated, bmc = make()
    with pytest.raises(ValueError, match="sleep"):
        power(bmc, "sleep")
