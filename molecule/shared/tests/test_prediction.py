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
    """Return what changed: host and task -> files and units, of all the times that the task ran there."""
    found: dict[str, list[str]] = {}
    for line in results:
        if line["changed"]:
            found.setdefault(f"{line['host']}: {line['task']}", []).extend(line["changes"])
    return found


def names(changes: list[str]) -> set[str]:
    """Return the files and units of a task.

    What is done to a unit may be less than predicted: a package has enabled it by then, and has made its directories.
    """
    return {change.partition(": ")[0] for change in changes} - {"systemd"}


def by_host(run: dict[str, list[str]]) -> dict[str, set[str]]:
    """Return host -> files and units; two tasks may share a file, which only the first of them changes."""
    found: dict[str, set[str]] = {}
    for task, changes in run.items():
        found.setdefault(task.partition(":")[0], set()).update(names(changes))
    return found


def enabled(run: dict[str, list[str]]) -> set[str]:
    """Return the units that are to be enabled and no more; a package may have done it by then."""
    return {
        change.removesuffix(": enabled")
        for changes in run.values()
        for change in changes
        if change.endswith(": enabled")
    }


def held(run: dict[str, list[str]]) -> set[str]:
    """Return the packages that are held now: of those that came as dependencies nobody knew before."""
    return {
        change.removesuffix(": held") for changes in run.values() for change in changes if change.endswith(": held")
    }


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


def test_the_same_files_and_units_were_predicted(first_two):
    predicted, done = (by_host(run) for run in first_two)
    for host, changes in done.items():
        # A package may have made a directory by then.
        left = predicted[host] - changes - enabled(first_two[0])
        more = {name for name in left if not any(f.startswith(f"{name}/") for f in changes)}
        assert (host, changes - predicted[host] - held(first_two[1]), more) == (host, set(), set())


def test_the_run_after_it_changed_nothing():
    assert changed(runs()[2]) == {}
