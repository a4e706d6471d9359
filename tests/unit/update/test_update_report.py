"""What a run says about an update: the oldest release of all machines counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update import update_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update.changed_defaults import ChangedDefault
from ansible_collections.bedplate.cluster.plugins.plugin_utils.update.update_report import (
    cluster_release,
    update_lines,
)

CLUSTER = load(str(Path(__file__).parents[1] / "cluster/base.yml"))
CHANGED = (
    ChangedDefault("demo_a", "1", "2", "demo_a: 1 in group_vars", ("n1", "n2", "n3")),
    ChangedDefault("slurm.options.X", "'3'", "not set", "slurm.options: {X: '3'} in the cluster file"),
)


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Have two defaults change, and keep what was asked of."""
    asked: list[Any] = []

    def found(before: Any, now: Any, cluster: Cluster, set_on: Any) -> Iterator[ChangedDefault]:
        asked.append((before["release"], set_on))
        yield from CHANGED

    monkeypatch.setattr(update_report, "changed_defaults", found)
    return asked


def lines(release: str, check: bool = True) -> list[str]:
    return update_lines({"n1": release}, CLUSTER, lambda: {"n1": {}}, check)


@pytest.mark.parametrize(
    ("recorded", "release"),
    [([], ""), (["", ""], ""), (["0.2.0", "0.1.0"], "0.1.0"), (["0.10.0", "0.9.0", ""], "0.9.0")],
)
def test_the_oldest_release_counts_and_new_machines_do_not(recorded: list[str], release: str):
    assert cluster_release(recorded) == release


@pytest.mark.parametrize("release", ["", RELEASE])
def test_without_an_update_nothing_is_said_and_nothing_is_read(changed: list[Any], release: str):
    def unread() -> dict[str, dict[str, Any]]:
        raise AssertionError("the variables of all hosts were read")

    assert update_lines({"n1": release}, CLUSTER, unread, True) == []
    assert changed == []


def test_check_lists_each_default_with_old_value_new_value_place_and_how_to_keep_it(changed: list[Any]):
    first, *others = lines("0.1.0")
    assert ("0.1.0" in first, RELEASE in first, "2 defaults" in first) == (True, True, True)
    assert changed == [("0.1.0", {"n1": {}})]
    assert [line.split(":")[0] for line in others] == ["demo_a", "slurm.options.X"]
    assert all(part in others[0] for part in ("1 becomes 2", "n[1-3]", "demo_a: 1 in group_vars"))
    assert "'3' becomes not set; to keep it" in others[1]


@pytest.mark.parametrize(
    ("places", "shown"),
    [
        (("n1", "n2", "n3"), "(n[1-3])"),
        (("slurm.scripts[0].x",), "(slurm.scripts[0].x)"),
        (("racks.r1.nodes[0].x", "racks.r1.nodes[1].x"), "(racks.r1.nodes[0].x, racks.r1.nodes[1].x)"),
        (tuple(f"a[{number}].x" for number in range(8)), "a[5].x and 2 more)"),
    ],
)
def test_hosts_are_shown_as_a_hostlist_and_elements_of_lists_one_by_one(
    monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...], shown: str
):
    one = ChangedDefault("demo", "1", "2", "demo: 1", places)
    monkeypatch.setattr(update_report, "changed_defaults", lambda *_arguments: [one])
    (_first, line) = lines("0.1.0")
    assert shown in line


def test_a_run_that_updates_says_it_in_one_line(changed: list[Any]):
    (line,) = lines("0.1.0", check=False)
    assert "demo_a, slurm.options.X" in line


def test_an_older_release_than_the_one_on_record_is_named(changed: list[Any]):
    (line,) = lines("99.0.0")
    assert all(part in line for part in ("n1", "99.0.0", RELEASE, "older", "--check --diff"))
    assert changed == []


def test_one_machine_with_a_newer_release_is_named_beside_the_update_of_the_others(changed: list[Any]):
    newer, first, *_others = update_lines({"n1": "0.1.0", "n2": "99.0.0", "n3": ""}, CLUSTER, lambda: {"n1": {}}, True)
    assert newer.startswith("n2: release 99.0.0 ")
    assert first.startswith(f"update of bedplate from 0.1.0 to {RELEASE}: ")


def test_the_defaults_of_the_first_release_are_compared_with_those_of_this_tree():
    found = lines("0.1.0")
    assert "0.1.0" in found[0]
    assert "traceback" not in found[0]


@pytest.mark.parametrize("release", ["0.0.9", "0.0.1"])
def test_a_release_that_nobody_knows_is_named_with_those_that_are_known(release: str):
    (line,) = lines(release)
    assert release in line
    assert "0.1.0" in line
