# SPDX-License-Identifier: GPL-3.0-or-later
"""Which events are kept for later judgements, and that a flood of lines stays bounded and changes no judgement."""

from __future__ import annotations

import random
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import KernelEvent, NodeFacts
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.kernel_memory import MOST, remembered
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_events import gap
from tests.kit.kernel_log import BOOT, TIME, UPTIME, classes, event

HOUR = 3600
NOW = NodeFacts(BOOT, UPTIME, TIME)


def xid(code: int, ago: float, number: int, gpu: int = 0, text: str = "text") -> KernelEvent:
    return event(f"NVRM: Xid (PCI:0000:{gpu:02x}:00): {code}, pid={number}, name=python3, {text}", ago, number)


def test_old_notes_are_dropped_and_decisive_events_are_kept() -> None:
    events = [xid(31, 25 * HOUR, 1), xid(95, 25 * HOUR, 2), xid(154, 25 * HOUR, 3), xid(31, HOUR, 4)]
    assert [one.sequence for one in remembered(events, NOW)] == [2, 3, 4]


def test_lines_of_one_failure_are_one_event() -> None:
    kept = remembered([xid(45, HOUR - number / 100, number, text=f"Ch {number:08x}") for number in range(13_104)], NOW)
    assert [(one.sequence, one.details["times"]) for one in kept] == [(13_103, "13104")]
    again = remembered([*kept, xid(45, HOUR - 200, 13_104)], NOW)
    assert [one.details["times"] for one in again] == ["13105"]


def test_repeats_are_found_after_joining() -> None:
    events = [xid(31, ago, number) for number, ago in enumerate((9 * HOUR, 9 * HOUR - 10, HOUR, HOUR - 10))]
    kept = remembered(events, NOW)
    assert len(kept) == 2
    assert classes(kept) == classes(events) == {"xid-31-repeated": "degraded", "xid-31": "note"}


def test_decisive_events_are_never_joined() -> None:
    events = [xid(48, HOUR, 1), xid(48, HOUR - 70, 2), xid(63, HOUR - 71, 3)]
    assert remembered(events, NOW) == events


def test_gaps_are_joined() -> None:
    events = [gap(number, 0.0, "malformed", number, 1, TIME - number / 10) for number in range(1000)]
    assert len(remembered(reversed(events), NOW)) == 1


def test_a_flood_is_bounded() -> None:
    chance = random.Random(1)
    codes = (13, 31, 45, 48, 63, 74, 79, 94, 95, 149, 154)
    events = [xid(chance.choice(codes), HOUR - number / 20, number, chance.randrange(8)) for number in range(60_000)]
    kept = remembered(events, NOW)
    assert len(kept) <= MOST
    assert [one.sequence for one in kept] == sorted(one.sequence for one in kept)
    small = remembered(events, NOW, most=50)
    assert len(small) == 50
    assert classes(kept)["xid-79"] == "cannot-run"


def test_damaged_details_of_a_saved_event_are_no_error() -> None:
    details = {"times": "x", "registers": "0xzz", "action": "x", "time": "x", "severity": "x"}
    for code in (31, 48, 74, 149, 154):
        damaged = replace(xid(code, HOUR, 1), details=details)
        assert len(remembered([damaged, replace(damaged, sequence=2)], NOW)) <= 2
        assert classes([damaged]).keys() <= {f"xid-{code}"}


def test_events_of_one_kind_are_its_first_and_its_last() -> None:
    events = [xid(95, HOUR - number, number) for number in range(500)]
    kept = [one.sequence for one in remembered(events, NOW)]
    assert kept == [*range(20), *range(480, 500)]


def test_notes_are_dropped_before_decisive_events() -> None:
    notes = [xid(31, 20 * HOUR - 900 * number, number) for number in range(20)]
    decisive = [xid(95, HOUR, 100 + number, number % 8) for number in range(20)]
    kept = remembered([*notes, *decisive], NOW, most=25)
    assert [one.sequence for one in kept] == [*range(15, 20), *range(100, 120)]
