# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress: lines of plays elsewhere, bars of racks on a terminal, and what a roll has of its nodes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.progress import (
    Hosts,
    Lines,
    Nothing,
    progress_of,
    time_left,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.progress_bars import Bars
from ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.report_document import Place

PLACES = {"n1": Place("r1"), "n2": Place("r1"), "m1": Place("r2")}


class Screen:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def display(self, msg: str) -> None:
        self.lines.append(msg)


def test_the_worst_of_a_host_stays_and_slurm_outranks_it():
    hosts = Hosts()
    hosts.result("n1", "ok", True)
    hosts.result("n1", "skipped", False)
    hosts.result("n2", "failed", False)
    hosts.result("n2", "ok", True)
    assert (hosts.word("n1"), hosts.word("n2"), hosts.word("n3")) == ("changed", "failed", "queued")
    hosts.slurm({"n1": {"outcome": "drained"}, "n2": {"outcome": "draining"}})
    assert hosts.counts() == {"drained": 1, "waiting": 1}
    hosts.slurm({"n1": {"outcome": "resumed"}})
    assert hosts.word("n1") == "changed"


def test_a_line_for_each_play_with_results():
    screen, now = Screen(), [0.0]
    lines = Lines(screen, lambda: now[0])
    lines.to_roll = 4
    lines.play("Check")
    lines.play("Roll")
    lines.result("n1", "ok", True)
    lines.slurm({"n1": {"outcome": "resumed", "changed": True}})
    now[0] = 60.0
    lines.play("Close")
    assert screen.lines == ["Roll: 1 changed (60 s, 1 of 4 nodes rolled, about 3 min left)"]
    lines.end({"nodes": {f"n{number}": {"seconds": number} for number in range(9)}})
    assert screen.lines[1:] == ["slowest: n8 8 s, n7 7 s, n6 6 s, n5 5 s, n4 4 s"]


def test_bars_of_racks():
    output = io.StringIO()
    bars = Bars(PLACES, Console(file=output, width=100, force_terminal=False))
    try:
        bars.play("Update nodes batch by batch")
        bars.result("n1", "ok", True)
        bars.result("ctl1", "failed", False)
        bars.slurm({"n2": {"outcome": "drained"}})
        console = Console(file=output, width=100, color_system=None)
        console.print(bars.drawn())
    finally:
        bars.end({})
    lines = [" ".join(line.replace("█", "").split()) for line in output.getvalue().splitlines() if line.strip()]
    assert lines[0].startswith("Update nodes batch by batch, 0 s")
    assert lines[1:] == ["r1 1 drained, 1 changed", "r2 1 queued", "other machines 1 failed"]


@pytest.mark.parametrize("variable", ["CI", "AWX_ISOLATED_DATA_DIR"])
def test_ansible_runner_and_ci_have_lines_on_a_terminal_too(monkeypatch: pytest.MonkeyPatch, variable: str):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for name in ("CI", "AWX_ISOLATED_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert isinstance(progress_of("auto", PLACES, Screen()), Bars)
    monkeypatch.setenv(variable, "1")
    assert isinstance(progress_of("auto", PLACES, Screen()), Lines)


def test_a_wish_goes_before_the_terminal(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("CI", "1")
    assert isinstance(progress_of("bars", PLACES, Screen()), Bars)
    monkeypatch.delenv("CI")
    assert isinstance(progress_of("lines", PLACES, Screen()), Lines)
    monkeypatch.setattr(
        "ansible_collections.bedplate.cluster.plugins.plugin_utils.run_report.progress_bars.HAS_RICH", False
    )
    assert isinstance(progress_of("bars", PLACES, Screen()), Lines)


def test_a_node_that_slurm_cannot_reboot_counts_as_drained_and_an_unchanged_one_not_as_rolled():
    lines = Lines(Screen())
    lines.slurm({"n1": {"outcome": "silent"}, "n2": {"outcome": "resumed", "changed": False}})
    assert (lines.hosts.word("n1"), lines.rolled) == ("drained", 0)


def test_a_roll_that_has_not_begun_or_is_over_has_no_time_left():
    assert [time_left(*one, 60.0) for one in ((0, 4), (4, 4), (5, 4))] == ["", "", ""]


def test_few_hosts_have_no_slowest():
    screen = Screen()
    Lines(screen).end({"nodes": {"n1": {"seconds": 1}}})
    assert screen.lines == []


@pytest.mark.parametrize(("wish", "kind"), [("off", Nothing), ("lines", Lines), ("auto", Lines)])
def test_lines_where_there_is_no_terminal(wish: str, kind: type):
    assert isinstance(progress_of(wish, PLACES, Screen()), kind)
