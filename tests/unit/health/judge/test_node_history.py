# SPDX-License-Identifier: GPL-3.0-or-later
"""History of readings: debounce, increases, resets, clock jumps, a bounded size, and a file that can be damaged."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    NodeFacts,
    NodeProfile,
    Reading,
    Value,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.node_history import (
    MOST_BOOTS,
    MOST_LATCHES,
    MOST_RUNS,
    MOST_SERIES,
    HistoryError,
    Latch,
    NodeHistory,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.reading_series import Run, Series, thinned
from tests.unit.health.judge.judged_node import BOOTS, GPU, START, JudgedNode, class_of

COUNTER = "ecc-corrected"


class Counted:
    """A counter of one GPU whose samples a test records."""

    def __init__(self) -> None:
        self.history, self.boot, self.uptime, self.time = NodeHistory(), 0, 1000.0, START

    def add(self, value: Value, seconds: float = 60.0, jump: float = 0.0, source: str = "nvml") -> Series:
        self.uptime += seconds
        self.time += seconds + jump
        reading = Reading(COUNTER, GPU, value, source)
        facts = NodeFacts(BOOTS[self.boot], self.uptime, self.time, (reading,))
        before = self.history.series(reading, facts)
        self.history.record(facts)
        after = self.history.series(reading, facts)
        # The agent may record before or after it judges.
        assert before == after
        return after

    def reboot(self, down: float = 300.0) -> None:
        self.boot += 1
        self.time += down
        self.uptime = 0.0


def test_equal_samples_are_one_run() -> None:
    one = Counted()
    for _number in range(1440):
        series = one.add(5)
    assert series.runs == (Run(0, 1060.0, 87400.0, 5, 1440),)


def test_increases_within_a_window() -> None:
    one = Counted()
    series = [one.add(value) for value in (0, 10, 10, 30)][-1]
    assert series.increase(60) == (20.0, 60.0)
    assert series.increase(1000) == (30.0, 1000)
    assert series.increase(1000, since=1200.0) == (20.0, 1000)


def test_a_smaller_value_is_a_new_start() -> None:
    one = Counted()
    series = [one.add(value) for value in (100, 110, 3, 5)][-1]
    assert series.increase(1000)[0] == 12.0
    assert series.last_fall() == 1180.0


def test_a_larger_value_after_a_reboot_is_a_new_start_unless_the_counter_survives() -> None:
    one = Counted()
    one.add(5)
    one.reboot()
    series = one.add(9)
    assert series.increase(86_400)[0] == 0.0
    assert series.increase(86_400, across_boots=True)[0] == 4.0
    assert series.last_fall() is None


@pytest.mark.parametrize("jump", [-1e9, -3600.0, 3600.0, 1e9])
def test_a_clock_jump_does_not_move_samples_of_this_boot(jump: float) -> None:
    one = Counted()
    one.add(0)
    one.add(6, jump=jump)
    series = one.add(6)
    assert series.increase(60)[0] == 0.0
    assert series.increase(120)[0] == 6.0


def test_a_clock_that_starts_in_1970_does_not_make_samples_of_other_boots_young() -> None:
    one = Counted()
    one.add(1)
    one.add(3)
    one.reboot()
    one.time = 100.0
    one.add(3, seconds=7200.0)
    series = one.add(3, seconds=7200.0)
    # The age is at least the uptime of this boot.
    assert series.increase(14_000, across_boots=True)[0] == 0.0
    assert series.increase(15_000, across_boots=True)[0] == 2.0


def test_streaks_end_at_a_reboot_and_ignore_what_was_not_read() -> None:
    one = Counted()
    for value in (0, 1, 2):
        series = one.add(value)
    assert series.streak(lambda value: value != 0) == 2
    one.history.record(NodeFacts(BOOTS[0], one.uptime + 30, one.time + 30, (Reading(COUNTER, GPU, None, "nvml"),)))
    assert one.add(2).streak(lambda value: value != 0) == 3
    one.reboot()
    assert one.add(2).streak(lambda value: value != 0) == 1


def test_sources_of_one_group_share_a_series_and_others_do_not() -> None:
    one = Counted()
    one.add(1, source="nvml")
    assert one.add(4, source="nvidia-smi").increase(1000)[0] == 3.0
    assert one.add(9, source="sysfs").increase(1000)[0] == 0.0


def test_active_samples_in_a_window() -> None:
    one = Counted()
    for value in (1, 1, 1, 0, 1):
        series = one.add(value)
    assert [series.active(window) for window in (60, 120, 180, 240, 300, 10_000)] == [1, 1, 2, 3, 4, 4]


def test_thinning_keeps_the_increase_and_the_newest_runs() -> None:
    runs = [Run(0, 60.0 * number, 60.0 * number, number**2, 1) for number in range(MOST_RUNS + 1)]
    fewer = thinned(runs, MOST_RUNS)
    assert len(fewer) < len(runs)
    assert fewer[0] == runs[0]
    assert fewer[-MOST_RUNS // 2 :] == runs[-MOST_RUNS // 2 :]
    assert Series(tuple(fewer), 5000.0, {}).increase(1e6)[0] == Series(tuple(runs), 5000.0, {}).increase(1e6)[0]


def test_a_day_of_eight_gpus_and_ten_hcas_is_small() -> None:
    profile = NodeProfile(
        model="h100", gpus=8, nvlink=True, rails=tuple(f"mlx5_{one}" for one in range(10)), mounts=("/home",)
    )
    node = JudgedNode(profile)
    moving = [
        key for key in node.values if key[0] in ("ecc-corrected", "nvlink-crc", "thermal-margin", "rdma-symbol-errors")
    ]
    chance = random.Random(1)
    for minute in range(1440):
        node.uptime += 60
        node.time += 60
        node.values.update({key: minute if key[0] != "thermal-margin" else chance.randrange(20, 60) for key in moving})
        node.history.record(node.facts())
    assert len(json.dumps(node.history.save(), separators=(",", ":"))) < 120_000


def test_the_worst_day_is_bounded() -> None:
    history, chance = NodeHistory(), random.Random(1)
    for minute in range(300):
        readings = tuple(
            Reading(
                f"quantity-{chance.randrange(20)}", f"device-{chance.randrange(500)}", chance.randrange(1 << 60), "nvml"
            )
            for _number in range(200)
        )
        history.record(NodeFacts(BOOTS[minute // 20], 60.0 * minute, START + 60 * minute, readings))
    data = history.save()
    assert len(data["series"]) == MOST_SERIES
    assert max(len(runs) for *_key, runs in data["series"]) <= MOST_RUNS
    assert len(data["boots"]) <= 16
    assert len(json.dumps(data, separators=(",", ":"))) < 600_000


def test_a_long_text_is_cut() -> None:
    one = Counted()
    assert len(str(one.add("x" * 10_000).runs[-1].value)) == 80


def test_devices_that_are_not_seen_for_two_days_are_dropped() -> None:
    one = Counted()
    one.add(1)
    for _number in range(50):
        one.uptime += 3600
        one.time += 3600
        one.history.record(NodeFacts(BOOTS[0], one.uptime, one.time, (Reading("persistence", GPU, 1, "nvml"),)))
    assert [row[0] for row in one.history.save()["series"]] == ["persistence"]


def test_a_saved_history_judges_as_before() -> None:
    node = JudgedNode()
    node.tick({("remap-uncorrectable", GPU): 1})
    node.tick({("remap-uncorrectable", GPU): 3, ("nvlink-down", GPU): 1}, times=2)
    node.history = NodeHistory.load(json.loads(json.dumps(node.history.save())))
    result = node.tick()
    assert (class_of(result, "remap-uncorrectable"), class_of(result, "nvlink-down")) == ("rma", "reset")
    node.reboot()
    node.history = NodeHistory.load(json.loads(json.dumps(node.history.save())))
    assert class_of(node.tick({("nvlink-down", GPU): 0}), "remap-uncorrectable") == "rma"


def test_a_released_latch_ends_with_the_first_clean_cycle() -> None:
    node = JudgedNode()
    node.tick({("ecc-uncorrected-volatile", GPU): 1})
    node.tick({("ecc-uncorrected-volatile", GPU): None, ("ecc-corrected", GPU): 9})
    node.tick({("ecc-corrected", GPU): 0})
    assert [one.released for one in node.history.latches] == [True]
    node.history = NodeHistory.load(node.history.save())
    assert class_of(node.tick(times=60), "ecc-uncorrected-volatile") == "reset"
    assert node.tick({("ecc-uncorrected-volatile", GPU): 0}).status == "ok"
    assert node.history.latches == ()


GOOD: dict[str, Any] = {
    "version": 1,
    "boots": [[BOOTS[0], 0, 1.0]],
    "series": [["a", "", "nvml", [[0, 1.0, 2.0, 5, 2]]]],
    "latches": [
        {
            "check": "a",
            "device": "",
            "health_class": "rma",
            "found": "x",
            "sources": ["nvml"],
            "boot": BOOTS[0],
            "uptime": 1,
        }
    ],
}


def test_the_damaged_examples_start_from_a_good_one() -> None:
    assert NodeHistory.load(GOOD).latches == (Latch("a", "", "rma", "x", ("nvml",), BOOTS[0], 1),)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "text",
        {},
        {**GOOD, "version": 2},
        {**GOOD, "boots": [["a", 0]]},
        {**GOOD, "boots": [["a", 0, "x"]]},
        {**GOOD, "boots": [["a", 0, float("nan")]]},
        {**GOOD, "boots": None},
        {**GOOD, "series": [["a", "", "nvml"]]},
        {**GOOD, "series": [["a", "", "nvml", []]]},
        {**GOOD, "series": [["a", "", "nvml", [[0, 1.0, 2.0, None, 2]]]]},
        {**GOOD, "series": [["a", "", "nvml", [[0, 1.0, float("inf"), 5, 2]]]]},
        {**GOOD, "series": [["a", "", "nvml", [[0, 1.0, 2.0, 5, 0]]]]},
        {**GOOD, "series": [["a", "", "nvml", [[0, 1.0, 2.0, 5]]]]},
        {**GOOD, "latches": [{}]},
        {**GOOD, "latches": [{**GOOD["latches"][0], "health_class": "broken"}]},
        {**GOOD, "latches": [{**GOOD["latches"][0], "sources": None}]},
        {**GOOD, "latches": [{**GOOD["latches"][0], "uptime": "x"}]},
        {**GOOD, "latches": [{**GOOD["latches"][0], "value": "x"}]},
        {**GOOD, "latches": [5]},
    ],
)
def test_damaged_data_is_refused(data: Any) -> None:
    with pytest.raises(HistoryError):
        NodeHistory.load(data)


def test_active_samples_of_an_earlier_boot_do_not_count() -> None:
    one = Counted()
    for _number in range(5):
        one.add(1)
    one.reboot()
    assert one.add(1).active(10_000) == 1


def test_a_counter_that_always_changes_has_a_bounded_number_of_runs() -> None:
    history, most = NodeHistory(), 10 * MOST_RUNS
    for value in range(most):
        reading = Reading(COUNTER, GPU, value, "nvml")
        facts = NodeFacts(BOOTS[0], 60.0 * value, START + 60 * value, (reading,))
        history.record(facts)
    [[*_key, runs]] = history.save()["series"]
    assert len(runs) <= MOST_RUNS
    assert history.series(reading, facts).increase(1e6)[0] == most - 1


def test_too_many_latches_keep_the_worst() -> None:
    history = NodeHistory()
    notes = [Latch(f"check-{n}", GPU, "note", "found", ("nvml",), BOOTS[0], 5.0) for n in range(400)]
    worst = Latch("remap-failure", GPU, "rma", "found", ("nvml",), BOOTS[0], 5.0)
    history.record(NodeFacts(BOOTS[0], 60.0, START), [*notes, worst])
    assert len(history.latches) == MOST_LATCHES
    assert history.latches[0] == worst


def test_many_boots_are_bounded() -> None:
    history = NodeHistory()
    for number, boot in enumerate(BOOTS):
        history.record(NodeFacts(boot, 60.0, START + 600 * number, (Reading(COUNTER, GPU, 1, "nvml"),)))
    assert len(history.save()["boots"]) == MOST_BOOTS
