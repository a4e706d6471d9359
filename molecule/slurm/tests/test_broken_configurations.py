"""Configurations that fail, under running jobs: afterwards the old one is on disk and in force, and no job is hurt.

`make full-slurm-refused` runs all of broken_configurations.yml, `make test` those that are `quick`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lab.paths import state_of
from lab.scenario_site import SCENARIO, play, ssh
from tests.kit.broken import ROWS, configuration
from tests.kit.judge import judge
from tests.kit.workload import KINDS, Workload

# One job on each node: a rack of the scenario has two cores a node.
JOBS = [kind for kind in KINDS if kind.name in ("gpu", "gpu-no-requeue")]
# Everything of the controller that a change of the configuration touches, with owner and mode; and what each node was given.
STATE = (
    "find /etc/slurm /etc/default /etc/munge /var/lib/bedplate/take_back -printf '%p %y %m %u %g\\n' | sort; "
    "find /etc/slurm /etc/default /etc/munge -type f -print0 | sort -z | xargs -0 sha256sum; "
    "python3 -c 'import json; print(json.load(open(\"/var/lib/bedplate/files.json\")))'"
)
GIVEN = "sha256sum /run/slurm/conf/*; find /etc/slurm /etc/munge -type f -print0 | sort -z | xargs -0 sha256sum"


def state() -> dict[str, str]:
    return {"ctl1": ssh("ctl1", STATE).stdout, **{node: ssh(node, GIVEN).stdout for node in ("gpu01", "gpu02")}}


@pytest.fixture
def secrets(request: pytest.FixtureRequest) -> Iterator[None]:
    """Put the case's secrets into the scenario's directory, and the old ones back."""
    directory = state_of(f"molecule-{SCENARIO}") / "secrets"
    new = request.getfixturevalue("case").get("secrets", {})
    files = [path for path in directory.iterdir() if path.is_file()] if new else []
    old = {path: (path.read_bytes(), path.stat().st_mode) for path in files}
    for name, content in new.items():
        (directory / name).chmod(0o600)
        (directory / name).write_bytes(os.urandom(content) if isinstance(content, int) else content.encode())
    yield
    for path in [one for one in directory.iterdir() if new and one.is_file()]:
        path.unlink()
    for path, (content, mode) in old.items():
        path.touch(mode=0o600)
        path.write_bytes(content)
        path.chmod(mode)


@pytest.fixture(scope="module")
def jobs() -> Iterator[Any]:
    workload = Workload(ssh, "ctl1", ["gpu01", "gpu02"], kinds=JOBS)
    yield workload, workload.start()
    # Scripts that were refused lie on the nodes, named by nothing, until the next run that succeeds.
    workload.stop()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            one, marks=() if one.get("quick") else pytest.mark.full_in("slurm"), id=one["reason"].replace(" ", "-")
        )
        for one in ROWS
    ],
)
def test_what_is_refused_is_neither_in_force_nor_on_disk(case, jobs, secrets, tmp_path):
    workload, before = jobs
    path = configuration(case, tmp_path)
    for machine, command in case.get("before", {}).items():
        assert ssh(machine, command).returncode == 0
    was = state()
    pid = ssh("ctl1", "systemctl show slurmctld --property=MainPID").stdout
    try:
        arguments = [one.replace("{directory}", str(tmp_path)) for one in case.get("arguments", [])]
        done = play("scheduler.yml", path, *arguments)
        output = " ".join((done.stdout + done.stderr).split())
        assert done.returncode != 0, output[-3000:]
        assert re.search(case["says"], output), output[-6000:]
        assert state() == was
        assert ssh("ctl1", "scontrol ping").returncode == 0
        if case["refused"] != "start":
            assert ssh("ctl1", "systemctl show slurmctld --property=MainPID").stdout == pid
        restarted = ssh("ctl1", "systemctl restart slurmctld && scontrol ping")
        assert restarted.returncode == 0, restarted.stdout + restarted.stderr
    finally:
        for machine, command in case.get("after", {}).items():
            ssh(machine, command)
    assert judge(before, workload.observe()) == []
