# SPDX-License-Identifier: GPL-3.0-or-later
"""Reports to Slurm: on change only, with keys of others kept, and with pauses while slurmctld does not answer."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import slurm_report
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.slurm_report import (
    SlurmReporter,
    extra_of,
    jitter_of,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport, merged

from .agent_kit import FakeSlurm

SICK = NodeReport("fail", "reset", ("xid-48@0000:3b:00.0",), 100, "5f2c1a90", (4711,), "ab12cd34")
WELL = NodeReport("ok", "", (), 50, "5f2c1a90")
NODE = "gpu001"


def after(reporter: SlurmReporter, start: float, seconds: float) -> float:
    """Step twice a second, and return the uptime at the end."""
    for half in range(int(seconds * 2) + 1):
        reporter.step(start + half / 2)
    return start + seconds


def test_report_keeps_other_keys() -> None:
    slurm = FakeSlurm(extra='{"site": {"rack": 7}}')
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(SICK, 1000)
    after(reporter, 1000, 30)
    data = json.loads(slurm.extra)
    assert data["site"] == {"rack": 7}
    assert (data["bp"]["s"], data["bp"]["g"], data["bp"]["e"], data["bp"]["j"]) == ("fail", "reset", "ab12cd34", [4711])
    assert reporter.sent == SICK
    assert slurm.updates == [("scontrol", "update", f"nodename={NODE}", f"extra={slurm.extra}")]


def test_report_waits_for_the_part_of_its_node() -> None:
    slurm = FakeSlurm()
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(SICK, 1000)
    reporter.step(1000 + jitter_of(NODE) - 0.1)
    assert slurm.calls == []
    reporter.step(1000 + jitter_of(NODE))
    assert len(slurm.calls) == 1


def test_nodes_spread_their_reports() -> None:
    waits = sorted(jitter_of(f"gpu{number:04}") for number in range(2000))
    assert waits[0] < 0.5
    assert waits[-1] > 19.5
    assert max(sum(second <= one < second + 1 for one in waits) for second in range(20)) < 200


def test_cannot_run_waits_for_nothing() -> None:
    slurm = FakeSlurm()
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(SICK, 1000)
    reporter.propose(replace(SICK, health_class="cannot-run"), 1000, at_once=True)
    reporter.step(1000)
    reporter.step(1000.1)
    reporter.step(1000.2)
    assert json.loads(slurm.extra)["bp"]["g"] == "cannot-run"


def test_second_report_has_a_distance_but_a_worse_one_has_none() -> None:
    slurm = FakeSlurm()
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(WELL, 1000)
    after(reporter, 1000, 20)
    reporter.propose(SICK, 1020)
    after(reporter, 1020, 20)
    assert len(slurm.updates) == 2
    reporter.propose(WELL, 1040)
    after(reporter, 1040, 40)
    assert len(slurm.updates) == 2
    reporter.propose(replace(SICK, health_class="cannot-run"), 1080, at_once=True)
    after(reporter, 1080, 1)
    assert len(slurm.updates) == 3


def test_same_state_in_slurm_is_not_written_again() -> None:
    slurm = FakeSlurm(extra=merged("", SICK))
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(replace(SICK, time=999, jobs=()), 1000)
    after(reporter, 1000, 60)
    assert slurm.updates == []
    assert reporter.sent == SICK


def test_report_that_slurm_lost_is_sent_again() -> None:
    slurm = FakeSlurm()
    reporter = SlurmReporter(NODE, slurm, sent=SICK)
    after(reporter, 1000, 60)
    assert len(slurm.updates) == 1
    slurm.extra = ""
    after(reporter, 1060, 60)
    assert len(slurm.updates) == 1
    after(reporter, 1000 + slurm_report.AGAIN, 120)
    assert len(slurm.updates) == 2


@pytest.mark.parametrize("text", ["rack 7", "[1]", '{"a": ', "null"])
def test_text_of_the_site_is_never_touched(text: str) -> None:
    slurm = FakeSlurm(extra=text)
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(SICK, 1000)
    after(reporter, 1000, 600)
    assert slurm.extra == text
    assert slurm.updates == []
    assert len(slurm.calls) == 1
    assert reporter.is_foreign
    assert "Extra" in reporter.problem
    slurm.extra = "{}"
    after(reporter, 1600, 3700)
    assert reporter.sent == SICK
    assert (reporter.problem, reporter.is_foreign) == ("", False)


def test_pauses_grow_while_slurmctld_is_down_and_the_last_state_is_sent() -> None:
    slurm = FakeSlurm(is_down=True)
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(WELL, 1000)
    after(reporter, 1000, 3600)
    assert 10 < len(slurm.calls) < 30
    assert "Unable to contact" in reporter.problem
    reporter.propose(SICK, 4600)
    slurm.is_down = False
    after(reporter, 4600, 400)
    assert reporter.sent == SICK
    assert reporter.problem == ""
    assert len(slurm.updates) == 1


def test_hung_scontrol_is_not_started_twice() -> None:
    slurm = FakeSlurm(is_hung=True)
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(SICK, 1000)
    after(reporter, 1000, 60)
    assert slurm.calls == []
    assert "does not end" in reporter.problem
    slurm.is_hung = False
    after(reporter, 1060, 400)
    assert reporter.sent == SICK


def test_change_during_a_command_is_part_of_it() -> None:
    slurm = FakeSlurm()
    reporter = SlurmReporter(NODE, slurm)
    reporter.propose(WELL, 1000)
    reporter.step(1000 + jitter_of(NODE))
    reporter.propose(SICK, 1000 + jitter_of(NODE))
    after(reporter, 1001 + jitter_of(NODE), 5)
    assert json.loads(slurm.extra)["bp"]["s"] == "fail"
    assert len(slurm.updates) == 1


def test_extra_of_the_output() -> None:
    assert extra_of('NodeName=a\n   Comment=x\n   Extra={"a": 1}\n   Partitions=p\n') == '{"a": 1}'
    assert extra_of("NodeName=a\n   Comment=Extra=x\n") == ""


@pytest.mark.parametrize("argv", [("scontrol", "show", "node", NODE), ("scontrol", "update", "nodename", "extra={}")])
def test_command_that_ends_too_late_changes_nothing(argv: tuple[str, ...]) -> None:
    slurm = FakeSlurm()
    reporter = SlurmReporter(NODE, slurm)
    slurm.waiting.append(("extra-read" if argv[1] == "show" else "extra-write", argv))
    reporter.step(5.0)
    assert (reporter.sent, reporter.is_running, slurm.updates) == (None, False, [])


def test_changes_during_an_outage_keep_the_pause() -> None:
    slurm = FakeSlurm(is_down=True)
    reporter = SlurmReporter(NODE, slurm)
    for half in range(60):
        reporter.propose(SICK if half % 2 else WELL, 1000.0 + 60 * half)
        after(reporter, 1000.0 + 60 * half, 59)
    assert len(slurm.calls) < 30


def test_nodes_spread_their_reports_after_an_outage() -> None:
    dues = []
    for number in range(20):
        reporter = SlurmReporter(f"gpu{number:03}", FakeSlurm(is_down=True))
        reporter.propose(WELL, 1000)
        after(reporter, 1000, 3600)
        dues.append(reporter.due or 0.0)
    assert max(dues) - min(dues) > 60


def test_a_report_with_another_time_is_sent_if_the_clock_was_set() -> None:
    slurm = FakeSlurm(extra=merged("", SICK))
    reporter = SlurmReporter(NODE, slurm)
    later = replace(SICK, time=SICK.time + 5000)
    reporter.propose(SICK, 1000)
    reporter.step(1000 + jitter_of(NODE))
    reporter.propose(later, 1000 + jitter_of(NODE), anew=True)
    after(reporter, 1000 + jitter_of(NODE), 90)
    assert (json.loads(slurm.extra)["bp"]["t"], reporter.sent) == (later.time, later)
    assert len(slurm.updates) == 1
