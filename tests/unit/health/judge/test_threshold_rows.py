# SPDX-License-Identifier: GPL-3.0-or-later
"""Every row of thresholds.json on both sides of its limits, and the whole table against a list that a person reviewed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    NodeProfile,
    Reading,
    Value,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge import rules_readings
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.crossing import is_beyond, resolved
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.threshold_row import ANY, ThresholdRow
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import default
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from tests.unit.health.judge.judged_node import GPU, MOUNT, PROFILE, JudgedNode, devices

LIST = Path(__file__).with_name("threshold_rows.txt")
ROWS = default().rows
MODELS = sorted({model for changes in default().models.values() for model in changes})


def listed() -> Iterator[str]:
    """Yield a line for each row and for each change of a model, without prose."""
    for name, row in ROWS.items():
        flags = [
            one for one in ("quiet", "optional", "persistent", "falls_at_reset", "since_reset") if getattr(row, one)
        ]
        parts = [
            name,
            row.kind,
            row.per,
            row.applies,
            f"warn={row.warn} {row.class_warn}",
            f"critical={row.critical} {row.class_critical}",
        ]
        parts += [f"reads={row.reads}"] if row.reads != name else []
        parts += [f"window={row.window:g}"] if row.window else []
        parts += [f"debounce={row.debounce}"] if row.debounce > 1 else []
        parts += [f"unit={row.unit}"] if row.unit else []
        parts += [f"clears_by={row.clears_by}"] if row.is_sticky else []
        parts += [f"at_most={row.at_most}"] if row.at_most != "cannot-run" else []
        parts += [f"counts={row.counts}"] if row.counts != "increase" else []
        yield "; ".join([*parts, *flags])
        for model, changes in sorted(default().models.get(name, {}).items()):
            yield f"    {model}: " + ", ".join(f"{key}={value}" for key, value in changes.items() if key != "source")
    for driver in default().known_bad_drivers:
        yield f"driver {driver.version} after {driver.after_days} days: {driver.health_class}"


def test_each_row_is_as_reviewed() -> None:
    """BEDPLATE_RENEW_SENTENCES=1 writes the list again; read its difference before a commit."""
    text = "\n".join(listed()) + "\n"
    if os.environ.get("BEDPLATE_RENEW_SENTENCES"):
        LIST.write_text(text, encoding="utf-8")
    assert text == LIST.read_text(encoding="utf-8")


def test_models_are_known_models() -> None:
    assert set(MODELS) <= set(stack_table.default().models)


@pytest.mark.parametrize("model", MODELS)
def test_a_good_node_of_each_model_is_ok(model: str) -> None:
    node = JudgedNode(replace(PROFILE, model=model))
    result = node.tick(times=4)
    assert (result.status, result.findings) == ("ok", ())


def sides() -> Iterator[tuple[str, str, str]]:
    """Yield model, check and side for each limit, also for those that only a model sets."""
    for model in ("", *MODELS):
        for name, row in default().of_model(model).items():
            changed = not model or (name in default().models and model in default().models[name])
            for side in ("warn", "critical"):
                if changed and getattr(row, side) is not None and row.applies != "never":
                    yield model, name, side


@pytest.mark.parametrize(("model", "check", "side"), list(sides()), ids=lambda one: one or "any")
def test_both_sides_of_each_limit(model: str, check: str, side: str) -> None:
    profile = replace(PROFILE, model=model)
    for is_bad in (False, True):
        row = JudgedNode(profile).rows[check]
        node = JudgedNode(profile, uptime=700.0 if row.since_reset else 90_000.0)
        device = devices(row, profile)[0]
        limit = resolved(getattr(row, side), device, profile)
        assert limit is not None
        classes = [_classes(node, row, device, value, seconds) for value, seconds in _drive(row, limit, is_bad)]
        expected = getattr(row, f"class_{side}")
        before, last = classes[:-1], classes[-1]
        name = f"{check}-site" if row.per == "check" else check
        if is_bad:
            assert last.get(name) == (expected, False), (classes, row)
            if row.debounce > 1:
                assert [one.get(name) for one in before[-(row.debounce - 1) :]] == [("note", True)] * (row.debounce - 1)
        else:
            # Inside this limit: nothing, or the limit that warns earlier.
            assert last.get(name) in (None, (row.class_warn, False) if side == "critical" else None), (classes, row)


def _classes(
    node: JudgedNode, row: ThresholdRow, device: str, value: Value, seconds: float
) -> dict[str, tuple[str, bool]]:
    """Judge one cycle; return check -> class, and whether the finding waits for more samples."""
    if row.per == "check":
        node.extra = [Reading(row.reads, device, value, "site")]
    else:
        node.values[(row.reads, device)] = value
    node.uptime += seconds
    node.time += seconds
    found = rules_readings.judge_readings(node.facts(), node.history, node.profile)
    node.history.record(node.facts())
    return {one.kind: (one.health_class, "samples in a row" in one.found) for one in found if not one.unread}


def _drive(row: ThresholdRow, limit: float | str, is_bad: bool) -> list[tuple[Value, float]]:
    """Return values and the seconds before each, so that the last cycle is just beyond the limit, or just inside."""
    if row.kind in ("level", "at_least"):
        assert not isinstance(limit, str)
        step = 0.01 if isinstance(limit, float) else 1
        bad = limit if row.kind == "level" else limit - step
        good = limit - step if row.kind == "level" else limit
        return [(bad if is_bad else good, 60.0)] * row.debounce
    if row.kind == "equals":
        good_word: Value = limit.split("|")[-1].upper() if isinstance(limit, str) else limit
        bad_word: Value = (
            ("other" if row.per != "check" else {"ok": "warn", "ok|warn": "fail"}[str(limit)])
            if isinstance(limit, str)
            else 1 - limit
        )
        return [(bad_word if is_bad else good_word, 60.0)] * row.debounce
    assert not isinstance(limit, str)
    if row.kind == "delta":
        return [(40, 60.0), (40 + limit - (0 if is_bad else 1), 60.0)]
    cycles = max(1, round(row.window / 60))
    if row.counts == "states":
        active = round(limit * row.window / row.per_second) - (0 if is_bad else 1)
        return [(int(number < active), 60.0) for number in range(cycles)]
    step = limit * 60 / row.per_second * (1.0 if is_bad else 0.99)
    return [(40 + step * number, 60.0) for number in range(cycles + 1)]


@pytest.mark.parametrize("check", list(ROWS))
def test_each_row_names_its_source(check: str) -> None:
    row = ROWS[check]
    assert row.source
    assert row.about
    assert row.remedy or row.critical is None or row.per == "check"


def test_the_devices_of_this_test_are_in_the_profile() -> None:
    node = JudgedNode()
    assert {GPU, MOUNT, "mlx5_0/1", "2M", ""} <= {device for _quantity, device in node.values}
    assert JudgedNode(NodeProfile()).tick().status == "ok"


@pytest.mark.parametrize(("value", "bad"), [("", True), ("0", True), ("580.95.05", False)])
def test_any_value_is_one_that_is_there(value: str, bad: bool) -> None:
    assert is_beyond("equals", value, ANY) is bad
