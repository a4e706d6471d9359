# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulator is held honest: sushy and DMTF's redfish read the states that it has, and that bedplate's client reads and writes."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import bmc_authority
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.accounts import put_administrator, read_accounts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.boot_override import (
    CD,
    PXE,
    Override,
    set_override,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.certificate import (
    SUBJECT,
    read_place,
    request_certificate,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media, insert_media
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.network_protocol import end_ipmi, set_ntp
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.power import set_power
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Bmc, read_fingerprint
from lab.paths import ROOT
from tests.kit.bmc.simulation import Simulated

from .conftest import Made

PYTHON = ROOT / ".venv-oracles" / "bin" / "python"
SCRIPT = Path(__file__).with_name("oracle_client.py")
IMAGE = "https://198.51.100.1/media/a.iso"
READ = ("read", "")
both = pytest.mark.parametrize("kind", ["sushy", "dmtf"])


Oracle = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """Return a function that lets another client command a BMC, and returns what it read. One process serves the module."""
    if not PYTHON.exists():
        missing = ".venv-oracles not found: run `make oracles`"
        if os.environ.get("CI") == "true" or os.environ.get("BEDPLATE_TOOLS") == "required":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)
    clean = {**os.environ, "PYTHONPATH": ""}
    command = [str(PYTHON), str(SCRIPT)]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, env=clean
        ) as process,
    ):
        assert process.stdin
        assert process.stdout

        def run(kind: str, simulated: Simulated, *commands: tuple[str, str]) -> list[dict[str, Any]]:
            assert process.stdin
            assert process.stdout
            order = {
                "kind": kind,
                "url": f"https://{simulated.address}:{simulated.port}",
                "ca_file": str(simulated.ca_file),
                "user": simulated.user,
                "password": simulated.password,
                "commands": commands,
            }
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                said.seek(0)
                pytest.fail(f"{kind} failed: {said.read()}")
            found: list[dict[str, Any]] = json.loads(line)
            return found

        yield run
        process.stdin.close()


def state_of(simulated: Simulated) -> dict[str, str]:
    """Return the simulator's own state in the form of oracle_client.py."""
    found = simulated.state()
    boot = found["boot"]
    names = {name: boot[f"BootSourceOverride{name.title()}"] for name in ("enabled", "target", "mode")}
    return {"power": found["power"], **names, "image": found["media"]["2"]}


def read_of(bmc: Bmc) -> dict[str, str]:
    """Return what bedplate's client reads, in the form of oracle_client.py."""
    with Client(bmc) as client:
        machine = read_machine(client)
    boot = machine.system.boot
    assert boot
    image = next(one.image for one in machine.slots if one.is_optical)
    return {"power": machine.power, "enabled": boot.enabled, "target": boot.target, "mode": boot.mode, "image": image}


@both
def test_oracle_commands_and_all_agree(make: Made, oracle: Oracle, kind: str) -> None:
    simulated, bmc = make(power="Off")
    steps = [
        [("boot", "Cd"), ("insert", IMAGE)],
        [("reset", "On")],
        [("reset", "ForceRestart"), ("boot", "Pxe"), ("eject", "")],
        [("reset", "ForceOff")],
    ]
    expected = [
        {"power": "Off", "enabled": "Once", "target": "Cd", "image": IMAGE},
        {"power": "On", "enabled": "Disabled", "target": "None", "image": IMAGE},
        {"power": "On", "enabled": "Once", "target": "Pxe", "image": ""},
        {"power": "Off", "enabled": "Once", "target": "Pxe", "image": ""},
    ]
    for commands, state in zip(steps, expected, strict=True):
        (found,) = oracle(kind, simulated, *commands, READ)
        assert found == {**state, "mode": "UEFI"}
        assert found == state_of(simulated) == read_of(bmc)
    assert [one["target"] for one in simulated.state()["boots"]] == ["Cd", "None"]


@both
def test_bedplate_commands_and_all_agree(make: Made, oracle: Oracle, kind: str) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        set_override(client, read_machine(client), Override(CD))
        insert_media(client, read_machine(client), IMAGE)
    assert oracle(kind, simulated, READ) == [state_of(simulated)]
    assert state_of(simulated) == {"power": "On", "enabled": "Once", "target": "Cd", "mode": "UEFI", "image": IMAGE}
    with Client(bmc) as client:
        set_power(client, read_machine(client), "cycle")
        eject_media(client, read_machine(client))
        set_power(client, read_machine(client), "off")
    assert oracle(kind, simulated, READ) == [state_of(simulated)]
    assert state_of(simulated) == {"power": "Off", "enabled": "Disabled", "target": "None", "mode": "UEFI", "image": ""}


@both
def test_services_that_bedplate_writes_are_those_that_oracles_read(make: Made, oracle: Oracle, kind: str) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        put_administrator(client, read_accounts(client), Account("bedplate", "Own-canary-123"), Dialect())
        manager = client.get("/redfish/v1/Managers/1").body
        set_ntp(client, manager, ("10.0.0.1",))
        end_ipmi(client, manager)
        place = read_place(client, manager, Dialect())
        request = request_certificate(client, place, {**dict.fromkeys(SUBJECT, "x"), "Country": "XX"})
    key = bmc_authority.new_key()
    ca = bmc_authority.new_certificate(key, "oracle CA", "x")
    authority = bmc_authority.read(ca, key)
    subject = authority.subject("n", "o", "u")
    pem = authority.sign(request, subject, ["n"], simulated.address, 90).pem
    # The oracle installs what bedplate has requested; the simulator takes both forms of the link to the certificate.
    (found,) = oracle(kind, simulated, ("certify", pem), ("services", ""))
    expected: dict[str, Any] = {"certificates": [pem]}
    if kind == "dmtf":
        accounts = [["root", "Administrator", True], ["bedplate", "Administrator", True]]
        expected |= {"accounts": accounts, "ntp": ["10.0.0.1"], "ipmi": False}
    assert found == expected
    assert read_fingerprint("n", simulated.address, simulated.port) == simulated.state()["fingerprint"]


# sushy sends no If-Match after HTTP 428.
SHAPES: list[tuple[str, dict[str, Any]]] = [
    *(
        (kind, shape)
        for kind in ("sushy", "dmtf")
        for shape in ({"second_system": True}, {"reset_info": "action-info"}, {"etag": "weak"})
    ),
    ("dmtf", {"etag": "required"}),
]


@pytest.mark.parametrize(("kind", "shape"), SHAPES, ids=str)
def test_shapes_that_oracles_can_command(make: Made, oracle: Oracle, kind: str, shape: dict[str, Any]) -> None:
    simulated, _bmc = make(**shape)
    found = oracle(kind, simulated, ("boot", "Pxe"), READ, ("reset", "ForceRestart"), READ)
    assert [one["target"] for one in found] == ["Pxe", "None"]


def test_override_in_the_settings_object_is_where_sushy_writes_it(make: Made, oracle: Oracle) -> None:
    simulated, bmc = make(settings_elsewhere=True)
    (found,) = oracle("sushy", simulated, ("boot", "Pxe"), READ)
    # sushy writes to the settings object, and reads the system, which does not show it.
    assert found["target"] == "None"
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Pxe"
    with Client(bmc) as client:
        assert not set_override(client, read_machine(client), Override(PXE)).changed
