# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare found machines with the record: each state, and what may be written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import bmc_findings, discovery, discovery_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_contact import Contact
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.discovery import Discovery
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.found_machine import serial_of, values_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.model import Profile
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.model.metal import ProfileMetal, SystemDisk
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import machine_record, record_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine as Recorded
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import (
    REFUSED,
    UNREACHABLE,
    WRONG_CERTIFICATE,
    BmcError,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine import (
    Drive,
    Machine,
    Manager,
    Nic,
    System,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.dialects import Dialect

PRINT = "ab" * 32


def machine(number: int, **more: Any) -> Machine:
    nics = (
        Nic("/n", "1", f"02:00:00:00:00:{number:02x}", has_link=True),
        Nic("/m", "2", "02:00:00:00:01:01", has_link=False),
    )
    drives = (Drive("/d", "d", f"DISK{number}", 960 * 10**9, "NVMe", "PM9A3"),)
    manager = Manager("/b", macs=(f"02:00:00:ff:00:{number:02x}",))
    known: dict[str, Any] = {"nics": nics, "drives": drives, "manager": manager}
    return Machine("x", System("/s", serial=f"SN{number}"), **{**known, **more})


def recorded(number: int, **changed: str) -> Recorded:
    known = {
        "serial": f"SN{number}",
        "bmc_mac": f"02:00:00:ff:00:{number:02x}",
        "boot_mac": f"02:00:00:00:00:{number:02x}",
    }
    return Recorded(**{**known, "disk_serial": f"DISK{number}", "bmc_fingerprint": PRINT, **changed})


def seen(node: str, found: Machine | BmcError | None, fingerprint: str = "") -> Contact[Machine]:
    is_error = isinstance(found, BmcError)
    return Contact(node, None if is_error else found, found if is_error else None, fingerprint)  # type: ignore[arg-type]


class Bench:
    """Machines 1 to 4 as gpu1 to gpu4."""

    def __init__(self, folder: Path, record: dict[str, Recorded], found: dict[str, Contact[Machine]]) -> None:
        self.file = folder / "c.bedplate.yml"
        self.path, self.record, self.found = folder / "c.machines.json", record, found
        self.names = list(found)
        self.targets = {
            name: Target(name, f"10.1.0.{number}", recorded=record.get(name, Recorded()))
            for number, name in enumerate(found, 1)
        }
        if record:
            self.path.write_text(machine_record.text_of(record, self.names))

    def run(self, *, records: bool = False) -> tuple[Discovery, str]:
        owners = discovery.owners(self.record, self.names)
        result = discovery.judge(self.targets, self.found, owners, records=records)
        values = discovery.found_values(result, self.targets)
        update = record_changes.update(self.file, self.names, values, write=records)
        discovery.with_differences(result, update, self.targets)
        return result, discovery_report.summary(result, update, self.targets, records=records, is_check=False)

    def written(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = json.loads(self.path.read_text())["machines"]
        return found


def bench(
    folder: Path, record: dict[int, Recorded], found: dict[int, Machine | BmcError | None], print_: str = ""
) -> Bench:
    contacts = {f"gpu{number}": seen(f"gpu{number}", one, print_) for number, one in found.items()}
    return Bench(folder, {f"gpu{number}": one for number, one in record.items()}, contacts)


def test_machines_as_on_record_are_found_and_nothing_is_written(tmp_path: Path) -> None:
    one = bench(tmp_path, {1: recorded(1), 2: recorded(2)}, {1: machine(1), 2: machine(2)})
    before = one.path.read_text()
    for records in (False, True):
        result, text = one.run(records=records)
        assert (result.counts(), result.findings) == ({"found": 2}, [])
        assert text == "2 BMCs: 2 found"
    assert one.path.read_text() == before


def test_a_new_machine_is_a_finding_until_it_is_recorded(tmp_path: Path) -> None:
    one = bench(tmp_path, {1: recorded(1)}, {1: machine(1), 2: machine(2)}, PRINT)
    result, text = one.run()
    assert result.states == {"gpu1": "found", "gpu2": "unknown"}
    assert "SN2, which is not on record" in text
    assert "gpu2" not in one.written()
    result, text = one.run(records=True)
    assert (result.counts(), result.findings) == ({"found": 2}, [])
    assert one.written()["gpu2"] == recorded(2).values
    assert f"  gpu2 {PRINT}" in text
    assert "1 serial, 1 bmc_mac, 1 boot_mac, 1 disk_serial, 1 bmc_fingerprint: recorded in c.machines.json" in text


def test_a_first_contact_without_a_login_is_unknown(tmp_path: Path) -> None:
    result, text = bench(tmp_path, {}, {1: None}, PRINT).run()
    assert result.states == {"gpu1": "unknown"}
    assert f"certificate SHA-256 {PRINT}" in text


def test_swapped_machines_are_named_and_nothing_of_them_is_recorded(tmp_path: Path) -> None:
    record = {1: recorded(1, disk_serial=""), 2: recorded(2, disk_serial=""), 3: recorded(3)}
    one = bench(tmp_path, record, {1: machine(2), 2: machine(1), 3: machine(3)})
    before = one.path.read_text()
    result, text = one.run(records=True)
    assert result.counts() == {"found": 1, "swapped": 2}
    assert (
        "expected SN1, found SN2, which is on record for gpu2 -> Exchange the cables or addresses of the BMCs" in text
    )
    assert "gpu1 (10.1.0.1) and gpu2 (10.1.0.2)" in text
    assert one.path.read_text() == before


def test_a_machine_of_another_node_at_an_address_without_a_record_is_swapped(tmp_path: Path) -> None:
    one = bench(
        tmp_path,
        {1: recorded(1)},
        {1: BmcError(UNREACHABLE, "gpu1", "no connection to 10.1.0.1 port 443", "Check."), 2: machine(1)},
    )
    result, _text = one.run(records=True)
    assert result.states == {"gpu1": "missing", "gpu2": "swapped"}
    assert "gpu2" not in one.written()


def test_one_machine_at_two_addresses_is_recorded_at_neither(tmp_path: Path) -> None:
    one = bench(tmp_path, {}, {1: machine(1), 2: machine(1), 3: machine(3)})
    result, text = one.run(records=True)
    assert result.states == {"gpu1": "swapped", "gpu2": "swapped", "gpu3": "found"}
    assert "SN1, which also answers at the address of gpu2" in text
    assert list(one.written()) == ["gpu3"]


@pytest.mark.parametrize(
    ("key", "on_record", "shown"),
    [
        ("serial", "SN9", "expected SN9, found SN1"),
        ("bmc_mac", "02:00:00:ff:00:99", "expected 02:00:00:ff:00:99, found 02:00:00:ff:00:01"),
        ("boot_mac", "02:00:00:00:00:99", "found 02:00:00:00:00:01, 02:00:00:00:01:01"),
        ("disk_serial", "OLD", "expected OLD, found DISK1"),
    ],
)
def test_a_value_that_differs_is_a_finding_and_never_overwritten(
    key: str, on_record: str, shown: str, tmp_path: Path
) -> None:
    one = bench(tmp_path, {1: recorded(1, **{key: on_record})}, {1: machine(1)})
    before = one.path.read_text()
    result, text = one.run(records=True)
    assert result.states == {"gpu1": "different"}
    assert [row.kind for row in result.findings] == ["bmc-different"]
    assert f"BMC 10.1.0.1 {key}" in text
    assert shown in text
    assert one.path.read_text() == before


def test_failed_contacts_by_kind(tmp_path: Path) -> None:
    found: dict[int, Machine | BmcError | None] = {
        1: BmcError(UNREACHABLE, "gpu1", "no connection to 10.1.0.1 port 443: No route to host", "Check the cable."),
        2: BmcError(UNREACHABLE, "gpu2", "no connection to 10.1.0.2 port 443: No route to host", "Check the cable."),
        3: BmcError(
            REFUSED, "gpu3", "the BMC refuses the account", "Check the secret.", path="/redfish/v1/Systems", status=401
        ),
        4: BmcError(
            WRONG_CERTIFICATE, "gpu4", "its certificate is not the trusted one", "x", expected=PRINT, found="cd" * 32
        ),
    }
    result, text = bench(tmp_path, {4: recorded(4)}, found).run()
    assert result.states == {"gpu1": "missing", "gpu2": "missing", "gpu3": "unread", "gpu4": "different"}
    assert "gpu[1-2]" in text
    assert text.count("No route to host") == 1
    assert "HTTP 401" in text
    assert "bmc_fingerprint" in text


def test_a_machine_without_a_serial_number_cannot_be_identified(tmp_path: Path) -> None:
    nameless = Machine("x", System("/s", serial="To Be Filled By O.E.M."))
    result, _text = bench(tmp_path, {}, {1: nameless}).run(records=True)
    assert result.states == {"gpu1": "unread"}
    assert not (tmp_path / "c.machines.json").exists()


def test_dell_shows_the_serial_number_of_dmi_as_sku() -> None:
    dell = Machine("x", System("/s", serial="CN123", sku="7J0X4B3"), dialect=Dialect(serial_from="SKU"))
    assert serial_of(dell) == "7J0X4B3"
    target = Target("gpu1", "10.1.0.1", recorded=Recorded(serial="CN123"))
    assert values_of(target, dell) == {"serial": "CN123"}


def test_values_without_one_candidate_are_left_out() -> None:
    nics = tuple(Nic(f"/{at}", str(at), f"02:00:00:00:00:0{at}", has_link=True) for at in (1, 2))
    drives = tuple(Drive(f"/{at}", "d", f"D{at}", size * 10**9, "NVMe", "PM9A3") for at, size in ((1, 960), (2, 3840)))
    many = machine(1, nics=nics, drives=drives, manager=Manager("/b", macs=("02:00:00:ff:00:01", "02:00:00:ff:00:02")))
    assert values_of(Target("gpu1", "10.1.0.1"), many) == {"serial": "SN1"}
    profile = Profile(
        "p", None, 1, 1, 1, 1, 1, {}, (), (), (), metal=ProfileMetal(system_disk=SystemDisk(((900, 1000),), "nvme"))
    )
    assert values_of(Target("gpu1", "10.1.0.1", profile=profile), many) == {"serial": "SN1", "disk_serial": "D1"}


def test_a_bmc_with_ipmi_alone_is_counted_and_not_read(tmp_path: Path) -> None:
    one = bench(tmp_path, {}, {1: machine(1)})
    one.targets["gpu2"] = Target("gpu2", "10.1.0.2", "ipmi")
    result, text = one.run(records=True)
    assert result.states["gpu2"] == "not read"
    assert text.startswith("2 BMCs: 1 found, 1 not read")


def test_output_does_not_grow_beyond_the_findings(tmp_path: Path) -> None:
    numbers = range(1, 201)
    record = {number: recorded(number) for number in numbers}
    found: dict[int, Machine | BmcError | None] = {number: machine(number) for number in numbers}
    found[7] = BmcError(UNREACHABLE, "gpu7", "no connection to 10.1.0.7 port 443: timed out", "Check.")
    _result, text = bench(tmp_path, record, found).run()
    assert len(text.splitlines()) == 2
    others: dict[int, Machine | BmcError | None] = {
        number: machine(number, drives=(Drive("/d", "d", f"X{number}"),)) for number in numbers
    }
    _result, text = bench(tmp_path, record, others).run()
    assert len(text.splitlines()) == 62
    assert text.endswith("... and 140 more rows, all in the report")


def test_the_report_has_all_machines_and_findings_as_json_and_junit(tmp_path: Path) -> None:
    one = bench(tmp_path, {1: recorded(1, disk_serial="OLD")}, {1: machine(1), 2: machine(2)})
    result, _text = one.run()
    data = discovery_report.data_of("c", result, one.targets)
    texts = bmc_findings.documents("bmc c", bmc_findings.KINDS, result.findings, data)
    read = json.loads(texts["json"])
    assert read["counts"] == {"unknown": 1, "different": 1}
    assert read["machines"]["gpu1"]["serial"] == "SN1"
    assert [row["machine"] for row in read["findings"]] == ["gpu2", "gpu1"]
    suite = ElementTree.fromstring(texts["xml"])
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("bmc c", "5", "2")
    names = [case.get("name") or "" for case in suite]
    assert any(name.startswith("gpu1: BMC 10.1.0.1 disk_serial") for name in names)


def test_a_resource_that_a_bmc_fails_to_show_is_a_warning(tmp_path: Path) -> None:
    broken = machine(1, drives=(), unread=(("/redfish/v1/Systems/1/Storage", "other: the request failed"),))
    result, text = bench(tmp_path, {1: recorded(1)}, {1: broken}).run()
    assert result.states == {"gpu1": "found"}
    assert [one.severity for one in result.findings] == ["warning"]
    assert "WARNING  unread  gpu1  BMC 10.1.0.1 /redfish/v1/Systems/1/Storage  other: the request failed" in text
