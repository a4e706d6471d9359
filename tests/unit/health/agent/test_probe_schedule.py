# SPDX-License-Identifier: GPL-3.0-or-later
"""The probes of each tick: one child of a kind, samples that count once, a child that no signal ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.probe_schedule import ProbeSchedule
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import Reading
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.all_probes import NVML, Probe
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import ProbeChildren

from .agent_kit import wait_for


class Clocked:
    """A schedule whose clock the test moves; a kill does nothing until `release`."""

    def __init__(self, folder: Path, *probes: Probe) -> None:
        self.now = 1000.0
        self.kills: list[int] = []
        self.probes = list(probes)
        self.children = ProbeChildren(folder, clock=lambda: self.now, kill=self.kills.append)
        self.schedule = ProbeSchedule(self.children, lambda: (self.probes, ()), str(folder))

    def tick(self) -> None:
        self.schedule.begin(self.now, 60.0)

    def pass_time(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.now += 1
            self.schedule.collect(self.now)

    def collect(self) -> None:
        """Collect until no child runs, in real time: the clock of the test stays."""
        wait_for(lambda: self.schedule.collect(self.now) or not self.schedule.is_running)
        wait_for(lambda: bool(self.schedule.collect(self.now)) or not self.schedule.is_running)

    def value(self, quantity: str) -> list[object]:
        return [one.value for one in self.schedule.readings() if one.quantity == quantity]


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Clocked]:
    """Return a schedule whose NVML child sleeps and survives each kill."""
    started = tmp_path / "started"
    script = f"echo x >> {started}; exec sleep 600"
    clocked = Clocked(tmp_path, Probe(NVML, ("sh", "-c", script), 30, source="nvml", quantities=("gpu-lost",)))
    yield clocked
    for pid in set(clocked.kills):
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_hung_driver_counts_deadlines_and_never_has_a_second_child(hung: Clocked, tmp_path: Path) -> None:
    hung.tick()
    wait_for((tmp_path / "started").exists)
    hung.pass_time(29)
    assert not hung.schedule.is_answered
    hung.pass_time(31)
    assert hung.value("driver-hang") == [1]
    assert hung.value("gpu-lost") == [None]
    assert not hung.schedule.is_running
    for missed in (2, 3, 4):
        start = time.monotonic()
        hung.tick()
        hung.pass_time(60)
        assert time.monotonic() - start < 2
        assert hung.value("driver-hang") == [missed]
    assert (tmp_path / "started").read_text() == "x\n"
    os.killpg(hung.kills[0], signal.SIGKILL)
    wait_for(lambda: not hung.schedule.collect(hung.now) and NVML not in hung.children.leftovers)
    hung.tick()
    assert hung.schedule.is_running
    wait_for(lambda: (tmp_path / "started").read_text() == "x\nx\n")
    hung.kills.append(max(hung.kills[-1], *(child.process.pid for child in hung.children._running.values())))


def test_running_child_is_not_started_again(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path, Probe("pci", ("sleep", "600"), 1000))
    clocked.tick()
    [child] = clocked.children._running.values()
    clocked.pass_time(60)
    clocked.tick()
    assert [one.process.pid for one in clocked.children._running.values()] == [child.process.pid]
    os.killpg(child.process.pid, signal.SIGKILL)


def test_slow_kind_is_read_at_each_tick_until_three_samples_are_equal(tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_text("1")
    line = '{\\"q\\":\\"huge-pages\\",\\"d\\":\\"2M\\",\\"v\\":%s,\\"s\\":\\"sysfs\\",\\"p\\":\\"\\"}'
    script = f'printf "{line}\\n{{\\"end\\":1}}\\n" "$(cat {value})"'
    clocked = Clocked(tmp_path, Probe("huge-pages", ("sh", "-c", script), 10, every=300, quantities=("huge-pages",)))

    def fresh() -> list[Reading]:
        clocked.tick()
        clocked.collect()
        found = list(clocked.schedule.fresh())
        clocked.now += 60
        return found

    assert [len(fresh()) for _ in range(12)] == [1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert clocked.value("huge-pages") == [1]
    value.write_text("0")
    assert [len(fresh()) for _ in range(6)] == [1, 1, 1, 0, 0, 0]
    assert clocked.value("huge-pages") == [0]


def test_readings_of_a_removed_check_end(tmp_path: Path) -> None:
    line = '{"check": "raid", "status": "ok"}'
    clocked = Clocked(tmp_path, Probe("foreign:raid", ("echo", line), 10, source="raid"))
    clocked.tick()
    clocked.collect()
    assert clocked.value("foreign/raid") == ["ok"]
    assert clocked.schedule.ages(clocked.now) == {"foreign:raid": 0.0}
    clocked.probes.clear()
    clocked.tick()
    assert clocked.schedule.readings() == ()
    assert clocked.schedule.ages(clocked.now) == {}


def test_node_without_a_probe_is_answered(tmp_path: Path) -> None:
    clocked = Clocked(tmp_path)
    assert not clocked.schedule.is_answered
    clocked.tick()
    assert clocked.schedule.is_answered
