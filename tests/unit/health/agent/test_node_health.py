# SPDX-License-Identifier: GPL-3.0-or-later
"""The real program: a record of the kernel's log becomes verdict, evidence and report; signals, lock, memory, a hung probe."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent import node_health
from ansible_collections.bedplate.cluster.plugins.module_utils.health.agent.slurm_report import jitter_of
from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes.leftovers import process_state
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report import verdict_line
from tests.kit.fake_nvml.build import library
from tests.unit.health.probes.machine_kit import Machine

from .agent_kit import GPU, XID_79, XID_94, Node, wait_for

EARLY = next(name for name in (f"gpu{number}" for number in range(1000)) if jitter_of(name) < 0.5)


def resident(pid: int) -> int:
    """Return the largest resident memory of a process so far, in MiB."""
    [line] = [one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM")]
    return int(line.split()[1]) >> 10


def ticks(pid: int) -> float:
    """Return the seconds of CPU that a process and its ended children used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def test_record_becomes_verdict_evidence_and_report_with_its_job(tmp_path: Path) -> None:
    node = Node(tmp_path, {"node": EARLY})
    node.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/cgroup.events", "populated 1\n")
    node.write("run/bedplate/health/jobs", "4710 1000 5 6\n")
    with node.running() as process:
        wait_for(lambda: (found := node.verdict()) is not None and found.status == "ok")
        node.log(1, XID_79)
        seconds = wait_for(lambda: (found := node.verdict()) is not None and found.status == "fail", 5)
        wait_for(lambda: node.extra.get("bp", {}).get("s") == "fail")
        print(f"verdict after {seconds:.2f} s, {resident(process.pid)} MiB")
        assert resident(process.pid) < 64
        [bundle] = [one for one in (node.root / "var/lib/bedplate/health/evidence").iterdir() if one.is_dir()]
        wait_for((bundle / "devices.json").exists)
    report = node.extra["bp"]
    assert report["c"] == [f"xid-79@{GPU}"]
    assert report["j"] == [4711]
    assert report["e"] == json.loads((bundle / "bundle.json").read_bytes())["digest"]
    assert b"fallen off" in (bundle / "kernel.log").read_bytes()
    assert (bundle / "jobs.txt").read_text() == "4710 1000 5 6\n"
    found = node.verdict()
    assert found is not None
    assert found.valid == 6
    assert stat.S_IMODE(node.verdict_file.stat().st_mode) == 0o644
    assert seconds < 2.5


def test_sigterm_ends_it_within_a_second_and_saves_the_cursor(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as process:
        wait_for(lambda: node.verdict() is not None)
        node.log(1, XID_94)
        time.sleep(1.0)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        assert time.monotonic() - start < 1.0
    state = json.loads((node.root / "var/lib/bedplate/health/state.json").read_bytes())
    assert state["log"]["sequence"] == 1
    assert state["xids"] == [["94", GPU, 1]]


def test_systemd_is_notified(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(path)
        server.settimeout(20)
        with Node(tmp_path / "node").running(environment={"NOTIFY_SOCKET": path}) as process:
            assert set(server.recv(1000).decode().split("\n")) == {"READY=1", "WATCHDOG=1"}
            assert server.recv(1000) == b"WATCHDOG=1"
            process.send_signal(signal.SIGTERM)
            while (line := server.recv(1000)) != b"STOPPING=1":
                assert line == b"WATCHDOG=1"


def test_second_agent_refuses_and_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as first:
        wait_for(lambda: node.verdict() is not None)
        second = subprocess.run(node.argv, env=node.environment, capture_output=True, timeout=20, check=False)
        assert second.returncode == node_health.LOCKED
        assert b"another agent runs" in second.stderr
        first.kill()
        first.wait()
        assert subprocess.run([*node.argv, "--once"], env=node.environment, timeout=20, check=False).returncode == 0


def test_once_writes_one_verdict_and_reports_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert subprocess.run([*node.argv, "--once"], env=node.environment, timeout=20, check=False).returncode == 0
    assert node.verdict() is not None
    assert not node.calls.exists()


def test_verdict_that_cannot_be_written_ends_the_agent(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert subprocess.run([*node.argv, "--once"], env=node.environment, timeout=20, check=False).returncode == 0
    (node.verdict_file.parent / "verdict.json").unlink()
    (node.verdict_file.parent / "verdict.json").mkdir()
    done = subprocess.run(node.argv, env=node.environment, capture_output=True, timeout=20, check=False)
    assert done.returncode == node_health.UNWRITTEN
    assert b"the verdict cannot be written" in done.stderr


@pytest.fixture
def small_run(tmp_path: Path) -> Iterator[Node]:
    """Return a node whose /run is a tmpfs of 64 KiB."""
    node = Node(tmp_path)
    run = node.root / "run"
    run.mkdir()
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", run], check=False).returncode:
        if os.environ.get("BEDPLATE_TOOLS") == "required":
            pytest.fail("no tmpfs could be mounted; it needs root")
        pytest.skip("NOT TESTED: a tmpfs needs root")
    yield node
    subprocess.run(["umount", "-l", run], check=True)


def fill(path: Path) -> None:
    """Write a file until its file system is full."""
    with suppress(OSError), path.open("wb", buffering=0) as stream:
        while stream.write(b"x" * 4096):
            pass


def test_full_run_ends_the_agent_without_an_old_good_verdict(small_run: Node) -> None:
    """A verdict "ok", then a full /run and an Xid 79: the unit fails, and the old "ok" is not there any more."""
    node = small_run
    with node.running() as process:
        wait_for(lambda: (found := node.verdict()) is not None and found.status == "ok")
        fill(node.root / "run/filler")
        node.log(1, XID_79)
        assert process.wait(10) == node_health.UNWRITTEN
        assert process.stderr is not None
        assert b"No space left" in process.stderr.read()
    assert not node.verdict_file.exists()
    (node.root / "run/filler").unlink()
    with node.running():
        wait_for(lambda: (found := node.verdict()) is not None and found.status == "fail")


def test_kill_at_any_moment_leaves_files_that_can_be_read(tmp_path: Path) -> None:
    """Kill the agent at random points while records arrive: all its files parse, and each record is counted once."""
    node = Node(tmp_path, {"interval": 1})
    chance = random.Random(3)
    for number in range(1, 9):
        with node.running() as process:
            node.log(number, XID_94)
            time.sleep(0.1 + chance.random())
            process.kill()
            process.wait()
        if node.verdict_file.exists():
            verdict_line.parse(node.verdict_file.read_text())
            json.loads((node.verdict_file.parent / "verdict.json").read_bytes())
        state = node.root / "var/lib/bedplate/health/state.json"
        if state.exists():
            json.loads(state.read_bytes())
    with node.running() as process:
        state = node.root / "var/lib/bedplate/health/state.json"
        wait_for(lambda: state.exists() and json.loads(state.read_bytes())["log"]["sequence"] == 8)
        wait_for(lambda: not list(state.parent.glob(".state*")))
    assert json.loads(state.read_bytes())["xids"] == [["94", GPU, 8]]
    assert not state.with_name("state.json.unread").exists()


def test_what_a_killed_agent_left_half_written_goes_with_the_next_one(tmp_path: Path) -> None:
    node = Node(tmp_path)
    names = [".probes.json.0123abcd.tmp", "probes/.children.json.0123abcd.tmp", ".verdict.0123abcd.tmp"]
    left = [node.write(f"run/bedplate/health/{name}", "{") for name in names]
    kept = node.write("run/bedplate/health/probes.json.tmp", "of a person")
    with node.running():
        wait_for(lambda: node.verdict() is not None, 30)
        assert [one for one in (*left, kept) if one.exists()] == [kept]


def test_hung_check_changes_no_tick_and_is_not_started_twice(tmp_path: Path) -> None:
    """A check that never ends: the verdict is renewed at each tick, and one process of the check exists."""
    node = Node(tmp_path, {"interval": 1})
    started = tmp_path / "started"
    check = node.write("etc/bedplate/health/checks.d/hangs", f"#!/bin/sh\necho x >> {started}\nexec sleep 1000\n")
    check.chmod(0o755)
    check.parent.chmod(0o755)
    good = node.write("etc/bedplate/health/checks.d/good", '#!/bin/sh\necho \'{"check": "good", "status": "ok"}\'\n')
    good.chmod(0o755)
    with node.running() as process:
        wait_for(started.exists)
        for number in range(1, 4):
            node.log(number, XID_79)
            time.sleep(1)
        # Missing answers are no verdict yet, but a failure is one.
        found = node.verdict()
        assert found is not None
        assert found.status == "fail"
        assert started.read_text() == "x\n"
        process.send_signal(signal.SIGTERM)
        start = time.monotonic()
        assert process.wait(5) == 0
        assert time.monotonic() - start < 1.0
    wait_for(lambda: subprocess.run(["pgrep", "-f", str(check)], check=False, capture_output=True).returncode == 1)


def test_cycle_of_eight_gpus_costs_less_than_half_a_percent(tmp_path: Path) -> None:
    """Ten real cycles with a fake NVML of eight GPUs and their children: 0.3 s of CPU in 60 s are half a percent of a core."""
    machine = Machine(tmp_path)
    machine.hca("mlx5_0")
    profile = {"model": "h100", "gpus": 8, "nvlink": True, "rails": ["mlx5_0"], "rails_needed": 1}
    node = Node(tmp_path, {"interval": 1, "profile": profile, "probes": {"library": str(library())}})
    scenario = {name: machine.environment[name] for name in ("FAKE_NVML_SCENARIO", "FAKE_NVML_MARKER")}
    with node.running(environment=scenario) as process:
        wait_for(lambda: node.verdict() is not None)
        details = json.loads((node.verdict_file.parent / "verdict.json").read_bytes())
        assert not any(one["unread"] and one["kind"].startswith("ecc") for one in details["findings"])
        first = details["uptime"]
        before = ticks(process.pid)
        wait_for(lambda: json.loads((node.verdict_file.parent / "verdict.json").read_bytes())["uptime"] >= first + 10)
        each = (ticks(process.pid) - before) / 10
        print(f"a cycle: {each * 1000:.0f} ms of CPU with children, {resident(process.pid)} MiB")
        assert each < 0.3
        assert resident(process.pid) < 64


def test_flood_of_records_is_read_in_bounded_memory(tmp_path: Path) -> None:
    """20,000 records in two seconds: a failure among them is in the verdict, and memory stays small."""
    node = Node(tmp_path, {"interval": 2})
    with node.running() as process:
        wait_for(lambda: node.verdict() is not None)
        before = ticks(process.pid)
        for block in range(20):
            with node.kmsg.open("ab") as stream:
                for line in range(1000):
                    number = block * 1000 + line
                    text = XID_79 if number == 10_000 else f"eth0: link is up, number {number}"
                    stream.write(b"6,%d,%d,-;%s\n" % (number, 10**9 + number, text.encode()))
            time.sleep(0.1)
        wait_for(lambda: (found := node.verdict()) is not None and found.status == "fail", 20)
        state = node.root / "var/lib/bedplate/health/state.json"
        wait_for(lambda: json.loads(state.read_bytes())["log"]["sequence"] == 19_999)
        print(f"20,000 records: {ticks(process.pid) - before:.2f} s of CPU, {resident(process.pid)} MiB")
        assert resident(process.pid) < 64


def recorded(node: Node, folder: str) -> list[int]:
    """Return the pids of the children that the agent has in a folder."""
    path = node.root / "run/bedplate/health" / folder / "children.json"
    return [one["pid"] for one in json.loads(path.read_bytes())] if path.exists() else []


def is_alive(pid: int) -> bool:
    state = process_state(pid)
    return state is not None and state.state != "Z"


def test_reader_of_devices_that_hangs_ends_with_the_agent(tmp_path: Path) -> None:
    node = Node(tmp_path)
    device = node.root / f"sys/bus/pci/devices/{GPU}"
    device.mkdir(parents=True)
    os.mkfifo(device / "current_link_speed")
    with node.running() as process:
        wait_for(lambda: node.verdict() is not None)
        node.log(1, XID_79)
        wait_for(lambda: recorded(node, "devices") != [])
        [pid] = recorded(node, "devices")
        assert is_alive(pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        wait_for(lambda: not is_alive(pid), 5)


def test_scontrol_of_a_killed_agent_is_ended_by_the_next(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.bin / "scontrol").write_text("#!/bin/sh\nexec sleep 600\n")
    with node.running() as first:
        wait_for(lambda: node.verdict() is not None)
        node.log(1, XID_79)
        wait_for(lambda: recorded(node, "slurm") != [], 40)
        [pid] = recorded(node, "slurm")
        first.kill()
        first.wait()
        assert is_alive(pid)
    with node.running():
        wait_for(lambda: not is_alive(pid), 5)
