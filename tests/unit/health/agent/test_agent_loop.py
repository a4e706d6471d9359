# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop with an injected clock: a day of ticks, events at once, quiet after boot, jumps of the clock, a probe that hangs."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import agent_loop
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.clock import Moment
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    NodeFacts,
    NodeProfile,
    Reading,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.judgement import Judgement
from tests.unit.health.probes.machine_kit import Machine

from .agent_kit import BOOT, GPU, NOON, XID_79, XID_94, FakeProbes, Simulation

DAY = 86400
H100 = NodeProfile(model="h100", gpus=8, nvlink=True, driver="580.95.05")
BARE = NodeProfile()
BUS = "0000:1b:00.0"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> list[Reading]:
    """Return what the probes read on a healthy machine with eight GPUs."""
    machine = Machine(tmp_path_factory.mktemp("machine"))
    found = [reading for kind in ("nvml", "driver", "pci") for reading in machine.read(kind)]
    return [*found, *(Reading("driver-hang", "", 0, source) for source in ("nvml", "procfs"))]


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in memory, so that a day of ticks does not wait for a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="bedplate-agent-") as folder:
        yield Path(folder)


def replaced(
    readings: Sequence[Reading], quantity: str, device: str, value: float | None, problem: str = ""
) -> list[Reading]:
    """Return readings with one value changed."""
    return [
        Reading(one.quantity, one.device, value, one.source, problem)
        if (one.quantity, one.device) == (quantity, device)
        else one
        for one in readings
    ]


def test_a_day_of_ticks(memory_folder: Path, healthy: list[Reading]) -> None:
    """The readings of eight GPUs at each tick, an Xid an hour, and a counter that rises."""

    def readings(uptime: float) -> list[Reading]:
        return replaced(healthy, "ecc-corrected", BUS, int(uptime / 900))

    simulation = Simulation(memory_folder, FakeProbes(readings), H100)
    events = {3600.0 * hour + 17: XID_94.replace(": 94", ": 13") for hour in range(1, 24)}
    start = time.process_time()
    simulation.run(DAY, events)
    used = time.process_time() - start
    print(f"a day: {used:.1f} s of CPU, {simulation.agent.cycles} cycles, {simulation.steps} steps")
    assert simulation.agent.cycles == DAY / 60
    assert len(simulation.probes.begun) == DAY / 60
    assert simulation.verdict.status in ("ok", "warn")
    assert simulation.agent.memory.xids[("13", GPU)] == 23
    assert len(simulation.agent.memory.log.events) <= 60
    assert (simulation.paths.state / "state.json").stat().st_size < 1 << 20
    assert len(simulation.slurm.updates) < 20
    assert used < 20


def test_event_is_a_verdict_evidence_and_a_report_with_the_job(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(90)
    assert (simulation.verdict.status, simulation.bundles) == ("ok", [])
    at = simulation.uptime
    simulation.log(XID_79)
    simulation.run(0.3)
    assert simulation.verdict.status == "fail"
    assert simulation.verdict.written - int(at) <= 1
    assert simulation.verdict.text.startswith(f"xid-79@{GPU}")
    [bundle] = simulation.bundles
    assert bundle.name.endswith("xid-79")
    assert b"fallen off" in (bundle / "kernel.log").read_bytes()
    simulation.run(120)
    assert simulation.report["c"] == [f"xid-79@{GPU}"]
    assert simulation.report["j"] == [4711]
    assert simulation.report["e"] == json.loads((bundle / "bundle.json").read_bytes())["digest"]
    assert (simulation.details["evidence"], simulation.details["evidence_folder"]) == (
        simulation.report["e"],
        bundle.name,
    )


def test_state_without_change_is_reported_once_and_has_one_bundle(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.log(XID_79)
    simulation.run(3 * 3600)
    assert len(simulation.bundles) == 1
    assert len(simulation.slurm.updates) == 1
    simulation.start()
    simulation.run(3600)
    assert len(simulation.bundles) == 1, "a restart of the agent is no change"
    assert len(simulation.slurm.updates) == 1


def test_flood_of_one_line_is_judged_twice_a_second_at_most(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(61)
    judged = 0
    inner = simulation.agent.judge

    def counting(*arguments: object) -> object:
        nonlocal judged
        judged += 1
        return inner(*arguments)  # type: ignore[arg-type]

    simulation.agent.judge = counting  # type: ignore[assignment]
    for _ in range(50):
        for _line in range(100):
            simulation.log(XID_94)
        simulation.run(0.1)
    assert judged <= 5 / agent_loop.EVENT_PAUSE + 2
    assert simulation.agent.memory.xids[("94", GPU)] == 5000
    assert len(simulation.agent.memory.log.events) <= 100
    assert len(simulation.agent.publisher.outputs.log.last) == 200  # type: ignore[attr-defined]


def test_sampled_quantity_needs_three_samples(tmp_path: Path, healthy: list[Reading]) -> None:
    sick_from = 1000.0 + 5 * 60

    def readings(uptime: float) -> list[Reading]:
        return replaced(healthy, "thermal-margin", BUS, -5) if uptime >= sick_from else healthy

    simulation = Simulation(tmp_path, FakeProbes(readings), H100)
    simulation.run(5 * 60)
    before = simulation.verdict
    seen = []
    for _ in range(4):
        # Kernel events between ticks are judged with the same sample, which must not count twice.
        simulation.run(60, {20.0: XID_94.replace(": 94", ": 45"), 40.0: XID_94.replace(": 94", ": 45")})
        seen.append(f"thermal-margin@{BUS}" in simulation.verdict.text)
    assert before.status in ("ok", "warn", "unknown")
    assert seen == [False, False, True, True]


@pytest.mark.parametrize("step", [86400.0, -900.0, 800_000_000.0])
def test_a_report_of_a_wrong_clock_is_sent_again_once_the_clock_is_set(tmp_path: Path, step: float) -> None:
    """The limiter compares its time with the boot: a clock without battery begins in another year."""
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(200, {30: XID_79})
    first = simulation.report
    simulation.time += step
    simulation.run(200)
    report = simulation.report
    assert {**report, "t": 0} == {**first, "t": 0}
    assert abs(simulation.time - 200 - report["t"]) < 100
    assert len(simulation.bundles) == 1
    writes = len(simulation.slurm.updates)
    simulation.run(600)
    simulation.start()
    simulation.run(600)
    assert len(simulation.slurm.updates) == writes


def test_before_all_probes_have_answered_only_a_failure_is_published(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: [], seconds=50), BARE)
    simulation.run(20, {5.0: XID_94.replace(": 94", ": 43")})
    assert not (simulation.paths.run / "verdict").exists()
    simulation.log(XID_79)
    simulation.run(1)
    assert simulation.verdict.status == "fail"
    simulation.run(40)
    assert simulation.agent.cycles == 1


@pytest.mark.parametrize("jump", [-5 * 365 * DAY, -3600.0, 3600.0, 30 * 365 * DAY])
def test_jump_of_the_clock_changes_no_verdict_and_no_tick(tmp_path: Path, healthy: list[Reading], jump: float) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: healthy), H100)
    simulation.run(600)
    simulation.log(XID_79)
    simulation.run(60)
    before, updates = simulation.verdict, len(simulation.slurm.updates)
    cycles = simulation.agent.cycles
    simulation.time += jump
    simulation.run(600)
    assert simulation.agent.cycles == cycles + 10
    assert (simulation.verdict.status, simulation.verdict.health_class) == (before.status, before.health_class)
    assert len(simulation.slurm.updates) <= updates + 1
    assert len(simulation.bundles) == 1
    assert simulation.verdict.written >= 2200


def test_suspended_machine_makes_up_for_no_tick(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(120)
    begun = len(simulation.probes.begun)
    simulation.uptime += 8 * 3600
    simulation.time += 8 * 3600
    simulation.run(30)
    assert len(simulation.probes.begun) == begun + 1


def test_slow_probe_changes_no_tick(tmp_path: Path) -> None:
    """A probe of 70 s: ticks go on, and each judges what was read last."""
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: [], seconds=1), BARE)
    simulation.run(300)
    simulation.probes.seconds = 70
    simulation.run(600)
    ages = []
    for _ in range(10):
        simulation.run(30)
        ages.append(simulation.uptime - simulation.verdict.written)
    assert max(ages) <= 120
    assert simulation.verdict.valid == 180


def test_log_that_cannot_be_read_is_unknown_until_it_can(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.kmsg.unlink()
    simulation.start()
    simulation.run(180)
    assert simulation.verdict.status in ("unknown", "warn")
    assert "kernel-log-gap" in simulation.verdict.text
    simulation.kmsg.write_bytes(b"")
    simulation.run(180)
    assert simulation.verdict.status == "ok"


def test_site_text_in_extra_is_in_the_details_and_metrics(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.slurm.extra = "rack seven"
    simulation.log(XID_79)
    simulation.run(200)
    assert simulation.slurm.extra == "rack seven"
    assert "Extra" in simulation.details["problems"]["report"]
    metrics = (tmp_path / "var/metrics/bedplate_health.prom").read_text()
    assert "bedplate_health_extra_foreign 1" in metrics
    assert "bedplate_health_reported 0" in metrics


def test_full_disk_never_stops_the_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(61)

    def full(*_arguments: object, **_more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    monkeypatch.setattr(agent_loop.__name__.replace("agent_loop", "state_file") + ".atomic_write", full)
    simulation.agent.publisher.outputs.evidence.folder = tmp_path / "disk"  # type: ignore[attr-defined]
    simulation.log(XID_79)
    simulation.run(120)
    assert simulation.verdict.status == "fail"
    assert simulation.report["s"] == "fail"
    assert set(simulation.details["problems"]) == {"evidence", "state-unsaved"}


def test_restart_reads_each_record_once(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    for _ in range(5):
        simulation.log(XID_94)
        simulation.run(70)
        simulation.start()
    simulation.run(70)
    assert simulation.agent.memory.xids == {("94", GPU): 5}
    assert not simulation.agent.memory.lost


def test_driver_that_hangs_for_two_sources_is_reported_at_once(tmp_path: Path, healthy: list[Reading]) -> None:
    """Two missed deadlines, seen by NVML and in /proc: no job can run, and Slurm knows it in the same second."""
    hang_from = 1000.0 + 300
    missing = [one for one in healthy if one.quantity != "driver-hang"]

    def readings(uptime: float) -> list[Reading]:
        missed = max(0, int((uptime - hang_from) // 60) + 1)
        return [*missing, *(Reading("driver-hang", "", missed, source) for source in ("nvml", "procfs"))]

    simulation = Simulation(tmp_path, FakeProbes(readings, seconds=0), H100)
    simulation.run(300)
    assert simulation.verdict.status != "fail"
    simulation.run(60)
    assert "driver-hang" not in simulation.verdict.text
    simulation.run(2)
    assert simulation.verdict.health_class == "cannot-run"
    assert simulation.report["g"] == "cannot-run"
    assert simulation.report["c"] == ["driver-hang"]


def test_step_returns_while_probes_run(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: [], seconds=1e9), BARE)
    start = time.monotonic()
    for second in range(300):
        simulation.agent.step(Moment(simulation.uptime + second, simulation.time + second))
    assert time.monotonic() - start < 5


def test_unchanged_state_starts_no_command_of_slurm(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(3600)
    assert [one[1] for one in simulation.slurm.calls] == ["show", "update"]


def test_state_that_was_lost_is_a_problem(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.run(61)
    (simulation.paths.state / "state.json").write_text("{")
    simulation.start()
    simulation.run(61)
    assert "state.json" in simulation.details["problems"]["state"]
    assert (
        'bedplate_health_agent_problem{part="state"} 1' in (tmp_path / "var/metrics/bedplate_health.prom").read_text()
    )


def test_finding_that_a_boot_has_again_has_evidence_again(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.log(XID_79)
    simulation.run(70)
    assert len(simulation.bundles) == 1
    simulation.start()
    published = simulation.agent.memory.published
    assert published
    simulation.agent.memory.published = replace(published, boot="00000000")
    simulation.run(70)
    assert len(simulation.bundles) == 2


def test_details_of_many_findings_are_bounded(tmp_path: Path) -> None:
    readings = [Reading(f"unknown-{number}", "", 1, "nvml") for number in range(500)]
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: readings), BARE)
    simulation.run(70)
    assert len(simulation.details["findings"]) == 200


def test_line_that_is_no_xid_has_no_job(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    simulation.log("mlx5_core 0000:1b:00.0: Health issue observed, fatal error, severity(3) ERROR")
    simulation.log(XID_94)
    simulation.run(5)
    assert [one.kind for one in simulation.agent.memory.log.events if "job" in one.details] == ["xid"]


def test_ticks_before_the_first_answers_make_no_verdict(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: [], seconds=500), BARE)
    simulation.run(400)
    assert not (simulation.paths.run / "verdict").exists()
    simulation.run(200)
    assert simulation.verdict.status == "ok"


def test_finding_that_comes_and_goes_has_evidence_once_an_hour(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    lasting, coming = (finding(check, "reset", "text", device=GPU) for check in ("gpu-lost", "nvlink-down"))
    counts = []
    for minute in range(0, 100, 10):
        found = (lasting, coming) if minute % 20 else (lasting,)
        now = Moment(1000.0 + 60 * minute, NOON + 60 * minute)
        simulation.publisher.publish(
            Judgement(found, "fail", "reset", "text"), NodeFacts(BOOT, now.uptime, now.time), now
        )
        counts.append(len(simulation.bundles))
    assert counts == [1, 2, 2, 2, 2, 2, 2, 3, 3, 3]


class Unanswered(FakeProbes):
    """Probes whose children end without a new answer."""

    def fresh(self) -> tuple[Reading, ...]:
        return ()


def test_reading_of_an_earlier_cycle_is_no_sample(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, Unanswered(lambda _uptime: [Reading("ecc-corrected", BUS, 5, "nvml")]), BARE)
    simulation.run(300)
    assert simulation.agent.memory.history.save()["series"] == []


def test_worse_finding_that_comes_again_has_evidence_at_once(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, FakeProbes(lambda _uptime: []), BARE)
    lasting, worse = finding("task-hung", "degraded", "text"), finding("gpu-lost", "reset", "text", device=GPU)
    counts = []
    for minute in range(4):
        found, health_class = ((worse, lasting), "reset") if minute % 2 else ((lasting,), "degraded")
        now = Moment(1000.0 + 60 * minute, NOON + 60 * minute)
        facts = NodeFacts(BOOT, now.uptime, now.time)
        simulation.publisher.publish(Judgement(found, "fail", health_class, "text"), facts, now)
        counts.append(len(simulation.bundles))
    assert counts == [1, 2, 2, 3]
