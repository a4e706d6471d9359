"""Who may log in to a node, and where the login ends up."""

from __future__ import annotations

import subprocess
import time

import pytest

from lab import scenario_run
from lab.scenario_site import SCENARIO

testinfra_hosts = ["ansible://slurm_controllers"]

CONTROLLER, NODE = "ctl1", "gpu01"


def ssh(user: str, machine: str, command: str) -> subprocess.CompletedProcess[str]:
    return scenario_run.ssh(SCENARIO, user, machine, command)


@pytest.fixture(scope="module")
def alice() -> str:
    """Make a user on the controller and a node who can log in with the lab's key."""
    for machine in (CONTROLLER, NODE):
        made = ssh(
            "root",
            machine,
            "id alice >/dev/null 2>&1 || useradd --uid 2000 --create-home --shell /bin/bash alice;"
            "install -d -o alice -m 700 ~alice/.ssh && install -o alice -m 600 ~/.ssh/authorized_keys ~alice/.ssh/",
        )
        assert made.returncode == 0, made.stderr
    # slurmctld looks up the users of its accounts when it reads them; this one came later.
    assert ssh("root", CONTROLLER, "scontrol reconfigure && sleep 2").returncode == 0
    return "alice"


def test_without_a_job_nobody_gets_in(alice):
    refused = ssh(alice, NODE, "true")
    assert refused.returncode != 0
    assert "Access denied by pam_slurm_adopt" in refused.stderr


def test_with_a_job_the_login_is_in_the_job(host, alice):
    submit = (
        "sbatch --parsable --account=research --nodelist=gpu01 --gres=gpu:1 --mem=50 --chdir=/tmp --output=/dev/null"
    )
    job = host.check_output(f"runuser -u {alice} -- {submit} --wrap='sleep 300'").strip()
    try:
        for _ in range(30):
            if host.run(f"squeue --noheader --jobs={job} --format=%T").stdout.strip() == "RUNNING":
                break
            time.sleep(1)
        inside = ssh(alice, NODE, "cat /proc/self/cgroup; exec 3<>/dev/nvidia1")
        assert f"job_{job}" in inside.stdout
        # The login has the job's devices: GPU 0 was given, GPU 1 was not.
        assert "Operation not permitted" in inside.stderr
    finally:
        host.run(f"scancel {job}")


def test_root_gets_in_always():
    assert ssh("root", NODE, "echo in").stdout.strip() == "in"


def test_a_user_whom_the_site_names_gets_in_without_a_job():
    assert (
        ssh("root", NODE, "id keeper >/dev/null 2>&1 || useradd --create-home --shell /bin/bash keeper").returncode == 0
    )
    key = "install -d -o keeper -m 700 ~keeper/.ssh && install -o keeper -m 600 ~/.ssh/authorized_keys ~keeper/.ssh/"
    assert ssh("root", NODE, key).returncode == 0
    assert ssh("keeper", NODE, "id --user --name").stdout.strip() == "keeper"
