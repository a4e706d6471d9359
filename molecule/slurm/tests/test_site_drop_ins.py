"""A site's drop-in of slurmd.service under a running job: in force, taken back where slurmd does not start, removed with the variable."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from lab import scenario_run
from lab.scenario_site import CLUSTER_PATH, ssh
from lab.scenario_site import play as play_on_site
from tests.kit.judge import judge
from tests.kit.workload import KINDS, Workload

JOBS = [kind for kind in KINDS if kind.name in ("gpu", "gpu-no-requeue")]
PATH = "/etc/systemd/system/slurmd.service.d/70-site.conf"
STATE = "systemctl show slurmd --property=ActiveState,Environment,InvocationID; cat /etc/systemd/system/slurmd.service.d/70-site.conf"


def play(lines: str | None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run scheduler.yml on one node, with a drop-in of these lines of [Service]; None: without the variable."""
    drop_ins = {} if lines is None else {"slurmd.service": {"70-site.conf": f"[Service]\n{lines}\n"}}
    variables = f"--extra-vars={json.dumps({'slurm_drop_ins': drop_ins})}"
    return play_on_site("scheduler.yml", CLUSTER_PATH, "--limit=gpu01,localhost", variables, *arguments)


def counts(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return scenario_run.recap(done.stdout)["gpu01"]


@pytest.fixture(scope="module", autouse=True)
def jobs() -> Iterator[None]:
    """Run jobs on both nodes meanwhile; none may be hurt."""
    # The module before this one may have left another cluster file in force.
    done = play_on_site("scheduler.yml", CLUSTER_PATH)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    workload = Workload(ssh, "ctl1", ["gpu01", "gpu02"], kinds=JOBS)
    before = workload.start()
    yield
    assert judge(before, workload.observe()) == []
    workload.stop()


def invocation() -> str:
    return ssh("gpu01", "systemctl show slurmd --property=InvocationID").stdout


def test_a_drop_in_is_in_force_after_one_run_and_the_next_run_restarts_nothing():
    old = invocation()
    assert counts(play("Environment=SITE=one", "--check"))["changed"] == 1
    assert invocation() == old
    assert counts(play("Environment=SITE=one"))["changed"] == 1
    assert "SITE=one" in ssh("gpu01", STATE).stdout
    started = invocation()
    assert started != old
    assert counts(play("Environment=SITE=one"))["changed"] == 0
    assert invocation() == started


def test_a_drop_in_with_which_slurmd_does_not_start_is_taken_back():
    done = play("ExecStartPre=/bin/false")
    assert done.returncode != 0
    assert "slurmd.service: must be started, but" in " ".join((done.stdout + done.stderr).split())
    state = ssh("gpu01", STATE).stdout
    assert "ActiveState=active" in state
    assert "SITE=one" in state
    assert "ExecStartPre" not in state


def test_a_drop_in_that_is_no_longer_listed_is_removed_and_slurmd_restarted():
    old = invocation()
    assert counts(play(None))["changed"] == 1
    state = ssh("gpu01", STATE)
    assert "SITE" not in state.stdout
    assert "No such file" in state.stderr
    assert invocation() != old
