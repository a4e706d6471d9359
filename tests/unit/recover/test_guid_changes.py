# SPDX-License-Identifier: GPL-3.0-or-later
"""GUIDs of a new machine: what differs from the record is proposed, and accepted lines alone are written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import guid_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.guid_changes import GuidChange, changes
from tests.unit.recover.held import waits_for

FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {{management: {{cidr: 10.0.0.0/24, start: 10.0.0.11}}}}
profiles:
  gpu:
    sockets: 2
    cores_per_socket: 2
    memory_mib: 4096
    nics: [{nics}]
  cpu: {{sockets: 1, cores_per_socket: 2, memory_mib: 4096}}
racks:
  r1: {{nodes: "gpu[1-2]", profile: gpu}}
  r2: {{nodes: cpu1, profile: cpu}}
hosts: {{ctl1: {{address: 10.0.0.10}}}}
services: {{controllers: [ctl1]}}
partitions: {{all: {{nodes: all}}}}
fabric: {{spines: spine, technology: {technology}}}
"""
BY_NAME = "{name: mlx5_0, rail: 0}, {name: mlx5_1, rail: 1}"
BY_PCI = '{name: mlx5_0, rail: 0, pci: "0000:3b:00.0"}, {name: mlx5_1, rail: 1, pci: "0000:5e:00.0"}'


def guid(number: int) -> str:
    return f"{number:016x}"


RECORD: guid_record.Record = {
    "gpu1 mlx5_0": {"node": guid(0x10), "port": guid(0x11)},
    "gpu1 mlx5_1": {"node": guid(0x20)},
    "gpu2 mlx5_0": {"node": guid(0x30), "port": guid(0x31)},
    "spine01": {"node": guid(0x90)},
}


def hca(name: str, node: int, port: int = 0, pci: str = "") -> dict[str, Any]:
    return {"name": name, "pci": pci, "node": guid(node), "port": guid(port) if port else ""}


def cluster(folder: Path, nics: str = BY_NAME, technology: str = "infiniband"):
    path = folder / "c.bedplate.yml"
    path.write_text(FILE.format(nics=nics, technology=technology))
    return load(path)


def found(folder: Path, *hcas: dict[str, Any], nics: str = BY_NAME) -> list[GuidChange]:
    return changes(cluster(folder, nics), "gpu1", RECORD, hcas)


def test_recorded_guids_are_no_change(tmp_path: Path):
    assert not found(tmp_path, hca("mlx5_0", 0x10, 0x11), hca("mlx5_1", 0x20, 0x21))
    # The kernel counts as it finds; the role renames.
    assert not found(tmp_path, hca("mlx5_1", 0x10, 0x11), hca("mlx5_0", 0x20))


def test_a_new_adapter_is_found_by_its_name(tmp_path: Path):
    (one,) = found(tmp_path, hca("mlx5_0", 0x50, 0x51), hca("mlx5_1", 0x20))
    assert (one.name, one.new) == ("gpu1 mlx5_0", {"node": guid(0x50), "port": guid(0x51)})
    assert one.text == (
        "gpu1 mlx5_0: node GUID 0x0000000000000010 -> 0x0000000000000050; "
        "gpu1 mlx5_0: port GUID 0x0000000000000011 -> 0x0000000000000051"
    )


def test_an_adapter_whose_name_went_to_a_known_one_is_not_taken_for_it(tmp_path: Path):
    # The old adapter of mlx5_1 has the name mlx5_0 until the role has run; the new one is not named.
    assert not found(tmp_path, hca("mlx5_0", 0x20), hca("mlx5_7", 0x50))


def test_with_a_pci_address_the_place_decides(tmp_path: Path):
    new = found(tmp_path, hca("x", 0x50, 0, "0000:3b:00.0"), hca("y", 0x60, 0, "0000:5e:00.0"), nics=BY_PCI)
    assert {one.name: one.new["node"] for one in new} == {"gpu1 mlx5_0": guid(0x50), "gpu1 mlx5_1": guid(0x60)}


def test_a_machine_without_drivers_has_no_change(tmp_path: Path):
    assert not found(tmp_path)


@pytest.mark.parametrize(
    ("host", "technology", "expected"),
    [
        ("gpu1", "infiniband", True),
        ("gpu1", "ethernet", False),
        ("cpu1", "infiniband", False),
        ("ctl1", "infiniband", False),
    ],
)
def test_only_nodes_of_an_infiniband_fabric_have_recorded_guids(
    tmp_path: Path, host: str, technology: str, expected: bool
):
    found = guid_changes.recorded_fabrics(cluster(tmp_path, technology=technology), host)
    assert [path.name for path in found] == ["c.guids.json"] * expected


def test_accepted_guids_are_written_and_other_lines_stay(tmp_path: Path):
    path = tmp_path / "c.guids.json"
    path.write_text(guid_record.text_of(RECORD))
    before = path.read_text().splitlines()
    guid_changes.accept(path, found(tmp_path, hca("mlx5_0", 0x50, 0x51), hca("mlx5_1", 0x20)))
    after = path.read_text().splitlines()
    assert [line for line in before if line not in after] == [line for line in before if "gpu1 mlx5_0" in line]
    assert guid_record.read(path)["gpu1 mlx5_0"] == {"node": guid(0x50), "port": guid(0x51)}
    assert not changes(cluster(tmp_path), "gpu1", guid_record.read(path), [hca("mlx5_0", 0x50, 0x51)])


def test_nodes_of_a_run_are_accepted_one_after_the_other(tmp_path: Path):
    """Each writes the whole record: the later one would remove what the other has accepted."""
    path = tmp_path / "c.guids.json"
    path.write_text(guid_record.text_of(RECORD))
    new = found(tmp_path, hca("mlx5_0", 0x50, 0x51), hca("mlx5_1", 0x20))
    assert waits_for(tmp_path, lambda: guid_changes.accept(path, new), lambda: guid(0x50) in path.read_text())


def test_the_adapter_of_another_machine_is_refused_and_nothing_is_written(tmp_path: Path):
    path = tmp_path / "c.guids.json"
    path.write_text(text := guid_record.text_of(RECORD))
    with pytest.raises(guid_record.RecordError, match="on record for gpu2 mlx5_0"):
        guid_changes.accept(path, found(tmp_path, hca("mlx5_0", 0x30, 0x31)))
    assert path.read_text() == text


def test_a_proposal_names_file_and_variable(tmp_path: Path):
    text = guid_changes.proposal(tmp_path / "c.guids.json", found(tmp_path, hca("mlx5_0", 0x50)))
    assert ("c.guids.json" in text, "-e recover_guids=accept" in text) == (True, True)


def test_each_fabric_has_its_own_changes(tmp_path: Path):
    text = FILE.format(nics=f"{BY_NAME}, {{name: mlx5_2, fabric: storage}}", technology="infiniband")
    several = "fabrics: {compute: {spines: spine}, storage: {spines: core}}"
    path = tmp_path / "c.bedplate.yml"
    path.write_text(text.replace("fabric: {spines: spine, technology: infiniband}", several))
    (tmp_path / "c.guids.json").write_text(guid_record.text_of(RECORD))
    storage = tmp_path / "c.storage.guids.json"
    storage.write_text(guid_record.text_of({"gpu1 mlx5_2": {"node": guid(0x70)}}))
    fabrics = guid_changes.recorded_fabrics(load(path), "gpu1")
    assert [one.name for one in fabrics] == ["c.guids.json", "c.storage.guids.json"]
    new = guid_changes.all_changes(fabrics, "gpu1", [hca("mlx5_0", 0x10), hca("mlx5_1", 0x20), hca("mlx5_2", 0x77)])
    assert {where: [one.name for one in listed] for where, listed in new.items()} == {storage: ["gpu1 mlx5_2"]}
    # The card of storage has another one's name until it is renamed.
    assert guid_changes.all_changes(fabrics, "gpu1", [hca("mlx5_0", 0x70), hca("mlx5_1", 0x20)]) == {}
    before = (tmp_path / "c.guids.json").read_text()
    guid_changes.accept(storage, new[storage])
    assert guid_record.read(storage) == {"gpu1 mlx5_2": {"node": guid(0x77)}}
    assert (tmp_path / "c.guids.json").read_text() == before
