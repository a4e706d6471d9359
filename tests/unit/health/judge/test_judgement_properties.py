# SPDX-License-Identifier: GPL-3.0-or-later
"""Properties of all judgements: unread is never ok, worse is never better, debounce, and random readings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Value
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.expectations import applies
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.judgement import judge
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.threshold_row import ThresholdRow
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import default
from tests.unit.health.judge.fuzzed_readings import FuzzedNode, rank
from tests.unit.health.judge.judged_node import GPU, PROFILE, JudgedNode, class_of, devices

MODELS = ("", "h100", "h200", "b200", "gb200", "gb300", "a100", "l40s", "v100")
KEYS = sorted(JudgedNode().values)
STATES = [
    row.name
    for row in default().rows.values()
    if row.debounce > 1 and row.critical is not None and applies(row, PROFILE)
]
CYCLES = 50


def worse(row: ThresholdRow, value: Value) -> Value:
    """Return a value on the bad side of all limits of a row."""
    if row.kind == "equals":
        return "other" if isinstance(value, str) else -7
    return -1000 if row.kind == "at_least" else 10_000_000


def row_of(quantity: str) -> ThresholdRow:
    return next(row for row in default().rows.values() if row.reads == quantity)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(MODELS), st.sampled_from(KEYS), st.sampled_from([0.0, 90_000.0]))
def test_a_reading_without_a_value_is_never_ok(model: str, key: tuple[str, str], uptime: float) -> None:
    node = JudgedNode(replace(PROFILE, model=model), uptime)
    if key in node.values:
        node.tick()
        assert node.tick({key: None}).status != "ok"
        del node.values[key]
        rows = [row for row in node.rows.values() if row.reads == key[0] and applies(row, node.profile)]
        if not all(row.optional for row in rows):
            assert node.tick().status != "ok"


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(MODELS), st.lists(st.sampled_from(KEYS), unique=True, min_size=1, max_size=6), st.booleans())
def test_a_worse_value_never_improves_the_status(model: str, keys: list[tuple[str, str]], is_unread: bool) -> None:
    """Each value in turn becomes worse for three cycles: the status after all of them is at least as bad."""
    node = JudgedNode(replace(PROFILE, model=model))
    if is_unread:
        node.values[("persistence", GPU)] = None
    last = rank(node.tick())
    for key in keys:
        if key in node.values and node.values[key] is not None:
            now = rank(node.tick({key: worse(row_of(key[0]), node.values[key])}, times=3))
            assert now >= last
            last = now


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.sampled_from(STATES), st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=14))
def test_debounce(check: str, bad: list[bool | None]) -> None:
    """A state is a finding after `debounce` bad samples in a row; a cycle without a value neither counts nor ends the row."""
    node = JudgedNode()
    row = node.rows[check]
    key = (row.reads, devices(row, node.profile)[0])
    good = node.values[key]
    streak, held = 0, False
    for is_bad in bad:
        result = node.tick({key: None if is_bad is None else worse(row, good) if is_bad else good})
        streak = streak if is_bad is None else streak + 1 if is_bad else 0
        if is_bad is not None:
            expected = streak >= row.debounce or (held and row.is_sticky)
            assert (class_of(result, check) not in ("", "note")) == expected
            held = held or expected


@pytest.mark.parametrize("part", range(4))
def test_fuzzed_readings(part: int) -> None:
    """20,000 sets of readings."""
    for seed in range(100):
        node = FuzzedNode(100 * part + seed)
        for _number in range(CYCLES):
            node.cycle()


@pytest.mark.full_health
@pytest.mark.parametrize("part", range(40))
def test_many_fuzzed_readings(part: int) -> None:
    """400,000 sets of readings."""
    for seed in range(200):
        node = FuzzedNode(1_000_000 + 200 * part + seed)
        for _number in range(CYCLES):
            node.cycle()


def test_a_judgement_is_the_same_for_the_same_facts() -> None:
    node = JudgedNode()
    node.tick({("nvlink-down", GPU): 1}, times=2)
    assert judge(node.facts(), node.history, (), node.profile) == judge(node.facts(), node.history, (), node.profile)
