# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's memory: saved in one step, and never a reason not to start."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import state_file
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.state_file import Memory
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import (
    KernelEvent,
    NodeFacts,
    Reading,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_cursor import LogState
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.node_extra import NodeReport

from .agent_kit import BOOT, GPU, NOON, REPOSITORY


def memory() -> Memory:
    event = KernelEvent("xid", 94, GPU, "text", 7, 500.0, {"job": "4711"})
    found = Memory(
        LogState(BOOT, 7, NOON, (event,)), report=NodeReport("fail", "reset", ("xid-94",), 5, BOOT[:8], (1,))
    )
    found.published = found.report
    found.count(94, GPU)
    reading = Reading("ecc-corrected", GPU, 5, "nvml")
    found.history.record(NodeFacts(BOOT, 500.0, NOON, (reading,)))
    return found


def test_memory_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    saved = memory()
    state_file.save(path, saved)
    found = state_file.load(path, BOOT)
    assert found.history.save() == saved.history.save()
    assert (found.log, found.report, found.published, found.xids, found.lost) == (
        saved.log, saved.report, saved.published, {("94", GPU): 1}, "",
    )  # fmt: skip


def test_cursor_of_another_boot_is_not_used_and_its_events_have_their_time(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state_file.save(path, memory())
    found = state_file.load(path, BOOT.replace("5f2c", "0000"))
    assert (found.log.sequence, found.lost, found.log.lost) == (-1, "", False)
    [event] = found.log.events
    assert (event.details["boot"], event.details["time"]) == (BOOT, f"{NOON + 500:.0f}")


def test_first_start_is_no_loss(tmp_path: Path) -> None:
    found = state_file.load(tmp_path / "state.json", BOOT)
    assert (found.lost, found.log.lost) == ("", False)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"version": 2}', '{"version": 1}', "\x00" * 100, "[" * 100_000]
)
def test_file_that_is_not_a_memory_is_set_aside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    found = state_file.load(path, BOOT)
    assert found.lost
    assert found.log.lost
    assert path.with_name("state.json.unread").read_text() == text
    state_file.save(path, found)
    assert state_file.load(path, BOOT).lost == ""


def test_torn_file_at_each_length(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state_file.save(path, memory())
    whole = path.read_bytes()
    for length in range(0, len(whole) - 1, 13):
        path.write_bytes(whole[:length])
        assert state_file.load(path, BOOT).lost


@given(st.data())
@hypothesis_settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_change_of_the_file_raises(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "state.json"
    state_file.save(path, memory())
    content = json.loads(path.read_bytes())
    values = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=3), st.just({}))
    place = content
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if isinstance(place[key], dict) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(values)
        break
    path.write_text(json.dumps(content))
    state_file.load(path, BOOT)


def test_too_large_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b" " * (state_file.LARGEST + 10))
    assert "larger" in state_file.load(path, BOOT).lost


def test_counters_are_bounded() -> None:
    found = Memory(LogState(BOOT))
    for number in range(2000):
        found.count(number, GPU)
    assert len(found.xids) == state_file.MOST_COUNTERS + 1
    assert sum(found.xids.values()) == 2000


def test_full_disk_leaves_the_old_state(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state_file.save(path, memory())
    before = path.read_bytes()
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import state_file\n"
        "memory = state_file.load(Path(sys.argv[1]), sys.argv[2])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    state_file.save(Path(sys.argv[1]), memory)\nexcept OSError as error:\n    sys.exit(error.errno)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "collections")}
    done = subprocess.run([sys.executable, "-c", code, str(path), BOOT], env=environment, check=False)
    assert done.returncode == 27  # EFBIG
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 100


WRITER = """
import sys, pathlib
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import state_file
path = pathlib.Path(sys.argv[1])
memory = state_file.load(path, sys.argv[2])
print(memory.lost, flush=True)
while True:
    memory.count(len(memory.xids) % 400, "gpu" * 20)
    state_file.save(path, memory)
"""


def test_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state_file.save(path, memory())
    chance = random.Random(11)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "collections")}
    for _ in range(8):
        argv = [sys.executable, "-c", WRITER, str(path), BOOT]
        with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            time.sleep(0.02 + chance.random() / 10)
            process.send_signal(signal.SIGKILL)
        assert state_file.load(path, BOOT).lost == ""
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_too_large_memory_keeps_cursor_and_newest_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = memory()
    events = tuple(KernelEvent("xid", 94, GPU, "x" * 400, number, 500.0, {}) for number in range(1000))
    found.log = LogState(BOOT, 1000, NOON, events)
    monkeypatch.setattr(state_file, "LARGEST", 150_000)
    state_file.save(tmp_path / "state.json", found)
    read = state_file.load(tmp_path / "state.json", BOOT)
    assert (read.lost, read.log.sequence, read.log.events[-1].sequence) == ("", 1000, 999)
    assert (tmp_path / "state.json").stat().st_size <= 150_000


def test_temporary_files_of_a_killed_agent_are_removed(tmp_path: Path) -> None:
    state_file.save(tmp_path / "state.json", memory())
    (tmp_path / ".state.json.0123abcd.tmp").write_text("half")
    assert state_file.load(tmp_path / "state.json", BOOT).lost == ""
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_too_many_saved_counters_are_cut(tmp_path: Path) -> None:
    found = memory()
    found.xids = {(str(number), GPU): 1 for number in range(1000)}
    state_file.save(tmp_path / "state.json", found)
    assert len(state_file.load(tmp_path / "state.json", BOOT).xids) == state_file.MOST_COUNTERS
