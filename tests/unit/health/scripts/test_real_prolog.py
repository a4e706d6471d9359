# SPDX-License-Identifier: GPL-3.0-or-later
"""A real slurmd runs the scripts: a job starts as fast as with `exit 0`, fails only on a sick node, and is recorded at its end."""

from __future__ import annotations

import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.health.scripts.script_node import FILES, ScriptNode
from tests.unit.slurm.nodes.real_slurm import RealSlurm, is_there

pytestmark = [
    pytest.mark.tools,
    pytest.mark.daemons,
    pytest.mark.skipif(not is_there() or os.geteuid() != 0, reason="needs Slurm's daemons, as root"),
]
STARTS = 15
MOST_SECONDS = 0.05
DAY = 86400
# Writes a verdict, and then hangs with its files open and locked, as a probe in a driver that does not answer.
_HUNG = """
import fcntl, os, signal, sys
verdict = open(sys.argv[1], "w"); verdict.write(sys.argv[2]); verdict.flush()
fcntl.flock(verdict, fcntl.LOCK_EX)
os.kill(os.getpid(), signal.SIGSTOP)
"""


class Cluster:
    """Slurm with the scripts at fixed paths, so that another prolog needs no other slurm.conf."""

    def __init__(self, slurm: RealSlurm, node: ScriptNode) -> None:
        self.slurm = slurm
        self.node = node

    def prolog(self, text: str) -> None:
        """Replace the prolog. Slurm opens it by its name at each job."""
        path = self.node.folder / "prolog.new"
        path.write_text(text)
        path.chmod(0o755)
        path.rename(self.node.folder / "prolog")

    def verdict(self, words: str) -> str:
        """Write a verdict of now, `<status> <class> <text>`."""
        status, health_class, text = words.split(" ", 2)
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        uptime = Path("/proc/uptime").read_text().partition(".")[0]
        line = f"1 {status} {boot} {uptime} {DAY} {health_class} {text}".rstrip() + "\n"
        self.node.verdict(line)
        return line

    def start(self) -> float:
        """Start a job on a node that is free, and return the seconds until its first and only process ended."""
        self.slurm.until(lambda nodes: nodes["n1"].states == {"IDLE"})
        begin = time.monotonic()
        done = self.slurm.srun("--nodelist=n1", "true")
        assert done.returncode == 0, done.stderr
        return time.monotonic() - begin


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    node = ScriptNode(tmp_path_factory.mktemp("node"))
    folder = tmp_path_factory.mktemp("slurm")
    node.stub("systemctl")
    epilog = node.script("bedplate-epilog.sh", moved=FILES)
    check = node.script("bedplate-health-check.sh", ("until=600", "until=0"), moved=FILES)
    shutil.copy(node.script("bedplate-prolog.sh", moved=FILES), node.folder / "own")
    options = [
        # Without PrologFlags=Alloc: with it srun looks for the end of the prolog at once, after 0.1 s and after a second, so it would
        # hide a difference. Here the prolog is a part of the launch.
        f"Prolog={node.folder}/prolog",
        f"Epilog={epilog}",
        f"HealthCheckProgram={check}",
        "HealthCheckInterval=2",
        "HealthCheckNodeState=ANY",
        "SchedulerParameters=nohold_on_prolog_fail",
    ]
    shutil.copy(node.folder / "own", node.folder / "prolog")
    with RealSlurm(folder, options=options) as slurm:
        yield Cluster(slurm, node)


@pytest.fixture
def own(cluster: Cluster) -> str:
    text = (cluster.node.folder / "own").read_text()
    cluster.prolog(text)
    return text


def test_a_job_starts_as_fast_as_with_an_empty_prolog_also_while_the_agent_hangs(cluster, own):
    line = cluster.verdict("ok - ")
    argv = [sys.executable, "-c", _HUNG, str(cluster.node.health / "verdict"), line]
    times: dict[str, list[float]] = {"empty": [], "own": [], "own beside a hung agent": []}
    for _ in range(STARTS):
        cluster.prolog("#!/bin/sh\nexit 0\n")
        times["empty"].append(cluster.start())
        cluster.prolog(own)
        times["own"].append(cluster.start())
        agent = subprocess.Popen(argv)
        os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
        times["own beside a hung agent"].append(cluster.start())
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    medians = {name: statistics.median(found) for name, found in times.items()}
    print({name: [f"{one * 1000:.0f}" for one in (medians[name], *sorted(found))] for name, found in times.items()})
    for name in times:
        assert medians[name] - medians["empty"] < MOST_SECONDS, medians
    assert cluster.node.passed() == []


def test_a_sick_node_is_drained_and_the_job_goes_elsewhere(cluster, own):
    cluster.verdict("fail cannot-run gpu-lost@0000:3b:00.0")
    job = cluster.slurm.srun("--nodelist=n2", "--immediate=20", "true")
    nodes = cluster.slurm.until(lambda nodes: "DRAIN" in nodes["n2"].states)
    assert nodes["n2"].reason.startswith("Prolog error")
    assert job.returncode != 0
    log = (cluster.slurm.folder / "n2.log").read_text()
    assert "no job can run on this node: gpu-lost@0000:3b:00.0" in log
    cluster.verdict("fail reset gpu-remap-pending@0000:3b:00.0")
    cluster.slurm.scontrol("update", "nodename=n2", "state=resume")
    assert cluster.start() > 0


def test_a_job_that_ends_is_recorded(cluster, own):
    cluster.verdict("ok - ")
    ring = cluster.node.health / "jobs"
    cluster.slurm.until(lambda nodes: nodes["n1"].states == {"IDLE"})
    ring.unlink(missing_ok=True)
    before = float(Path("/proc/uptime").read_text().split()[0])
    job = cluster.slurm.submit("n1", 1)
    cluster.slurm.until(lambda nodes: nodes["n1"].states == {"IDLE"})
    (words,) = [line.split() for line in ring.read_text().splitlines()]
    assert words[:2] == [job, "0"]
    # Slurm gives the start from 23.02 on.
    assert words[2] == "-" or abs(int(words[2]) - time.time()) < 60
    assert int(before) <= int(words[3]) <= float(Path("/proc/uptime").read_text().split()[0])


def test_slurmd_restarts_a_dead_agent_once(cluster):
    (cluster.node.health / "verdict").unlink(missing_ok=True)
    log = cluster.node.folder / "systemctl.log"
    end = time.monotonic() + 30
    while not log.exists():
        assert time.monotonic() < end, "slurmd ran no health check"
        time.sleep(0.2)
    time.sleep(5)
    assert log.read_text().splitlines() == ["--no-block restart bedplate-health.service"]
