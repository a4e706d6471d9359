# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse records of /dev/kmsg, such as `4,1203,819348050,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.`

A record is one line: priority, sequence number, microseconds since boot, flags, and after a semicolon the text. Lines that begin with a
blank follow it, with a property each, such as ` DEVICE=+pci:0000:3b:00.0`. The kernel writes a byte that is not printable as `\\x0a`.
Root can write records too: they have another facility, so the facility is not compared. Documentation/ABI/testing/dev-kmsg of Linux.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

LONGEST_TEXT = 8192
"""Characters of a text that are kept; the kernel's own limit for a record is below it."""
_HEAD = re.compile(rb"(\d{1,9}),(\d{1,19}),(\d{1,19}),([^;\n]{0,256});([^\n]*)")
_BEGINNING = re.compile(rb"\d{1,9},(\d{1,19}),")
_ESCAPE = re.compile(rb"\\x([0-9a-fA-F]{2})")
_UNPRINTABLE = re.compile(rb"[^\x20-\x7e]|\\")


@dataclass(frozen=True)
class KernelRecord:
    """Hold a record. `uptime`: seconds since boot. `text` may have line breaks. `properties`: from the lines after it."""

    sequence: int
    uptime: float
    text: str
    priority: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


def parse(data: bytes) -> KernelRecord | None:
    """Return the record of a chunk of /dev/kmsg; None if the chunk is malformed. No bytes raise an error.

    >>> parse(b"12,456,819348050,-;one\\\\x0atwo")
    KernelRecord(sequence=456, uptime=819.34805, text='one\\ntwo', priority=12, properties={})
    """
    head = _HEAD.match(data)
    if head is None:
        return None
    priority, sequence, microseconds = (int(head[number]) for number in (1, 2, 3))
    text = _text(head[5][:LONGEST_TEXT])
    return KernelRecord(sequence, microseconds / 1e6, text, priority, _properties(data[head.end() :]))


def sequence_of(data: bytes) -> int | None:
    """Return the sequence number of a chunk without parsing the rest; None if the chunk is malformed."""
    head = _BEGINNING.match(data)
    return int(head[1]) if head else None


def split(data: bytes) -> Iterator[bytes]:
    """Yield the chunks of a text with complete records: each is a line with the lines after it that begin with a blank."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin) + 1 or len(data)
        while data[end : end + 1] == b" ":
            end = data.find(b"\n", end) + 1 or len(data)
        if data[begin:end].strip():
            yield data[begin:end]
        begin = end


def record_line(sequence: int, uptime: float, text: str, priority: int = 4) -> bytes:
    """Return a record as the kernel prints it, for files that replace /dev/kmsg in tests and in the lab."""
    escaped = _UNPRINTABLE.sub(lambda found: b"\\x%02x" % found[0][0], text.encode("utf-8", "replace"))
    return b"%d,%d,%d,-;%s\n" % (priority, sequence, int(uptime * 1e6), escaped)


def _text(data: bytes) -> str:
    if b"\\" in data:
        data = _ESCAPE.sub(lambda found: bytes((int(found[1], 16),)), data)
    return data.decode("utf-8", "replace")


def _properties(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in data.split(b"\n")[:32]:
        name, separator, value = line[:LONGEST_TEXT].partition(b"=")
        if separator and name.startswith(b" "):
            found[_text(name[1:])] = _text(value)
    return found
