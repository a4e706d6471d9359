"""What is new is written, what differs is a finding; nothing is overwritten without a person's word for the node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import record_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import (
    Machine,
    RecordError,
    read,
    text_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.record_changes import (
    FoundValue,
    compare,
    update,
)

NAMES = ["gpu001", "gpu002", "gpu003"]
RECORD = {"gpu001": Machine(serial="A1", boot_mac="3c:ec:ef:00:00:01"), "gpu002": Machine(serial="A2")}


def value(node: str, key: str, text: str) -> FoundValue:
    return FoundValue(node, key, text, "x.csv:2")


def states(*found: FoundValue, replaced=()):
    return [row.state for row in compare(RECORD, found, replaced).rows]


def test_each_state():
    found = [value("gpu001", "serial", "A1"), value("gpu002", "serial", "B2"), value("gpu003", "serial", "A3")]
    comparison = compare(RECORD, found)
    assert [row.state for row in comparison.rows] == ["same", "differs", "new"]
    assert comparison.record == {**RECORD, "gpu003": Machine(serial="A3")}
    (finding,) = comparison.findings("name {node}")
    assert (finding.kind, finding.machine, finding.where) == ("machine-differs", "gpu002", "serial")
    assert (finding.expected, finding.found, finding.remedy) == ("A2", "B2 (x.csv:2)", "name gpu002")


@pytest.mark.parametrize("text", ["A1", "a1"])
def test_a_value_of_another_machine_is_taken(text):
    comparison = compare(RECORD, [value("gpu003", "serial", text)])
    assert [(row.state, row.owner) for row in comparison.rows] == [("taken", "gpu001 (serial)")]
    assert comparison.record == RECORD
    assert comparison.findings("")[0].kind == "machine-taken"


def test_the_mac_of_a_boot_nic_is_not_that_of_a_bmc():
    assert states(value("gpu002", "bmc_mac", "3c:ec:ef:00:00:01")) == ["taken"]


def test_two_machines_with_one_new_value_are_both_refused():
    assert states(value("gpu002", "disk_serial", "D1"), value("gpu003", "disk_serial", "D1")) == ["taken", "taken"]


def test_a_person_replaces_the_values_of_one_machine():
    found = [value("gpu001", "serial", "B1"), value("gpu002", "serial", "B2")]
    comparison = compare(RECORD, found, ["gpu002"])
    assert [row.state for row in comparison.rows] == ["differs", "replaced"]
    assert comparison.record["gpu001"].serial == "A1"
    assert comparison.record["gpu002"].serial == "B2"


def test_swapped_machines_need_a_word_for_both():
    found = [value("gpu001", "serial", "A2"), value("gpu002", "serial", "A1")]
    assert states(*found) == ["differs", "differs"]
    assert states(*found, replaced=["gpu001"]) == ["taken", "differs"]
    assert states(*found, replaced=["gpu001", "gpu002"]) == ["replaced", "replaced"]


def test_a_refused_value_keeps_the_recorded_one_from_others():
    # gpu002 may not have B1, so it keeps A2, which gpu003 may not have then.
    record = {**RECORD, "gpu001": Machine(serial="B1")}
    found = [value("gpu002", "serial", "B1"), value("gpu003", "serial", "A2")]
    assert [row.state for row in compare(record, found, ["gpu002"]).rows] == ["taken", "taken"]


def test_of_a_machine_that_differs_nothing_is_written_since_its_other_values_may_be_anothers():
    found = [
        value("gpu002", "serial", "B2"),
        value("gpu002", "disk_serial", "D2"),
        value("gpu003", "disk_serial", "D3"),
    ]
    comparison = compare(RECORD, found)
    assert [row.state for row in comparison.rows] == ["differs", "held", "new"]
    assert comparison.record == {**RECORD, "gpu003": Machine(disk_serial="D3")}
    assert len(comparison.refused) == 1
    assert states(*found, replaced=["gpu002"]) == ["replaced", "new", "new"]


def test_a_held_value_is_free_for_no_other():
    # gpu001 differs, so it does not get D1; the source is wrong about one of the two, and a person decides.
    found = [
        value("gpu001", "serial", "B1"),
        value("gpu001", "disk_serial", "D1"),
        value("gpu003", "disk_serial", "D1"),
    ]
    assert states(*found) == ["differs", "taken", "taken"]


def test_one_fingerprint_may_be_that_of_many():
    assert states(*(value(node, "bmc_fingerprint", "ab" * 32) for node in NAMES)) == ["new"] * 3


def test_a_file_is_written_once_and_predicted_before(tmp_path: Path):
    file, path = tmp_path / "pod.bedplate.yml", tmp_path / "pod.machines.json"
    found = [value("gpu002", "serial", "A2"), value("gpu001", "serial", "A1")]
    predicted = update(file, NAMES, found, write=False)
    assert (predicted.changed, path.exists()) == (True, False)
    written = update(file, NAMES, found, write=True)
    assert (written.changed, path.read_text()) == (True, predicted.after)
    before = path.stat()
    again = update(file, NAMES, found, write=True)
    assert (again.changed, again.before) == (False, again.after)
    assert path.stat() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_a_person_has_written_in_other_lines_stays_so_without_a_new_value(tmp_path: Path):
    file, path = tmp_path / "pod.bedplate.yml", tmp_path / "pod.machines.json"
    path.write_text(json.dumps(json.loads(text_of(RECORD, NAMES)), indent=4))
    text = path.read_text()
    update(file, NAMES, [value("gpu001", "serial", "A1"), value("gpu002", "serial", "B2")], write=True)
    assert path.read_text() == text


def test_new_values_are_written_beside_findings_and_the_recorded_stay(tmp_path: Path):
    file = tmp_path / "pod.bedplate.yml"
    (tmp_path / "pod.machines.json").write_text(text_of(RECORD, NAMES))
    update(file, NAMES, [value("gpu002", "serial", "B2"), value("gpu003", "serial", "A3")], write=True)
    assert read(file, NAMES) == {**RECORD, "gpu003": Machine(serial="A3")}


def test_a_damaged_file_is_never_overwritten(tmp_path: Path):
    path = tmp_path / "pod.machines.json"
    path.write_text("<<<<<<< HEAD\n")
    with pytest.raises(RecordError):
        update(tmp_path / "pod.bedplate.yml", NAMES, [value("gpu001", "serial", "A1")], write=True)
    assert path.read_text() == "<<<<<<< HEAD\n"


def test_a_write_that_fails_leaves_the_file(tmp_path: Path, monkeypatch):
    def fail(*_arguments):
        raise OSError(28, "No space left on device")

    path = tmp_path / "pod.machines.json"
    path.write_text(text_of(RECORD, NAMES))
    monkeypatch.setattr(record_changes, "atomic_write", fail)
    with pytest.raises(OSError, match="No space"):
        update(tmp_path / "pod.bedplate.yml", NAMES, [value("gpu003", "serial", "A3")], write=True)
    assert path.read_text() == text_of(RECORD, NAMES)
