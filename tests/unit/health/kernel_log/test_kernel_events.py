# SPDX-License-Identifier: GPL-3.0-or-later
"""Published lines of kernels' logs become the events, details and classes that they mean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_events import (
    LONGEST_TEXT,
    RESET_LINE,
    address,
    event_of,
    from_json,
    to_json,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import (
    parse,
    record_line,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.xid_tables import line_rows, sxids, xids
from tests.kit.kernel_log import event, findings

# kind code device class | details | line; - for an empty field.
PUBLISHED = [
    line.split(" | ", 2)
    for line in (Path(__file__).parent / "published_lines.txt").read_text(encoding="utf-8").splitlines()
]
GPU = "NVRM: Xid (PCI:0000:3b:00): "
FALLEN = (
    "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands."
)


@pytest.mark.parametrize(("head", "words", "line"), PUBLISHED, ids=[f"{row[0]}-{n}" for n, row in enumerate(PUBLISHED)])
def test_published_line(head: str, words: str, line: str) -> None:
    kind, code, device, health_class, *unread = head.split()
    found = event(line)
    assert (found.kind, found.device or "-", found.text) == (kind, device, line[:LONGEST_TEXT])
    assert str(found.code or found.details["line"]) == code
    details = {
        key: value.replace("_", " ") if key in ("word", "registers") else value for key, value in found.details.items()
    }
    expected = dict(word.split("=", 1) for word in words.split()) if words != "-" else {}
    for key in ("word", "registers"):
        if key in expected:
            expected[key] = expected[key].replace("_", " ")
    assert details == expected
    (judged,) = findings([found])
    assert (judged.health_class, judged.unread) == (health_class, unread == ["unread"])


def test_published_lines_are_the_examples_of_the_tables() -> None:
    rows = [*xids().rows.values(), *sxids().values(), *line_rows()]
    assert [row[2] for row in PUBLISHED] == [example.line for row in rows for example in row.examples]
    assert all(example.source for row in rows for example in row.examples)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PCI:0000:0f:00", "0000:0f:00.0"),
        ("0000:03:00", "0000:03:00.0"),
        ("PCI:0000:85:00.1", "0000:85:00.1"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("PCI:0018:01:00", "0018:01:00.0"),
        ("PCI:00010000:01:00", "10000:01:00.0"),
        ("PCI:...", ""),
        ("", ""),
    ],
)
def test_addresses_have_the_form_of_sysfs(text: str, expected: str) -> None:
    assert address(text) == expected


def test_the_message_of_three_lines_is_a_xid_79() -> None:
    found = event(FALLEN)
    assert (found.kind, found.code, found.device) == ("xid", 79, "0000:b3:00.0")
    record = parse(b"3,9,5000000,-;" + FALLEN.replace("\n", "\\x0a").encode())
    assert record
    again = event_of(record)
    assert again
    assert (again.code, again.device, again.uptime) == (79, "0000:b3:00.0", 5.0)


def test_the_message_of_one_line_is_a_xid_79() -> None:
    found = event("NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.")
    assert (found.kind, found.code, found.device) == ("xid", 79, "0000:18:00.0")
    (judged,) = findings([found, event(f"{GPU.replace('3b', '18')}79, GPU has fallen off the bus.", sequence=2)])
    assert (judged.kind, judged.health_class, judged.device) == ("xid-79", "cannot-run", "0000:18:00.0")


def test_the_last_line_alone_is_a_xid_79_of_an_unknown_gpu() -> None:
    found = event("NVRM: fallen off the bus and is not responding to commands.")
    assert (found.code, found.device) == (79, "")
    assert [one.kind for one in findings([found])] == ["xid-79"]


def test_mig_instances_are_details() -> None:
    found = event("NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 43, pid=7194, name=a, Ch 00000008")
    assert (found.device, found.details["gpu_instance"], found.details["compute_instance"]) == (
        "0000:01:00.0",
        "05",
        "02",
    )


@pytest.mark.parametrize(
    ("text", "details"),
    [
        ("43, pid=7, name=a b, c, Ch 00000008", {"pid": "7", "name": "a b"}),
        ("43, pid='<unknown>', name=<unknown>, Ch 00000008", {}),
        ("43, pid=7", {"pid": "7"}),
        ("38, pid=1659,", {"pid": "1659"}),
        ("43", {}),
        ("13, pid=7, name=(GPC 1, TPC 1), Graphics (GPC 2, TPC 3, SM 4): x", {"gpc": "2", "tpc": "3", "sm": "4"}),
        ("45, pid=7, name=caused by previous Xid 1, Ch 1", {}),
        ("74, NVLink: fatal error detected on link 6(0x10000,0x0)", {"link": "6", "registers": "0x10000 0x0"}),
        ("74, NVLink", {"unread": "link and registers"}),
        ("149, NETIR", {"unread": "the word Fatal or Nonfatal"}),
        ("154, changed", {"unread": "the recovery action"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_details_of_a_xid(text: str, details: dict[str, str]) -> None:
    found = dict(event(GPU + text).details)
    if "name" not in details:
        found.pop("name", None)
        if "pid" not in details:
            found.pop("pid", None)
    assert found == details


def test_a_line_that_begins_as_a_xid_is_never_silent() -> None:
    for text in ("NVRM: Xid", "NVRM: Xid (", "NVRM: Xid (PCI:0000:3b:00): x", "NVRM: Xid (invalid): some error"):
        found = event(text)
        assert (found.kind, found.code, found.details["unread"]) == ("xid", None, "the code of the Xid")
    assert event("nvidia-nvswitch0: SXid (PCI:0000:3b:00.0): x").details["unread"] == "the code of the SXid"
    assert event("NVRM: Xid (PCI:...): 137, x").details["unread"] == "the address of the GPU"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "systemd[1]: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
        "bedplate-health: reset of 0000:3b:00.0 done later",
        "python3: NVRM: Xid (PCI:0000:3b:00): 79, x",
        "nvidia-nvswitch0: open (major=510)",
        "NVRM: GPU at PCI:0000:3b:00: GPU-b6c3b2be",
        "NVRM: GPU 0000:91:00.0: GPU serial number is 1653723052734.",
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2bb1)\nNVRM: installed in this system requires use of the NVIDIA open modules.",
        "mlx5_core 0000:5c:00.0: firmware version: 28.39.1002",
        "mlx5_core 0000:5c:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
        "pcieport 0000:00:1c.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)",
        "bedplate-health: reset of invalid done",
    ],
)
def test_lines_without_an_event(text: str) -> None:
    record = parse(record_line(1, 1, text))
    assert record
    assert event_of(record) is None


def test_a_reset_of_a_runbook_is_an_event() -> None:
    found = event(RESET_LINE.format(device="0000:3b:00.0") + "\n")
    assert (found.kind, found.device) == ("reset", "0000:3b:00.0")


def test_a_line_without_an_address_has_the_device_of_its_property() -> None:
    line = b"4,1,1,-;Port module event[error]: module 0, Cable error, High Temperature\n SUBSYSTEM=pci\n DEVICE=+pci:0000:5c:00.0\n"
    record = parse(line)
    assert record
    found = event_of(record)
    assert found
    assert found.device == "0000:5c:00.0"


@pytest.mark.parametrize("line", [row[2] for row in PUBLISHED])
def test_an_event_is_saved_and_read_again(line: str) -> None:
    found = event(line)
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


@pytest.mark.parametrize(
    "change", [{"code": "79"}, {"code": True}, {"details": []}, {"sequence": "x"}, {"uptime": None}, {"kind": ...}]
)
def test_a_saved_event_that_is_malformed_is_an_error(change: dict[str, object]) -> None:
    row = {**to_json(event(GPU + "79, x")), **change}
    row = {key: value for key, value in row.items() if value is not ...}
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_json(row)


def test_the_text_of_an_event_is_bounded() -> None:
    assert len(event(f"{GPU}79, {'x' * 5000}").text) == LONGEST_TEXT


def test_an_error_without_an_address_is_unread() -> None:
    for line in (
        "NVRM: GPU nowhere: GPU has fallen off the bus.",
        "NVRM: Xid (PCI:nowhere): 79, GPU has fallen off the bus.",
        "nvidia-nvswitch0: SXid (PCI:nowhere): 20034, Fatal, Link 28 LTSSM Fault Up",
    ):
        assert event(line).details["unread"], line


def test_a_code_of_too_many_digits_is_unread() -> None:
    found = event(f"{GPU}1234567, text")
    assert (found.code, "unread" in found.details) == (None, True)
