# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs, steps that run, steps that start meanwhile and arrays survive a turn of the munge key on real daemons, in any order of machines."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest

from tests.unit.slurm.keys.real_munge import CONTROLLER, MACHINES, NODES, MungedSlurm

pytestmark = [pytest.mark.daemons, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch", "munged")]
# The others run in `make full-daytwo2`.
ORDERS = ["controller first", *(pytest.param(one, marks=pytest.mark.full) for one in ("nodes first", "shuffled"))]
WAITED = re.compile(
    r"srun: (Job \d+ step creation temporarily disabled, retrying \(Requested nodes are busy\)|Step created for job \d+)"
)
LONG = 8
"""Seconds that both keys work after the switch, as the window of a turn."""


@pytest.fixture
def cluster(tmp_path: Path):
    with MungedSlurm(tmp_path, os.urandom(1024)) as found:
        yield found


def in_order(order: str) -> list[str]:
    """Return the machines in an order."""
    found = list(MACHINES)
    if order == "nodes first":
        found.reverse()
    if order == "shuffled":
        random.shuffle(found)
    return found


def submit_meanwhile(cluster: MungedSlurm, ends: threading.Event, lost: list[str]) -> None:
    """Submit jobs and run commands until the turn ends; record what fails."""
    number = 0
    while not ends.is_set():
        number += 1
        for name, argv in (
            (CONTROLLER, ("sbatch", "--output=/dev/null", "--job-name=meanwhile", "--wrap=exit 6")),
            (NODES[number % 2], ("squeue", "--noheader")),
            (CONTROLLER, ("srun", "--job-name=interactive", "--ntasks=1", "hostname")),
        ):
            try:
                cluster.on(name, *argv)
            except AssertionError as error:
                lost.append(str(error))


@pytest.mark.parametrize("order", ORDERS)
def test_no_job_and_no_step_is_lost(cluster: MungedSlurm, order: str):
    cluster.submit("ends_in", "sleep 5; exit 3")
    cluster.submit("ends_after", "sleep 30; exit 4")
    cluster.submit("step_runs", "srun --ntasks=2 sleep 30; exit $?", "--ntasks=2", "--nodes=2")
    cluster.submit("step_ends_in", "srun --ntasks=2 sleep 6; exit $?", "--ntasks=2", "--nodes=2")
    steps = f"while ! test -e {cluster.folder}/over; do srun --ntasks=1 --exact true || echo LOST; sleep 0.2; done"
    cluster.submit("steps_start", steps)
    cluster.submit("array", "sleep 1; exit 5", "--array=1-12%4")
    time.sleep(1)
    key, ends = os.urandom(1024), threading.Event()
    lost: list[str] = []
    clients = threading.Thread(target=submit_meanwhile, args=(cluster, ends, lost))
    clients.start()
    try:
        for name in in_order(order):
            cluster.stage(name, key)
        for name in in_order(order):
            time.sleep(0.3)
            cluster.encode(name, "new")
        time.sleep(LONG)
        for name in in_order(order):
            cluster.finish(name)
        time.sleep(1)
    finally:
        ends.set()
        clients.join()
        (cluster.folder / "over").touch()

    assert lost == []
    ended = cluster.ended()
    meanwhile = {one: ended.pop(one) for one in [("meanwhile", "6:0"), ("interactive", "0:0")]}
    expected = {"ends_in": "3:0", "ends_after": "4:0", "step_runs": "0:0", "step_ends_in": "0:0", "steps_start": "0:0"}
    assert ended == {**dict.fromkeys(expected.items(), 1), ("array", "5:0"): 12}
    assert min(meanwhile.values()) > 3, meanwhile
    # On a busy machine a step may wait for the one before it to end; then it starts.
    assert [line for line in cluster.output("steps_start").splitlines() if not WAITED.fullmatch(line)] == []
    assert cluster.states() == ["idle"] * len(NODES)
    assert {cluster.files(name).path.read_bytes() for name in MACHINES} == {key}
    for name in MACHINES:
        # The second munged has ended, and clients find munge.service.
        assert sorted(cluster.on(name, "ls", "/run/munge").split()) == [
            "munge.socket.2",
            "munge.socket.2.own.lock",
            "munged.pid",
        ]


def test_a_machine_that_starts_again_in_between_has_both_keys(cluster: MungedSlurm):
    """As after a reboot: munge.service with the drop-in, then the second munged, then the socket for both."""
    key, name = os.urandom(1024), NODES[0]
    for machine in MACHINES:
        cluster.stage(machine, key)
        cluster.encode(machine, "new")
    units = ("munge.service", "bedplate-munge-next.service", "bedplate-munge-pair.service")
    cluster.on(name, "systemctl", "stop", *reversed(units))
    for folder in ("munge", "munge-next", "bedplate-munge-pair"):
        assert not (cluster.root(name) / "run" / folder).exists()
    cluster.on(name, "systemctl", "start", *units)
    for socket in ("/run/munge/munge.socket.2", "/run/munge/munge.socket.2.own", "/run/munge-next/munge.socket"):
        made = cluster.on(name, "munge", "--no-input", f"--socket={socket}").strip()
        cluster.on(CONTROLLER, "sh", "-c", f"echo '{made}' | unmunge")
