# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator: the machine behind a BMC, what a reset applies, and its process."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.boot_override import CD, Override, set_override
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media, insert_media
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import set_power
from tests.kit.bmc.accounts import ACCOUNTS
from tests.kit.bmc.connect import bmc_of
from tests.kit.bmc.manager_services import CERTIFICATE, CERTIFICATES, PROTOCOLS
from tests.kit.bmc.simulation import Simulated, Simulation
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


SHAPES: list[dict[str, Any]] = [
    {},
    {"account_slots": 4},
    {"settings_elsewhere": True},
    {"insert": "patch", "kvm_slot": True},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_bmc_obeys_what_its_allow_header_has_and_nothing_else(make: Made, shape: dict[str, Any]) -> None:
    simulated, _ = make(**shape)
    paths, shown, status = ["/redfish/v1"], dict[str, list[str]](), dict[str, int]()
    while paths:
        path = paths.pop()
        _, headers, body = asked(simulated, "GET", path)
        shown[path] = headers["Allow"].split(", ")
        status[path], refusal, _ = asked(simulated, "PATCH", path, {"Bedplate": 1})
        assert refusal.get("Allow") == (headers["Allow"] if status[path] == 405 else None)
        paths += [one for one in links_in(json.loads(body)) if one not in shown and one not in paths]
    assert status == {path: 400 if "PATCH" in methods else 405 for path, methods in shown.items()}
    assert "PATCH" in shown[PROTOCOLS]
    assert shown[CERTIFICATES] == shown[CERTIFICATE] == ["GET", "HEAD"]
    status_of_post, _, _ = asked(simulated, "POST", ACCOUNTS, {})
    assert status_of_post == (400 if "POST" in shown[ACCOUNTS] else 405)


def asked(simulated: Simulated, method: str, path: str, body: object = None) -> tuple[int, Mapping[str, str], bytes]:
    """Send one request, and return status, headers and body."""
    trusted = ssl.create_default_context(cafile=str(simulated.ca_file))
    login = base64.b64encode(f"{simulated.user}:{simulated.password}".encode()).decode()
    connection = http.client.HTTPSConnection(simulated.address, simulated.port, context=trusted, timeout=10)
    with closing(connection):
        connection.request(method, path, json.dumps(body or {}), {"Authorization": f"Basic {login}"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def links_in(body: Any) -> list[str]:
    """Return the links to resources in a resource."""
    if isinstance(body, list):
        return [one for entry in body for one in links_in(entry)]
    if not isinstance(body, dict):
        return []
    own = [body["@odata.id"]] if isinstance(body.get("@odata.id"), str) else []
    return own + [one for value in body.values() for one in links_in(value)]
