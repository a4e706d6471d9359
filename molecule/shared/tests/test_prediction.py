"""The run with --check on fresh machines predicted what the first run then changed: the same tasks, files and units."""

from __future__ import annotations

import json
import os
from itertools import groupby
from pathlib import Path

import pytest

testinfra_hosts = ["local://"]


def runs() -> list[list[dict]]:
    """Return the runs of the scenario's converge playbook, in order, each with its results."""
    text = Path(os.environ["BEDPLATE_CHANGES"]).read_text()
    found = [
        list(results) for _run, results in groupby(map(json.loads, text.splitlines()), key=lambda line: line["run"])
    ]
    return [results for results in found if results[0]["run"].startswith("converge ")]


def changed(results: list[dict]) -> dict[str, list[str]]:
    """Return what changed: host and task -> files and units."""
    return {f"{line['host']}: {line['task']}": line["changes"] for line in results if line["changed"]}


def names(changes: list[str]) -> set[str]:
    """Return the files and units of a task.

    What is done to a unit may be less than predicted: a package has enabled it by then, and has made its directories.
    """
    return {change.partition(": ")[0] for change in changes} - {"systemd"}


@pytest.fixture(scope="module")
def first_two() -> tuple[dict, dict]:
    check, apply = runs()[:2]
    assert all(line["check"] for line in check if line["host"] != "localhost")
    assert not any(line["check"] for line in apply)
    return changed(check), changed(apply)


def test_every_change_was_predicted(first_two):
    predicted, done = first_two
    assert done
    assert set(done) - set(predicted) == set()


def test_every_prediction_came_true(first_two):
    predicted, done = first_two
    assert set(predicted) - set(done) == set()


def test_each_file_and_unit_was_predicted(first_two):
    predicted, done = first_two
    for task, changes in done.items():
        assert (task, names(changes) - names(predicted[task])) == (task, set())


def test_the_run_after_it_changed_nothing():
    assert changed(runs()[2]) == {}
