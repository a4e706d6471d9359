# SPDX-License-Identifier: GPL-3.0-or-later
"""Disposable children: bounds, leftovers, and what a later process of the agent finds.

No test can make a child unkillable without a frozen filesystem, which the virtual machine has. Here the kill does nothing, and the child
sleeps: for the parent it looks the same, except for its state, which tests of `find_leftovers` write into a tree of /proc.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import leftovers
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.leftovers import UNKNOWN, Leftover
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.probe_child import (
    GRACE,
    RECORDS,
    Ended,
    ProbeChildren,
    kill_group,
)

SLEEP = ["sleep", "600"]


@pytest.fixture
def unkillable(tmp_path: Path) -> Iterator[ProbeChildren]:
    """Return children whose kill does nothing; they are killed at the end of the test."""
    children = ProbeChildren(tmp_path, kill=lambda pid: None)
    yield children
    for one in children.leftovers.values():
        os.killpg(one.pid, signal.SIGKILL)


def wait(children: ProbeChildren, seconds: float = 10.0) -> list[Ended]:
    end, found = time.monotonic() + seconds, list[Ended]()
    while children.running and time.monotonic() < end:
        found += children.poll()
        time.sleep(0.005)
    assert not children.running
    return found


def until(is_so: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_output_and_exit_code(tmp_path: Path):
    children = ProbeChildren(tmp_path)
    assert children.start("a", ["sh", "-c", "echo out; echo why >&2; exit 3"], 10)
    assert children.start("b", ["echo", "b"], 10)
    assert not children.start("b", ["echo", "again"], 10)
    assert sorted(wait(children), key=lambda one: one.kind) == [Ended("a", 3, b"out\n", "why"), Ended("b", 0, b"b\n")]
    assert [one.name for one in tmp_path.iterdir()] == [RECORDS]
    assert leftovers.saved(tmp_path / RECORDS) == []


def test_a_program_that_does_not_exist(tmp_path: Path):
    children = ProbeChildren(tmp_path)
    assert children.start("a", ["/does/not/exist"], 10)
    assert wait(children) == [Ended("a", 127, b"", "/does/not/exist: No such file or directory")]


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    children = ProbeChildren(tmp_path / "missing")
    assert children.start("a", ["true"], 10)
    assert [one.code for one in wait(children)] == [127]


def test_a_deadline_kills_the_group_and_keeps_the_output(tmp_path: Path):
    children = ProbeChildren(tmp_path)
    pids = tmp_path / "pids"
    children.start("a", ["sh", "-c", f"sleep 600 & echo $! > {pids}; echo partial; sleep 600"], 0.3)
    assert wait(children) == [Ended("a", None, b"partial\n")]
    assert children.missed == {"a": 1}
    assert children.leftovers == {}
    assert (
        leftovers.process_state(int(pids.read_text())) is None
        or leftovers.process_state(int(pids.read_text())).state == "Z"
    )


def test_processes_that_a_probe_leaves_are_killed(tmp_path: Path):
    children = ProbeChildren(tmp_path)
    children.start("a", ["sh", "-c", "sleep 600 & echo done"], 60)
    begun = time.monotonic()
    assert wait(children) == [Ended("a", 0, b"done\n")]
    assert time.monotonic() - begun < 5
    assert children.missed == {"a": 0}


def test_a_stopped_child_is_killed_at_its_deadline(tmp_path: Path):
    """SIGSTOP is the nearest stand-in for a child that does not run; other than one in a frozen filesystem, it can be killed."""
    children = ProbeChildren(tmp_path)
    children.start("a", ["sh", "-c", "kill -STOP $$"], 0.3)
    assert wait(children) == [Ended("a", None, b"")]


def test_output_is_bounded(tmp_path: Path):
    children = ProbeChildren(tmp_path)
    children.start("a", ["sh", "-c", "exec head -c 8000000 /dev/zero"], 20)
    (ended,) = wait(children)
    assert len(ended.output) == 1 << 20
    assert ended.code not in (0, None)


def test_an_unkillable_child_does_not_block_and_is_not_started_again(unkillable: ProbeChildren):
    unkillable.start("nvml", SLEEP, 0.2)
    begun = time.monotonic()
    assert wait(unkillable) == [Ended("nvml", None, b"")]
    assert time.monotonic() - begun < 0.2 + GRACE + 2
    (left,) = unkillable.leftovers.values()
    assert (left.kind, unkillable.missed) == ("nvml", {"nvml": 1})
    assert not unkillable.start("nvml", SLEEP, 0.2)
    assert unkillable.missed == {"nvml": 2}
    assert unkillable.start("pci", ["echo", "works"], 10)
    assert [one.output for one in wait(unkillable)] == [b"works\n"]
    # Its end frees the kind.
    os.kill(left.pid, signal.SIGKILL)
    until(lambda: unkillable.poll() == [] and not unkillable.leftovers)
    assert unkillable.start("nvml", ["true"], 10)
    wait(unkillable)
    assert unkillable.missed["nvml"] == 0


def test_the_next_process_of_the_agent_finds_the_leftover(unkillable: ProbeChildren, tmp_path: Path):
    unkillable.start("nvml", SLEEP, 60)
    ((pid, kind),) = [(one.pid, one.kind) for one in leftovers.saved(tmp_path / RECORDS)]
    later = ProbeChildren(tmp_path, kill=lambda pid: None)
    assert [(one.pid, one.kind) for one in later.adopt()] == [(pid, kind)]
    assert later.missed == {"nvml": 1}
    assert not later.start("nvml", SLEEP, 1)
    assert later.missed == {"nvml": 2}
    # A process that can kill it starts the kind again.
    os.killpg(pid, signal.SIGKILL)
    wait(unkillable)
    last = ProbeChildren(tmp_path)
    assert last.adopt() == []


def test_a_child_that_can_be_killed_is_no_leftover(tmp_path: Path):
    before = ProbeChildren(tmp_path)
    before.start("nvml", SLEEP, 60)

    def kill(pid: int) -> None:
        kill_group(pid)
        before.poll()  # the parent still exists here, and collects the child; after a restart, process 1 does

    later = ProbeChildren(tmp_path, kill=kill)
    assert later.adopt() == []
    assert later.start("nvml", ["true"], 10)
    wait(later)


class Proc:
    """A tree of /proc with processes and a cgroup."""

    def __init__(self, top: Path) -> None:
        self.proc, self.cgroup = top / "proc", top / "cgroup"
        self.cgroup.mkdir()
        self.pids: list[int] = []

    def add(self, pid: int, state: str, started: int, group: int = 0, name: str = "python3") -> None:
        folder = self.proc / str(pid)
        folder.mkdir(parents=True)
        rest = " ".join(["0"] * 16)
        (folder / "stat").write_text(f"{pid} ({name}) {state} 1 {group or pid} {rest} {started} 0 0\n")
        self.pids.append(pid)
        (self.cgroup / "cgroup.procs").write_text("".join(f"{one}\n" for one in self.pids))

    def find(self, records: Path) -> list[Leftover]:
        return leftovers.find_leftovers(records, self.cgroup, self.proc, own=1)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def test_leftovers_by_record_and_by_cgroup(proc: Proc, tmp_path: Path):
    records = tmp_path / RECORDS
    proc.add(1, "D", 5)  # the agent itself
    proc.add(100, "D", 777, name="a) D (b")
    proc.add(101, "S", 900)
    proc.add(202, "D", 778, group=200)  # nvidia-smi of a probe whose own process ended
    proc.add(300, "D", 779)
    proc.add(400, "S", 780)
    proc.add(500, "Z", 781)
    rows = {100: (777, "nvml"), 101: (901, "pci"), 200: (700, "smi"), 500: (781, "rdma"), 600: (1, "gone")}
    leftovers.save(records, [Leftover(pid, started, kind) for pid, (started, kind) in rows.items()])
    assert proc.find(records) == [Leftover(100, 777, "nvml"), Leftover(200, 700, "smi"), Leftover(300, 779, UNKNOWN)]


@pytest.mark.parametrize(
    "text", ["", "[", "null", "[1]", "{}", '[{"pid": 0, "started": 1, "kind": "a"}]', '[{"pid": true, "started": 1, "kind": "a"}]',
             '[{"pid": "12", "started": 1, "kind": "a"}]', "[" * 100_000],
)  # fmt: skip
def test_records_that_are_malformed_are_ignored(proc: Proc, tmp_path: Path, text: str):
    (tmp_path / RECORDS).write_text(text)
    proc.add(100, "D", 777)
    assert proc.find(tmp_path / RECORDS) == [Leftover(100, 777, UNKNOWN)]


def test_a_process_of_the_group_in_state_d_hangs(proc: Proc):
    proc.add(100, "S", 777)
    assert not leftovers.is_hanging(Leftover(100, 777, "nvml"), proc.cgroup, proc.proc)
    proc.add(202, "D", 778, group=100)
    assert leftovers.is_hanging(Leftover(100, 777, "nvml"), proc.cgroup, proc.proc)
    assert leftovers.is_hanging(Leftover(202, 778, "nvml"), None, proc.proc)
    assert not leftovers.is_hanging(Leftover(202, 779, "nvml"), None, proc.proc)


def test_a_child_of_unknown_kind_stops_all_kinds_until_it_ends(proc: Proc, tmp_path: Path):
    proc.add(100, "D", 777)
    killed: list[int] = []
    children = ProbeChildren(tmp_path, kill=killed.append, proc=proc.proc, cgroup=proc.cgroup)
    assert children.adopt() == [Leftover(100, 777, UNKNOWN)]
    assert killed == []
    assert not children.start("nvml", ["true"], 10)
    assert children.missed["nvml"] == 1
    (proc.proc / "100/stat").unlink()
    assert children.start("nvml", ["true"], 10)
    wait(children)


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("0::/system.slice/bedplate-health.service\n", "system.slice/bedplate-health.service"),
        ("5:devices:/x\n1:name=systemd:/system.slice/a.service\n", "systemd/system.slice/a.service"),
        ("", None),
        ("nonsense\n", None),
    ],
)
def test_own_cgroup(tmp_path: Path, text: str, folder: str | None):
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text(text)
    assert leftovers.own_cgroup(tmp_path, Path("/cg")) == (None if folder is None else Path("/cg") / folder)


def test_this_process_has_a_cgroup_and_a_state():
    assert leftovers.own_cgroup() is not None
    state = leftovers.process_state(os.getpid())
    assert state is not None
    assert state.group == os.getpgrp()


def test_a_full_filesystem_is_no_error(tmp_path: Path):
    leftovers.save(tmp_path / "missing/file", [Leftover(2, 1, "a")])
    leftovers.save(tmp_path / "file", [Leftover(2, 1, "a")])
    assert json.loads((tmp_path / "file").read_text()) == [{"pid": 2, "started": 1, "kind": "a"}]


def test_a_pid_that_another_process_has_now_is_no_leftover(proc: Proc, tmp_path: Path):
    children = ProbeChildren(tmp_path, proc=proc.proc, cgroup=proc.cgroup)
    children.leftovers = {"nvml": Leftover(100, 777, "nvml")}
    proc.add(100, "S", 999)
    assert children.start("nvml", ["true"], 10)
    wait(children)


def test_a_process_of_the_group_of_a_leftover_keeps_its_kind_away(tmp_path: Path):
    first = subprocess.Popen(["sh", "-c", "sleep 600 & :"], start_new_session=True)
    first.wait()
    children = ProbeChildren(tmp_path)
    children.leftovers = {"nvml": Leftover(first.pid, 1, "nvml")}
    try:
        assert not children.start("nvml", ["true"], 10)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
    until(lambda: children.start("nvml", ["true"], 10))
    wait(children)


def test_a_group_of_another_user_is_looked_up_in_proc(proc: Proc, monkeypatch: pytest.MonkeyPatch):
    def refused(_pid: int, _signal: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(leftovers.os, "killpg", refused)
    proc.add(202, "S", 778, group=100)
    assert not leftovers.group_is_gone(100, proc.proc)
    assert leftovers.group_is_gone(300, proc.proc)
