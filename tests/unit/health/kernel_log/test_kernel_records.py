# SPDX-License-Identifier: GPL-3.0-or-later
"""Records of /dev/kmsg, as Linux prints them."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import (
    LONGEST_TEXT,
    parse,
    record_line,
    sequence_of,
    split,
)


def test_a_record_has_number_time_and_text() -> None:
    record = parse(b"4,1203,819348050,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    assert record
    assert (record.priority, record.sequence, record.uptime) == (4, 1203, 819.34805)
    assert record.text == "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."


def test_a_record_that_root_wrote_has_another_facility() -> None:
    record = parse(b"12,456,819348050,-;NVRM: Xid (PCI:0000:ff:00): 43, text")
    assert record
    assert (record.priority, record.text) == (12, "NVRM: Xid (PCI:0000:ff:00): 43, text")


def test_lines_after_a_record_are_its_properties() -> None:
    record = parse(b"6,160,424069,-;pci 0000:41:00.0: limited\n SUBSYSTEM=pci\n DEVICE=+pci:0000:41:00.0\n")
    assert record
    assert record.properties == {"SUBSYSTEM": "pci", "DEVICE": "+pci:0000:41:00.0"}


def test_escapes_are_bytes() -> None:
    record = parse(b"3,1,2,c,caller=T7;one\\x0atwo \\xc3\\xbc \\x5c \\xff \\xzz")
    assert record
    assert record.text == "one\ntwo \u00fc \\ \ufffd \\xzz"


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines", "back\\slash", "\u00fc", "tab\tnul\0", "\\x0a", ";=,", "a" * 200], ids=repr
)
def test_a_written_record_is_read_again(text: str) -> None:
    record = parse(record_line(7, 1.5, text))
    assert record
    assert (record.sequence, record.uptime, record.text) == (7, 1.5, text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"text without a record",
        b"4,1203,819348050,-",
        b"4,1203,-1,-;text",
        b"4,,1,-;text",
        b" DEVICE=+pci:0000:41:00.0",
        b"9" * 5000 + b",1,1,-;text",
        b"4," + b"9" * 5000 + b",1,-;text",
        b"\xff\xfe\0",
    ],
    ids=lambda data: repr(data[:24]),
)
def test_malformed_chunks_are_no_record(data: bytes) -> None:
    assert parse(data) is None


def test_a_text_is_bounded() -> None:
    record = parse(b"4,1,1,-;" + b"a" * 1_000_000)
    assert record
    assert len(record.text) == LONGEST_TEXT


def test_the_number_is_read_alone() -> None:
    assert sequence_of(b"4,1203,x") == 1203
    assert sequence_of(b"4,x,1203") is None


def test_a_block_is_split_into_records() -> None:
    block = b"4,1,1,-;one\n A=b\n4,2,1,-;two\n\n4,3,1,-;three"
    assert list(split(block)) == [b"4,1,1,-;one\n A=b\n", b"4,2,1,-;two\n", b"4,3,1,-;three"]


def test_a_line_without_a_blank_is_no_property() -> None:
    record = parse(b"4,1,5,-;text\n DEVICE=+pci:0000:3b:00.0\nSUBSYSTEM=pci\n")
    assert record is not None
    assert record.properties == {"DEVICE": "+pci:0000:3b:00.0"}
