# SPDX-License-Identifier: GPL-3.0-or-later
"""Damaged lines of a kernel's log: no error, and no good verdict from a line that was not read."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import NOTE, HealthFinding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import NodeFacts, NodeProfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.kernel_memory import remembered
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.rules_kernel import judge_events
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_cursor import KernelLog
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_events import from_json, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import (
    parse,
    record_line,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.xid_tables import xids
from tests.kit.kernel_log import BOOT, TIME, UPTIME

LINES = [
    *(
        line.split(" | ", 2)[2]
        for line in (Path(__file__).parent / "published_lines.txt").read_text(encoding="utf-8").splitlines()
    ),
    "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:26b5) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands.",
    "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.",
    "mlx5_core 0000:3b:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
    "bedplate-health: reset of 0000:3b:00.0 done",
]
PIECES = [
    b"\\x0a",
    b"\\x",
    b"\\",
    b"\xff",
    b"\0",
    b", ",
    b": ",
    b"(",
    b")",
    b"9" * 30,
    b"-1",
    b"0x",
    b" Fatal ",
    b" Nonfatal ",
    b";",
    b"\n ",
    b"\n",
]
NOW = NodeFacts(BOOT, UPTIME, TIME)
PROFILE = NodeProfile()
# A second reading of a line, looser than the reader's.
XID = re.compile(r"NVRM: Xid .{0,90}?\): (\d{1,6})(?!\d)", re.DOTALL)


class Once:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self) -> bytes:
        data, self.data = self.data, b""
        return data

    def close(self) -> None:
        pass


def damaged(line: bytes, chance: random.Random) -> bytes:
    """Return a record with one to four changes."""
    data = bytearray(line)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data) + 1)
        kind = chance.randrange(7)
        if kind == 0 and place < len(data):
            data[place] = chance.randrange(256)
        elif kind == 1:
            del data[place : place + chance.randint(1, 12)]
        elif kind == 2:
            data[place:place] = chance.choice(PIECES)
        elif kind == 3:
            del data[place:]
        elif kind == 4:
            data[place:place] = data[chance.randrange(len(data) + 1) :][:40]
        elif kind == 5:
            data[place:place] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 8)))
        else:
            data[place:place] = str(chance.choice((0, 45, 48, 74, 79, 149, 154, 999, 99_999_999))).encode()
    return bytes(data)


def check(data: bytes) -> list[HealthFinding]:
    """Read and judge a chunk, and compare the findings with a second reading of its first record."""
    data = data.lstrip(b"\n")
    events = KernelLog(Once(data), 6, clock=lambda: TIME).read().events
    assert all(len(event.text) <= 512 for event in events)
    assert [from_json(to_json(event)) for event in events] == list(events)
    found = judge_events(events, NOW, PROFILE)
    judge_events(remembered(events, NOW), NOW, PROFILE)
    record = parse(data)
    if record is None:
        if data.strip() and not data.startswith(b" ") and not re.match(rb"\d{1,9},0*[0-6],", data):
            assert any(one.unread for one in found)
    elif record.sequence > 6 and record.text.startswith("NVRM: Xid") and record.uptime >= UPTIME - 86_400:
        check_xid(record.text, found)
    return found


def check_xid(text: str, found: Sequence[HealthFinding]) -> None:
    """Compare the findings of a text that begins as a Xid with a looser reading of it."""
    mine = [one for one in found if one.kind.startswith("xid-")]
    assert mine
    read = XID.match(text)
    if read is None or any(one.kind == "xid-unread" for one in mine):
        assert any(one.unread for one in mine)
        return
    code = int(read[1])
    (one,) = [one for one in mine if one.kind == f"xid-{code}"]
    if one.unread:
        return
    row = xids().row(code)
    if not row.known or row.rule in ("table", "uncounted"):
        assert one.health_class == row.health_class
    elif row.rule == "word":
        assert one.health_class == "reset" or "Nonfatal" in text
    elif row.rule == "recovery-action":
        assert one.health_class != NOTE or re.search(r"to 0x0+ \(", text)
    elif row.rule == "followed":
        assert one.health_class == "reset"
    else:
        assert one.health_class == "reset" or "0x" in text


def fuzz(count: int, seed: int) -> None:
    chance = random.Random(seed)
    records = [record_line(7, UPTIME - 3600, line) for line in LINES]
    unread = decisive = 0
    for _ in range(count):
        found = check(damaged(chance.choice(records), chance))
        unread += any(one.unread for one in found)
        decisive += any(one.health_class != NOTE for one in found)
    # Damage that nothing notices, or that hides every error, would prove nothing.
    assert count / 20 < unread < count * 0.9
    assert count / 20 < decisive


def test_20_000_damaged_lines() -> None:
    fuzz(20_000, 1)


@pytest.mark.full_health
def test_400_000_damaged_lines() -> None:
    fuzz(400_000, 2)


def test_damaged_lines_in_one_log() -> None:
    """All lines of one log, so that repeats, followers and gaps are judged together; in bounded time."""
    chance = random.Random(3)
    data = b"".join(
        damaged(record_line(number, UPTIME - 60_000 + number, chance.choice(LINES)), chance) for number in range(3000)
    )
    log = KernelLog(Once(data), clock=lambda: TIME)
    events = remembered(log.read().events, NOW)
    found = judge_events(events, NOW, PROFILE)
    assert any(one.unread for one in found)
    assert "xid-79" in {one.kind for one in found}
