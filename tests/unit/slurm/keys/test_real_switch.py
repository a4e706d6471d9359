# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs, steps that run, steps that start meanwhile and arrays survive the switch of the munge key on real daemons."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import KeyTurnError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.switch_key import Clock, switch_at
from tests.unit.slurm.keys.real_munge import CONTROLLER, MACHINES, NODES, MungedSlurm

pytestmark = [pytest.mark.daemons, pytest.mark.tools("slurmctld", "slurmd", "scontrol", "sbatch", "munged")]
PAUSE = 4.0


@pytest.fixture
def cluster(tmp_path: Path):
    with MungedSlurm(tmp_path, os.urandom(1024)) as found:
        yield found


def switch(cluster: MungedSlurm, key: bytes) -> dict[str, float]:
    """Switch all machines at one time, as the module does; return for how long each munged did not answer."""
    cluster.stage(key)
    pause_at = time.time() + 1

    def one(name: str) -> float:
        later = 2.0 if name == CONTROLLER else 0.0
        files, run = cluster.files(name), cluster.runner(name)
        return switch_at(files, "munge.service", pause_at + later, pause_at + PAUSE, lambda: True, run, Clock())

    with ThreadPoolExecutor() as pool:
        return dict(zip(MACHINES, pool.map(one, MACHINES), strict=True))


def test_no_job_and_no_step_is_lost(cluster: MungedSlurm):
    cluster.submit("ends_in", "sleep 5; exit 3")
    cluster.submit("ends_after", "sleep 14; exit 4")
    cluster.submit("step_runs", "srun --ntasks=2 sleep 14; exit $?", "--ntasks=2", "--nodes=2")
    cluster.submit("step_ends_in", "srun --ntasks=2 sleep 5; exit $?", "--ntasks=2", "--nodes=2")
    cluster.submit("steps_start", "for i in $(seq 20); do srun --ntasks=1 true || echo LOST; sleep 0.3; done")
    cluster.submit("array", "sleep 1; exit 5", "--array=1-12%4")
    time.sleep(2)
    key = os.urandom(1024)
    silent = switch(cluster, key)
    assert all(seconds > 1 for seconds in silent.values()), silent

    expected = {"ends_in": "3:0", "ends_after": "4:0", "step_runs": "0:0", "step_ends_in": "0:0", "steps_start": "0:0"}
    assert cluster.ended() == {**dict.fromkeys(expected.items(), 1), ("array", "5:0"): 12}
    assert cluster.output("steps_start") == ""
    assert cluster.states() == ["idle"] * len(NODES)
    assert {cluster.files(name).path.read_bytes() for name in MACHINES} == {key}
    assert not any(cluster.files(name).staged.exists() for name in MACHINES)


def test_a_wrong_staged_key_is_refused_before_munge_stops(cluster: MungedSlurm):
    cluster.stage(os.urandom(1024))
    files = cluster.files(CONTROLLER)
    before = files.path.read_bytes()

    def is_pending() -> bool:
        return files.is_pending("another", "salt")

    with pytest.raises(KeyTurnError, match="is not the staged key of this turn"):
        switch_at(files, "munge.service", time.time(), time.time(), is_pending, cluster.runner(CONTROLLER), Clock())
    assert files.path.read_bytes() == before
    assert cluster.states() == ["idle"] * len(NODES)
