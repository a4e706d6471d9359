# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator: the machine behind a BMC, what a reset applies, and its process."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.boot_override import CD, Override, set_override
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media, insert_media
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import set_power
from tests.kit.bmc.connect import bmc_of
from tests.kit.bmc.simulation import Simulation
from tests.kit.bmc.spec import spec_of

from .conftest import Made

IMAGE = "https://198.51.100.1/media/a.iso"


def commands(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_machine_behind_a_bmc_is_commanded_and_reports(tmp_path: Path) -> None:
    file, fifo = tmp_path / "commands", tmp_path / "events"
    os.mkfifo(fifo)
    options = {"file": str(file), "events": str(fifo)}
    with Simulation() as simulation:
        simulated = simulation.add(power="Off", behind="tests.kit.bmc.recorded_machine:machine", behind_options=options)
        with Client(bmc_of(simulated)) as client:
            machine = read_machine(client)
            insert_media(client, machine, IMAGE)
            set_override(client, machine, Override(CD))
            set_power(client, read_machine(client), "on")
            # The guest's own reset is a boot too: the override is used up by then.
            set_override(client, read_machine(client), Override("Pxe"))
            fifo.write_text("restart\n")
            wait_until(lambda: "restarts" in [one["command"] for one in commands(file)])
            assert read_machine(client).system.boot == machine.system.boot
            fifo.write_text("off\n")
            wait_until(lambda: simulated.state()["power"] == "Off")
            eject_media(client, machine)
            set_power(client, read_machine(client), "on")
            set_power(client, read_machine(client), "reset")
            set_power(client, read_machine(client), "off", graceful_s=5)
            assert read_machine(client).power == "Off"
    found = [(one["command"], one.get("target", ""), one.get("media", {})) for one in commands(file)]
    assert found == [
        ("insert", "", {}),
        ("on", "Cd", {"2": IMAGE}),
        ("restarts", "Pxe", {"2": IMAGE}),
        ("went off", "", {}),
        ("eject", "", {}),
        ("on", "None", {}),
        ("reset", "None", {}),
        ("button", "", {}),
        ("close", "", {}),
    ]


def test_bios_attributes_are_pending_until_the_reset(make: Made) -> None:
    simulated, bmc = make()
    settings = "/redfish/v1/Systems/1/Bios/Settings"
    with Client(bmc) as client:
        client.patch(settings, {"Attributes": {"SriovEnable": "Enabled"}})
        now = [client.get(path).body["Attributes"]["SriovEnable"] for path in ("/redfish/v1/Systems/1/Bios", settings)]
        assert now == ["Disabled", "Enabled"]
        set_power(client, read_machine(client, only=()), "reset")
        assert client.get("/redfish/v1/Systems/1/Bios").body["Attributes"]["SriovEnable"] == "Enabled"
    assert simulated.state()["bios_pending"] == {}


def test_bios_attributes_that_are_not_taken(make: Made) -> None:
    simulated, bmc = make(faults={"not_taken": ["bios"]})
    with Client(bmc) as client:
        client.patch("/redfish/v1/Systems/1/Bios/Settings", {"Attributes": {"SriovEnable": "Enabled"}})
    assert simulated.state()["bios_pending"] == {}


def test_each_bmc_has_its_address_and_certificate(simulation: Simulation) -> None:
    added = simulation.add_all([{} for _one in range(5)])
    assert len({one.address for one in added}) == 5
    assert len({one.fingerprint for one in added}) == 5


def test_simulator_ends_with_its_parent() -> None:
    simulation = Simulation()
    with simulation:
        process = simulation.process
        assert process
        assert process.stdin
        process.stdin.close()
        process.wait(20)
    assert process.returncode == 0


@pytest.mark.parametrize("data", [{"node": "a", "pwoer": "On"}, {"node": "a", "faults": {"bussy": 1}}])
def test_unknown_knob_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="has no"):
        spec_of(data)
