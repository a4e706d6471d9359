"""The record of machines: every mistake at its line, and one line for each machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import (
    Machine,
    RecordError,
    path_of,
    read,
    stamp,
    text_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_values import is_right, normal
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"
NAMES = ["ctl1", "gpu002", "gpu001"]
ONE = {
    "serial": "S462117X3B01",
    "bmc_mac": "3c:ec:ef:12:34:56",
    "boot_mac": "3c:ec:ef:12:34:58",
    "disk_serial": "S64GNE0R507836",
    "bmc_fingerprint": "ab" * 32,
}


def document(*lines: str) -> str:
    return (
        '{\n "format": 1,\n "about": "x",\n "machines": {\n' + ",\n".join(f"  {line}" for line in lines) + "\n }\n}\n"
    )


def site(folder: Path, text: str) -> Path:
    (folder / "pod.machines.json").write_text(text)
    return folder / "pod.bedplate.yml"


# A record, and the line and the start of each mistake.
WRONG = {
    "a MAC in capitals": (document('"gpu001": {"bmc_mac": "3C:EC:EF:12:34:56"}'), [(5, "gpu001: bmc_mac:")]),
    "a MAC of a group": (document('"gpu001": {"boot_mac": "01:00:5e:00:00:01"}'), [(5, "gpu001: boot_mac:")]),
    "a MAC of zeros": (document('"gpu001": {"boot_mac": "00:00:00:00:00:00"}'), [(5, "gpu001: boot_mac:")]),
    "a MAC that is a number": (document('"gpu001": {"boot_mac": 5}'), [(5, "gpu001: boot_mac:")]),
    "a serial number with blanks": (document('"gpu001": {"serial": "A B"}'), [(5, "gpu001: serial:")]),
    "a placeholder": (document('"gpu001": {"serial": "0123456789"}'), [(5, "gpu001: serial:")]),
    "an empty value": (document('"gpu001": {"disk_serial": ""}'), [(5, "gpu001: disk_serial:")]),
    "a short fingerprint": (document('"gpu001": {"bmc_fingerprint": "abcd"}'), [(5, "gpu001: bmc_fingerprint:")]),
    "an unknown key": (document('"gpu001": {"seriall": "A1"}'), [(5, "gpu001: key 'seriall'")]),
    "a machine that the cluster file lacks": (document('"gpu001": {}', '"gpu003": {}'), [(6, "gpu003: not in")]),
    "a machine twice": (document('"gpu001": {}', '"ctl1": {}', '"gpu001": {}'), [(7, "gpu001: is a duplicate")]),
    "a key twice": (document('"gpu001": {"serial": "A1", "serial": "A2"}'), [(5, "gpu001: serial is a duplicate")]),
    "text for a machine": (document('"gpu001": "A1"'), [(5, "gpu001: not an object")]),
    "the serial number of another": (
        document('"gpu002": {"serial": "A1"}', '"gpu001": {"serial": "a1"}'),
        [(6, "gpu001: serial: a1 is serial of gpu002")],
    ),
    "the MAC of another": (
        document('"gpu002": {"bmc_mac": "3c:ec:ef:12:34:56"}', '"gpu001": {"boot_mac": "3c:ec:ef:12:34:56"}'),
        [(6, "gpu001: boot_mac: 3c:ec:ef:12:34:56 is bmc_mac of gpu002")],
    ),
    "one MAC for BMC and NIC": (
        document('"gpu001": {"bmc_mac": "3c:ec:ef:12:34:56",\n   "boot_mac": "3c:ec:ef:12:34:56"}'),
        [(6, "gpu001: boot_mac:")],
    ),
    "the disk of another": (
        document('"gpu002": {"disk_serial": "D1"}', '"gpu001": {"disk_serial": "D1"}'),
        [(6, "gpu001: disk_serial: D1")],
    ),
    "several at once": (
        document('"gpu009": {"serial": "A B"}', '"gpu001": {"boot_mac": "x"}'),
        [(5, "gpu009: not in"), (5, "gpu009: serial:"), (6, "gpu001: boot_mac:")],
    ),
    "another format": ('{\n "format": 2}', [(2, "format: 2")]),
    "an unknown key of the file": ('{"format": 1, "machines": {},\n "nodes": {}}', [(2, "nodes: is unknown")]),
    "no machines": ('{"format": 1}', [(1, "machines: not an object")]),
    "a list": ("[]", [(1, "is not an object")]),
    "no JSON": ('{\n "format": 1,,\n}', [(2, "is not JSON")]),
    "a merge conflict": (
        document("<<<<<<< HEAD", '"gpu001": {}').replace("  <<<", "<<<") + "=======\n>>>>>>> metal\n",
        [(5, "is a marker"), (9, "is a marker"), (10, "is a marker")],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_every_mistake_has_its_line(name: str, tmp_path: Path):
    text, expected = WRONG[name]
    with pytest.raises(RecordError) as error:
        read(site(tmp_path, text), NAMES)
    found = [mistake.removeprefix(f"{tmp_path}/pod.machines.json:") for mistake in error.value.mistakes]
    assert len(found) == len(expected)
    for mistake, (line, start) in zip(found, expected, strict=True):
        assert mistake.startswith(f"{line}: {start}")
    sentences.check(SENTENCES, name, [one.partition(": ")[2] for one in found])


def test_one_fingerprint_on_two_machines_is_no_mistake_since_factories_do_so(tmp_path: Path):
    values = json.dumps({"bmc_fingerprint": ONE["bmc_fingerprint"]})
    assert len(read(site(tmp_path, document(f'"gpu002": {values}', f'"gpu001": {values}')), NAMES)) == 2


def test_a_file_is_a_line_for_each_machine_in_the_order_of_the_cluster_file(tmp_path: Path):
    text = text_of({"gpu001": Machine(serial="A1"), "gpu002": Machine(**ONE), "ctl1": Machine()}, NAMES)
    lines = text.splitlines()
    assert [line.split(":")[0].strip() for line in lines[4:6]] == ['"gpu002"', '"gpu001"']
    assert list(json.loads(text)["machines"]["gpu002"]) == list(ONE)
    file = site(tmp_path, text)
    assert read(file, NAMES) == {"gpu002": Machine(**ONE), "gpu001": Machine(serial="A1")}
    assert text_of(read(file, NAMES), NAMES) == text


def test_no_file_and_no_cluster_file_are_an_empty_record(tmp_path: Path):
    assert read(tmp_path / "pod.bedplate.yml", NAMES) == {}
    assert read(tmp_path / "hosts.ini", NAMES) == {}
    assert path_of("/site/pod.bedplate.yaml") == Path("/site/pod.machines.json")
    assert read(site(tmp_path, text_of({}, NAMES)), NAMES) == {}


@pytest.mark.parametrize(
    "content", [b'{"format": "\xff"}', b"[" * 200_000, b"", b"\n"], ids=["bytes", "brackets", "empty", "blank"]
)
def test_a_record_that_cannot_be_read_is_not_an_empty_one(content: bytes, tmp_path: Path):
    (tmp_path / "pod.machines.json").write_bytes(content)
    with pytest.raises(RecordError, match=r"pod\.machines\.json:"):
        read(tmp_path / "pod.bedplate.yml", NAMES)


def test_the_stamp_follows_the_file(tmp_path: Path):
    file = tmp_path / "pod.bedplate.yml"
    before = stamp(file)
    site(tmp_path, text_of({}, NAMES))
    assert stamp(file) != before


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("bmc_mac", "3C-EC-EF-12-34-56", "3c:ec:ef:12:34:56"),
        ("bmc_mac", "3cec.ef12.3456", "3c:ec:ef:12:34:56"),
        ("bmc_mac", "3CECEF123456", "3c:ec:ef:12:34:56"),
        ("boot_mac", "3c:ec:ef:1:4:6", "3c:ec:ef:01:04:06"),
        ("boot_mac", "00:00:00:00:00:00", ""),
        ("boot_mac", "N/A", ""),
        ("serial", " S462117X3B01 ", "S462117X3B01"),
        ("serial", "To be  filled by O.E.M.", ""),
        ("disk_serial", "0000", ""),
        ("bmc_fingerprint", "SHA256:" + ":".join(["AB"] * 32), "ab" * 32),
    ],
)
def test_the_forms_of_other_systems(key: str, written: str, value: str):
    assert normal(key, written) == value
    assert is_right(key, value) is bool(value)


@pytest.mark.parametrize("mac", ["80:00:02:08:fe:80:00:00", "3c:ec:ef:12:34", "3c:ec:ef:12:34:5g", "ff:ff:ff:ff:ff:ff"])
def test_what_is_not_the_mac_of_one_adapter_stays_wrong(mac: str):
    assert not is_right("boot_mac", normal("boot_mac", mac))


def test_ten_thousand_machines_are_read_in_a_second(tmp_path: Path):
    names = [f"gpu{number:05d}" for number in range(10_000)]
    record = {
        name: Machine(serial=f"S{number}", bmc_mac=f"3c:ec:ef:00:{number // 256:02x}:{number % 256:02x}")
        for number, name in enumerate(names)
    }
    assert len(read(site(tmp_path, text_of(record, names)), names)) == 10_000
