# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC's resources as one machine, for each shape of tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine import Machine, plain_mac
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Bmc

from .conftest import Made

DRIVES = [
    {"serial": "NVME-1", "bytes": 3840755982336, "protocol": "NVMe", "model": "PM9A3"},
    {"serial": "SATA-1", "bytes": 480103981056, "protocol": "SATA", "model": "S4510"},
]
NICS = ["02:00:00:00:00:0A", "02-00-00-00-00-0b", "02:00:00:00:00:0c"]


def read(bmc: Bmc, **choices: Any) -> Machine:
    with Client(bmc) as client:
        return read_machine(client, **choices)


def test_machine(make: Made) -> None:
    _simulated, bmc = make(nics=NICS, drives=DRIVES, power="Off", bmc_mac="02:00:00:FF:00:09")
    machine = read(bmc)
    system = machine.system
    assert machine.serial == f"SN-{bmc.node}"
    assert (system.manufacturer, system.model, system.bios_version) == ("bedplate", "sim8000", "1.2.3")
    assert (machine.power, len(system.uuid), machine.unread) == ("Off", 36, ())
    assert [(one.mac, one.mbps, one.has_link) for one in machine.nics] == [
        (plain_mac(one), 25000, True) for one in NICS
    ]
    assert machine.has_mac("02:00:00:00:00:0B")
    assert not machine.has_mac("02:00:00:00:00:ff")
    shown = [(one.serial, one.size, one.protocol, one.model, one.kind) for one in machine.drives]
    assert shown == [(one["serial"], one["bytes"], one["protocol"], one["model"], "SSD") for one in DRIVES]
    assert system.boot
    assert (system.boot.is_off, "UefiHttp" in system.boot.targets, system.boot.has_uri) == (True, True, True)
    assert [(one.name, one.is_optical, one.is_inserted) for one in machine.slots] == [
        ("1", False, False),
        ("2", True, False),
    ]
    assert system.reset
    assert "ForceRestart" in system.reset.types
    assert machine.manager
    assert (machine.manager.name, machine.manager.firmware, machine.manager.macs) == (
        "1",
        "2.0.1",
        ("02:00:00:ff:00:09",),
    )


SHAPES: list[Mapping[str, Any]] = [
    {"second_system": True},
    {"settings_elsewhere": True},
    {"settings_without_boot": True},
    {"reset_info": "action-info"},
    {"media_at": "system"},
    {"expand": True},
    {"etag": "none"},
    {"nics_at": "chassis"},
    {"faults": {"gzip": True}},
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda one: next(iter(one)))
def test_machine_is_the_same_in_each_shape(make: Made, shape: Mapping[str, Any]) -> None:
    _simulated, bmc = make(nics=NICS, drives=DRIVES, **shape)
    machine = read(bmc)
    assert machine.system.path.rpartition("/")[2] == "1"
    assert [one.mac for one in machine.nics] == [plain_mac(one) for one in NICS]
    assert [one.serial for one in machine.drives] == ["NVME-1", "SATA-1"]
    assert len(machine.slots) == 2
    assert machine.system.reset
    assert "ForceRestart" in machine.system.reset.types
    assert (machine.pending is not None) == ("settings_elsewhere" in shape)
    assert bool(machine.other_systems) == ("second_system" in shape)
    assert machine.unread == ()


def test_expanding_saves_requests(make: Made) -> None:
    counts = []
    for expand in (True, False):
        simulated, bmc = make(nics=NICS, expand=expand)
        read(bmc)
        counts.append(simulated.state()["requests"]["GET"])
    assert counts[0] + 5 <= counts[1]


def test_declared_serial_decides_between_two_systems(make: Made) -> None:
    _simulated, bmc = make(twin="SN-TWIN")
    assert read(bmc, serial="SN-TWIN").system.name == "2"
    assert read(bmc, serial=f"sn-{bmc.node}").system.name == "1"
    for serial in ("", "SN-OTHER"):
        with pytest.raises(BmcError) as caught:
            read(bmc, serial=serial)
        assert caught.value.kind == errors.UNSUPPORTED


def test_wrong_serial_is_reported_as_it_is(make: Made) -> None:
    _simulated, bmc = make(faults={"serial": "SN-OTHER"})
    machine = read(bmc, serial=f"SN-{bmc.node}")
    assert machine.serial == "SN-OTHER"
    assert not machine.is_serial(f"SN-{bmc.node}")
    assert not machine.is_serial("")


def test_chassis_has_the_serial_that_the_system_lacks(make: Made) -> None:
    _simulated, bmc = make(faults={"serial": " "})
    machine = read(bmc)
    assert machine.serial == f"CH-{bmc.node}"
    assert machine.is_serial(f"CH-{bmc.node}")


@pytest.mark.parametrize("path", ["EthernetInterfaces", "Storage/1/Drives/1", "VirtualMedia", "Managers/1"])
@pytest.mark.parametrize("fault", ["broken", "missing"])
def test_optional_resource_that_fails_leaves_a_machine(make: Made, path: str, fault: str) -> None:
    _simulated, bmc = make(faults={fault: [path]})
    machine = read(bmc)
    assert machine.serial == f"SN-{bmc.node}"
    assert bool(machine.unread) == (fault == "broken")
    assert all(path in one for one, _why in machine.unread)


def test_system_that_fails_is_an_error(make: Made) -> None:
    _simulated, bmc = make(faults={"broken": ["Systems/1"]})
    with pytest.raises(BmcError) as caught:
        read(bmc)
    assert caught.value.status == 500


def test_only_what_is_needed_is_read(make: Made) -> None:
    simulated, bmc = make()
    machine = read(bmc, only=())
    assert simulated.state()["requests"]["GET"] == 3
    assert (machine.nics, machine.drives, machine.slots, machine.manager) == ((), (), (), None)


@pytest.mark.parametrize(
    ("dialect", "names"),
    [(Dialect(), ["0", "1", "2"]), (Dialect(media_slot="1"), ["1"]), (Dialect(media_slots="with_insert"), ["1", "2"])],
)
def test_slots_of_the_dialect(make: Made, dialect: Dialect, names: list[str]) -> None:
    _simulated, bmc = make(kvm_slot=True, kvm_without_action=True)
    assert [one.name for one in read(bmc, dialect=dialect).slots] == names


def test_a_stated_dialect_is_kept(make: Made) -> None:
    _simulated, bmc = make()
    stated = Dialect(cd_target="UsbCd", media_settle=5)
    assert read(bmc, dialect=stated).dialect == stated


def test_pages_of_a_collection(make: Made) -> None:
    macs = [f"02:00:00:00:01:{number:02x}" for number in range(12)]
    _simulated, bmc = make(nics=macs, page=5)
    assert [one.mac for one in read(bmc).nics] == macs
