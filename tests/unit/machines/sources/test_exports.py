"""Exports of other systems: what each knows of a machine, and what a wrong one is refused with."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.chosen_source import rows_of, source_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.machine_row import (
    MachineRow,
    SourceError,
)
from tests.kit import sentences

EXPORTS = Path(__file__).parent / "exports"
SENTENCES = Path(__file__).parents[1] / "sentences.txt"


def read(kind: str, *names: str, **options: str) -> list[MachineRow]:
    paths = ",".join(str(EXPORTS / name) for name in names)
    return rows_of(source_of(f"{kind}:{paths}", **options), lambda *_machine: True)


def of_text(folder: Path, kind: str, text: str, suffix: str = "") -> list[MachineRow]:
    path = folder / f"export{suffix or '.' + kind}"
    path.write_text(text, encoding="utf-8")
    return rows_of(source_of(f"{kind}:{path}"), lambda *_machine: True)


def by_name(rows: list[MachineRow]) -> dict[str, dict[str, str]]:
    return {row.name: dict(row.values) for row in rows}


def refused(folder: Path, case: str, kind: str, text: str, suffix: str = "") -> list[str]:
    with pytest.raises(SourceError) as error:
        of_text(folder, kind, text, suffix)
    lines = [mistake.replace(f"{folder}/", "") for mistake in error.value.mistakes]
    sentences.check(SENTENCES, f"{kind}: {case}", lines)
    return lines


GPU001 = {"serial": "S462117X3B01", "bmc_mac": "3C:EC:EF:00:01:01", "boot_mac": "3C:EC:EF:00:01:02"}


@pytest.mark.parametrize(
    "names", [("netbox-devices.json", "netbox-interfaces.json"), ("netbox-interfaces.json", "netbox-devices.json")]
)
def test_netbox(names):
    found = by_name(read("netbox", *names))
    assert found["gpu001"] == GPU001
    assert found["GPU002.lab.internal"] == {
        "serial": "S462117X3B02", "bmc_mac": "3C:EC:EF:00:02:01", "boot_mac": "3C:EC:EF:00:02:02",
    }  # fmt: skip
    assert found["sw01"] == {"serial": "MT2245X00001"}


def test_netbox_as_csv():
    rows = read("netbox", "netbox-devices.csv", "netbox-interfaces.csv")
    assert by_name(rows)["gpu001"] == GPU001
    assert rows[0].where == "netbox-devices.csv:2"


def test_netbox_devices_alone():
    assert by_name(read("netbox", "netbox-devices.json"))["gpu001"] == {"serial": "S462117X3B01"}


def test_the_boot_nic_of_netbox_is_the_named_one():
    names = ("netbox-devices.json", "netbox-interfaces.json")
    assert by_name(read("netbox", *names, boot_interface="ENP*, eno2"))["gpu001"]["boot_mac"] == "3C:EC:EF:00:01:03"


def test_a_boot_nic_that_could_be_several_is_a_note(tmp_path):
    text = (EXPORTS / "netbox-interfaces.json").read_text().replace('[{"slug": "pxe"}]', "[]")
    (tmp_path / "interfaces.json").write_text(text)
    row, *_others = rows_of(
        source_of(f"netbox:{EXPORTS / 'netbox-devices.json'},{tmp_path / 'interfaces.json'}"), lambda *_one: True
    )
    assert "boot_mac" not in row.values
    assert "eno1, eno2" in row.notes["boot_mac"]


def test_maas():
    rows = read("maas", "maas-machines.json")
    found = by_name(rows)
    assert found["gpu001"] == {
        "serial": "S462117X3B01",
        "boot_mac": "3c:ec:ef:00:01:02",
        "disk_serial": "S64GNE0R507836",
    }
    # It was not commissioned; Unknown is a placeholder, which is no value of the record.
    assert found["gpu002"] == {"serial": "Unknown"}
    assert "2 NICs" in rows[1].notes["boot_mac"]
    assert rows[0].where == "maas-machines.json d8n3re"


def test_warewulf():
    rows = read("warewulf", "warewulf-nodes.conf")
    assert by_name(rows)["gpu001"] == {"boot_mac": "10:11:12:13:14:15", "serial": "S462117X3B01"}
    assert dict(rows[1].values) == {}
    assert "2 network devices" in rows[1].notes["boot_mac"]
    assert "hw-secret" not in repr(rows)
    assert by_name(read("warewulf", "warewulf-export.yaml")) == {"gpu001": {"boot_mac": "3c:ec:ef:00:01:02"}}


def test_ironic():
    rows = read("ironic", "ironic-nodes.json", "ironic-ports.json")
    found = by_name(rows)
    assert found["gpu001"] == {
        "serial": "S462117X3B01",
        "boot_mac": "3c:ec:ef:00:01:02",
        "disk_serial": "S64GNE0R507836",
    }
    assert found["gpu002"] == {}
    assert "2 ports" in rows[1].notes["boot_mac"]


def test_ironic_with_an_inventory():
    found = by_name(read("ironic", "ironic-nodes.json", "ironic-ports.json", "gpu002.json"))["gpu002"]
    assert found == {
        "serial": "S462117X3B02", "bmc_mac": "3c:ec:ef:00:02:01", "boot_mac": "3c:ec:ef:00:02:03", "disk_serial": "S64GNE0R507837",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "BMC MAC;Service Tag;Hostname\n3C:EC:EF:00:01:01;S1;gpu001\n",
        "\ufeffhostname,bmc_mac,SERIAL-NUMBER,rack\n# a comment\n\ngpu001,3C:EC:EF:00:01:01,S1,a01\n",
        'Node\tsn\tidrac mac\n"gpu001"\tS1\t3C:EC:EF:00:01:01\n',
    ],
)
def test_csv_in_any_order_and_with_other_names(tmp_path, text):
    (row,) = of_text(tmp_path, "csv", text)
    assert (row.name, dict(row.values)) == ("gpu001", {"serial": "S1", "bmc_mac": "3C:EC:EF:00:01:01"})
    assert row.where == f"export.csv:{len(text.splitlines())}"


def test_a_short_row_lacks_its_last_values(tmp_path):
    (row,) = of_text(tmp_path, "csv", "name,serial,boot_mac\ngpu001,S1\n")
    assert dict(row.values) == {"serial": "S1"}


CSV = {
    "no columns that are known": "rack,slot\na,1\n",
    "one key twice": "name,hostname,serial\na,b,c\n",
    "too many cells": "name,serial\na,b,c\nd,e\nf,g,h\n",
    "a quote without an end": 'name,serial\n"a,b\n',
    "nothing": "\n",
}


@pytest.mark.parametrize("case", CSV)
def test_a_wrong_csv_file(tmp_path, case):
    lines = refused(tmp_path, case, "csv", CSV[case])
    assert all(line.startswith("export.csv") for line in lines)
    assert len(lines) == (2 if case == "too many cells" else 1)


@pytest.mark.parametrize("kind", ["netbox", "maas", "ironic"])
@pytest.mark.parametrize(
    ("case", "text"),
    [("no JSON", '{"a":\n}'), ("another object", '{"detail": "x"}'), ("another list", "[{}]"), ("deep", "[" * 100_000)],
)
def test_a_wrong_json_file(tmp_path, kind, case, text):
    assert refused(tmp_path, case, kind, text, ".json")[0].startswith("export.json")


@pytest.mark.parametrize(("case", "text"), [("no YAML", "a: [\n"), ("a list", "- a\n"), ("text", "gpu001: x\n")])
def test_a_wrong_file_of_warewulf(tmp_path, case, text):
    assert refused(tmp_path, case, "warewulf", text, ".conf")[0].startswith("export.conf")


def test_ports_without_nodes(tmp_path):
    text = (EXPORTS / "ironic-ports.json").read_text()
    assert refused(tmp_path, "ports alone", "ironic", text, ".json") == [
        "export.json: no nodes. Name the export of the nodes, too."
    ]


def test_files_that_cannot_be_read_are_named_at_once(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"name\n\xff\n")
    with pytest.raises(SourceError) as error:
        rows_of(source_of(f"csv:{tmp_path / 'a.csv'},{tmp_path / 'b.csv'}"), lambda *_machine: True)
    assert [one.partition(": ")[0] for one in error.value.mistakes] == [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv:2"]
    assert "a relative path begins in the folder of the command" in error.value.mistakes[0]


CHOICES = {
    "nothing": ("", {}),
    "no kind": ("machines.csv", {}),
    "another kind": ("netbx:a.json", {}),
    "no path": ("csv:", {}),
    "a token for a file": ("maas:a.json", {"token_file": "t", "ca": "c"}),
    "a server of CSV": ("csv:https://example.org/", {"token_file": "t"}),
    "no token": ("netbox:https://example.org/", {}),
    "no TLS": ("netbox:http://example.org/", {"token_file": "t"}),
    "a password": ("maas:https://user:s3cret@example.org/", {"token_file": "t"}),
    "a query": ("maas:https://example.org/?site=a", {"token_file": "t"}),
    "a boot NIC": ("csv:a.csv", {"boot_interface": "eno1"}),
}


@pytest.mark.parametrize("case", CHOICES)
def test_wrong_variables(case):
    text, options = CHOICES[case]
    with pytest.raises(SourceError) as error:
        source_of(text, **options)
    assert "s3cret" not in str(error.value)
    sentences.check(SENTENCES, f"import_from: {case}", error.value.mistakes)
