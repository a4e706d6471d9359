# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise events in records of the kernel's log: Xid, SXid, and the rows of kernel_lines.json.

A record has at most one event. Its beginning decides, never text within it: a Xid has the name of a process, which a user chooses. A line
that begins as a Xid or SXid and cannot be read is an event with `details["unread"]`, because an error of a GPU must not pass as silence.

Shapes of Xid: open-gpu-kernel-modules 595.45.04, kernel_rc.c. With MIG, the address is followed by `GPU-I:05 GPU-CI:01`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..facts.node_facts import KernelEvent
from ..tables.xid_tables import line_rows
from .kernel_records import KernelRecord

XID, SXID, GAP, RESET = "xid", "sxid", "gap", "reset"
FALLEN_OFF = 79
LONGEST_TEXT = 512
"""Characters of an event's text."""
RESET_LINE = "bedplate-health: reset of {device} done"
"""Line that a runbook writes to /dev/kmsg after the reset of a GPU: events before it no longer count for the state of that GPU."""

_ADDRESS = re.compile(r"(?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")
_XID = re.compile(r"NVRM: Xid \(([^)]{0,80})\): (\d{1,6})(?!\d),? ?(.*)", re.DOTALL)
_SXID = re.compile(r"nvidia-nvswitch(\d{1,3}): SXid \(([^)]{0,80})\): (\d{1,6})(?!\d),? ?(.*)", re.DOTALL)
_MIG = re.compile(r" GPU-I:(\d{1,4})(?: GPU-CI:(\d{1,4}))?")
_PROCESS = re.compile(r"pid=([^,]{0,32})(?:, name=(.{0,128}?))?(?:, |,?\Z)(.*)", re.DOTALL)
_PLACE = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3})(?:, SM (\d{1,3}))?\)")
_LINK = re.compile(r"on link (\d{1,3})(?: ?\(((?:0x[0-9a-fA-F]{1,8}(?:, ?)?){1,16})\))?")
_NVLINK5 = re.compile(
    r"([A-Z][A-Z0-9_/]{1,40})\s{1,8}(Fatal|Nonfatal)\s{1,8}XC\d\s{1,8}i\d{1,4}\s{1,8}Link\s{1,8}(-?\d{1,3})"
    r"(?:\s{1,8}\((0x[0-9a-f]{1,8})(?:\s{1,8}(0x[0-9a-f]{1,8}))?)?"
)
_ACTION = re.compile(
    r"GPU recovery action changed from (0x[0-9a-fA-F]{1,4}) \(([^)]{0,40})\) to (0x[0-9a-fA-F]{1,4}) \(([^)]{0,40})\)"
)
_CAUSE = re.compile(r" caused by previous Xid (\d{1,6})\s*\Z")
_SXID_WORD = re.compile(r"(Fatal|Non-fatal), (?:Link (-?\d{1,3}) )?")
_SXID_PART = re.compile(r"(Data|Severity)\b(?: (\d{1,3}) Engine instance (\d{1,3}))?")
_SXID_SEVERITIES = {"0": "Non-fatal", "1": "Fatal"}
"""NVSWITCH_ERROR_SEVERITY of open-gpu-kernel-modules 595.45.04."""
_FALLEN_LINE = re.compile(r"NVRM: GPU (\S{1,24}): GPU has fallen off the bus")
_FALLEN_RECORD = re.compile(
    r"NVRM: (?:The NVIDIA GPU (\S{1,24})\b.*)?fallen off the bus and is not responding to commands", re.DOTALL
)
_RESET = re.compile(r"bedplate-health: reset of (\S{1,24}) done\Z")
_DEVICE = re.compile(r"\+pci:(\S{1,24})\Z")


def event_of(record: KernelRecord) -> KernelEvent | None:
    """Return the event of a record; None for a record without an event."""
    text = record.text
    for beginning, read in _READERS:
        if text.startswith(beginning):
            found = read(record)
            if found is not None:
                return found
    return _line_event(record)


def address(text: str) -> str:
    """Return a PCI address in the form of sysfs, "" if the text has no address.

    >>> address("PCI:0000:3B:00"), address("00000000:3b:00.0"), address("invalid")
    ('0000:3b:00.0', '0000:3b:00.0', '')
    """
    found = _ADDRESS.match(text)
    if found is None:
        return ""
    domain, bus, device, function = found.groups()
    return f"{int(domain, 16):04x}:{bus}:{device}.{function or 0}".lower()


def gap(sequence: int, uptime: float, reason: str, first: int, count: int, time: float) -> KernelEvent:
    """Return the event of `count` lost records from number `first` on, seen before record `sequence` at `time` (seconds since 1970)."""
    details = {"reason": reason, "first": str(first), "count": str(count), "time": f"{time:.0f}"}
    return KernelEvent(GAP, None, "", f"{count} records lost from {first} on: {reason}", sequence, uptime, details)


def to_json(event: KernelEvent) -> dict[str, Any]:
    """Return an event as plain data."""
    return {**vars(event), "details": dict(event.details)}


def from_json(row: Mapping[str, Any]) -> KernelEvent:
    """Return the event of plain data. KeyError, TypeError, ValueError: not an event."""
    code = row["code"]
    if not isinstance(row["details"], Mapping) or not (code is None or type(code) is int):
        raise TypeError("not an event")
    details = {str(key): str(value) for key, value in row["details"].items()}
    texts = (str(row["device"]), str(row["text"]))
    return KernelEvent(str(row["kind"]), code, *texts, int(row["sequence"]), float(row["uptime"]), details)


def _event(
    record: KernelRecord, kind: str, code: int | None, device: str, details: Mapping[str, str | None]
) -> KernelEvent:
    """Return an event; details without a value are left out."""
    kept = {key: value for key, value in details.items() if value}
    return KernelEvent(kind, code, device, record.text[:LONGEST_TEXT], record.sequence, record.uptime, kept)


def _xid(record: KernelRecord) -> KernelEvent:
    found = _XID.match(record.text)
    if found is None:
        return _event(record, XID, None, "", {"unread": "the code of the Xid"})
    place, code, rest = found[1], int(found[2]), found[3]
    details: dict[str, str | None] = {}
    mig = _MIG.search(place)
    if mig:
        details.update(gpu_instance=mig[1], compute_instance=mig[2])
    process = _PROCESS.match(rest)
    if process:
        details.update(
            pid=process[1] if process[1].isdecimal() else None, name=process[2] if process[2] != "<unknown>" else None
        )
        rest = process[3]
    details.update(_details_of_code(code, rest))
    device = address(place)
    if not device:
        details["unread"] = "the address of the GPU"
    return _event(record, XID, code, device, details)


def _details_of_code(code: int, rest: str) -> dict[str, str | None]:
    """Return the details of a Xid's text. The name of a process may hold part of a text, so the last match counts."""
    if code == 13:
        place = _last(_PLACE, rest)
        return {"gpc": place[1], "tpc": place[2], "sm": place[3]} if place else {}
    if code == 45:
        cause = _CAUSE.search(rest)
        return {"cause": cause[1]} if cause else {}
    if code == 74:
        link = _last(_LINK, rest)
        if link is None:
            return {"unread": "link and registers"}
        return {"link": _number(link[1]), "registers": " ".join(re.findall(r"0x[0-9a-fA-F]+", link[2] or ""))}
    if 144 <= code <= 150:
        found = _last(_NVLINK5, rest)
        if found is None:
            return {"unread": "the word Fatal or Nonfatal"}
        return {
            "unit": found[1],
            "severity": found[2],
            "link": _number(found[3]),
            "intrinfo": found[4],
            "status": found[5],
        }
    if code == 154:
        action = _last(_ACTION, rest)
        if action is None:
            return {"unread": "the recovery action"}
        return {"before": str(int(action[1], 16)), "action": str(int(action[3], 16)), "word": action[4]}
    return {}


def _sxid(record: KernelRecord) -> KernelEvent | None:
    found = _SXID.match(record.text)
    if found is None:
        if " SXid " not in record.text[:64]:
            return None
        return _event(record, SXID, None, "", {"unread": "the code of the SXid"})
    code, device, rest = int(found[3]), address(found[2]), found[4]
    details: dict[str, str | None] = {"switch": found[1], "unread": None if device else "the address of the switch"}
    word, part = _SXID_WORD.match(rest), _SXID_PART.match(rest)
    if word:
        details.update(severity=word[1], link=_number(word[2]))
    elif part:
        details.update(part=part[1].lower(), severity=_SXID_SEVERITIES.get(part[2] or ""), link=_number(part[3]))
    return _event(record, SXID, code, device, details)


def _fallen_off(record: KernelRecord) -> KernelEvent | None:
    found = _FALLEN_LINE.match(record.text) or _FALLEN_RECORD.match(record.text)
    if found is None:
        return None
    device = address(found[1] or "")
    details = {"form": "message", "unread": None if device else "the address of the GPU"}
    return _event(record, XID, FALLEN_OFF, device, details)


def _reset(record: KernelRecord) -> KernelEvent | None:
    found = _RESET.match(record.text.strip())
    device = address(found[1]) if found else ""
    return _event(record, RESET, None, device, {}) if device else None


def _line_event(record: KernelRecord) -> KernelEvent | None:
    for row in line_rows():
        if row.contains in record.text:
            found = row.pattern.search(record.text)
            if found:
                groups = found.groupdict()
                device = address(groups.pop("device", None) or _property_device(record))
                return _event(record, row.kind, None, device, {"line": row.check, **groups})
    return None


def _property_device(record: KernelRecord) -> str:
    found = _DEVICE.match(record.properties.get("DEVICE", ""))
    return found[1] if found else ""


def _number(digits: str | None) -> str | None:
    """Return a number without leading zeros."""
    return str(int(digits)) if digits else None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007
        pass
    return found


_READERS: tuple[tuple[str, Callable[[KernelRecord], KernelEvent | None]], ...] = (
    ("NVRM: Xid", _xid),
    ("nvidia-nvswitch", _sxid),
    ("NVRM: ", _fallen_off),
    ("bedplate-health: ", _reset),
)
