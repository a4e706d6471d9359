# SPDX-License-Identifier: GPL-3.0-or-later
"""Another driver and a reboot roll over eight nodes under 500 jobs; a driver that does not compile stops at its canary."""

from __future__ import annotations

import re
import shutil
import time
from functools import partial
from pathlib import Path

import pytest

from lab import scenario_run
from lab.paths import ROOT, ssh_config_of, state_of
from tests.kit import rolls
from tests.kit.reboots import SwitchOn, Watch
from tests.kit.rolls import Roll, disagreements

SCENARIO = "daytwo_driver"
ssh, states = partial(rolls.ssh, SCENARIO), partial(rolls.states_of, SCENARIO)
HERE = ROOT / "molecule" / SCENARIO
NODES = [f"gpu{number:02d}" for number in range(1, 9)]
NOTE = "/run/bedplate/reboot-wanted/node_tuning"
JOBS = 500
OLD, NEW, BROKEN = "580.65.06", "590.48.01", "595.71.05"
KEYS = state_of(f"molecule-{SCENARIO}") / "vendor/public/keys"


def roll(file: Path, *arguments: str) -> Roll:
    # Longer than any of the jobs, so that a batch has all its nodes.
    choices = ("-e", "roll_percent=37.5", "-e", "roll_patience=70")
    return Roll(SCENARIO, file, (*choices, *arguments))


def version(node: str) -> str:
    return ssh(node, "dpkg-query --show --showformat='${Version}' nvidia-kernel-open-dkms").partition("-")[0]


@pytest.fixture(scope="module")
def cluster_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scenario's cluster file and variables in a folder of its own, for locks."""
    path = tmp_path_factory.mktemp("site") / f"{SCENARIO}.bedplate.yml"
    shutil.copytree(HERE / "group_vars", path.parent / "group_vars")
    path.write_text((HERE / path.name).read_text().replace("keys/nvidia.asc", f"{KEYS}/nvidia.asc"))
    return path


def driver(file: Path, to: str) -> None:
    """State another driver, and write its lock."""
    file.write_text(re.sub(r'driver: "[^"]+"', f'driver: "{to}"', file.read_text()))
    done = scenario_run.run(SCENARIO, ROOT / "playbooks/gpu_resolve.yml", file, "-e", "gpu_resolve=update")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


def test_another_driver_and_a_reboot_under_many_jobs(cluster_file: Path):
    driver(cluster_file, NEW)
    assert {version(node) for node in NODES} == {OLD}
    for node in NODES:
        ssh(node, f"mkdir -p {NOTE.rpartition('/')[0]}; echo 'the running kernel lacks iommu=pt' > {NOTE}")
    job = 'sbatch --parsable --account=research --output=/dev/null --mem=10 --wrap="sleep $((5 + i * 7 % 56)); exit $((i % 7))"'
    ids = ssh("ctl1", f"for i in $(seq 0 {JOBS - 1}); do {job}; done").split()
    assert len(ids) == JOBS
    jobs = {job: f"{number % 7}:0" for number, job in enumerate(ids)}
    fan = "scontrol update nodename=gpu08 state=drain reason='fan is loud'"
    ssh("ctl1", "scontrol update nodename=gpu07 state=drain reason='for Ann'")
    command = ["ssh", "-F", str(ssh_config_of(f"molecule-{SCENARIO}")), "-l", "root", "ctl1"]
    whole = roll(cluster_file)
    whole.at.append((r"^TASK \[Resume ", lambda: print(ssh("ctl1", fan))))
    with SwitchOn(SCENARIO) as machines, Watch(command) as watch:
        status = whole.run()
        print(whole.text[-8000:])
        assert status == 0
        # Three of eight. Ann's node counts; another person takes a node in a second in which the limit may be reached.
        assert watch.most(without=["gpu08"]) <= 3
        assert disagreements(whole.report, states(), NODES) == []
        assert states()["gpu07"] == "drain for Ann"
        assert states()["gpu08"] == "drain fan is loud"
        ssh("ctl1", "scontrol update nodename=gpu[07-08] state=resume")
        rest = roll(cluster_file)
        assert rest.run() == 0, rest.text[-6000:]
        assert sorted(machines.started) == NODES
    assert {version(node) for node in NODES} == {NEW}
    assert states() == dict.fromkeys(NODES, "idle none") or set(states().values()) <= {
        "idle none",
        "mix none",
        "alloc none",
    }
    for _ in range(600):
        if not ssh("ctl1", "squeue --noheader --all").strip():
            break
        time.sleep(3)
    time.sleep(5)
    rows = ssh("ctl1", "sacct -D --allocations --noheader --parsable2 --format=JobIDRaw,ExitCode,Restarts").split()
    found = [row.split("|") for row in rows if row.split("|")[0] in jobs]
    assert sorted(row[0] for row in found) == sorted(jobs)
    assert {row[2] for row in found} == {"0"}
    assert {row[0]: row[1] for row in found} == jobs
    again = roll(cluster_file)
    assert again.run() == 0, again.text[-6000:]
    assert "Nothing is pending." in again.text


def test_a_driver_that_does_not_compile_stops_at_its_canary(cluster_file: Path):
    driver(cluster_file, BROKEN)
    stopped = roll(cluster_file)
    assert stopped.run() == 2
    assert disagreements(stopped.report, states(), NODES) == []
    failed = [name for name, node in stopped.report["nodes"].items() if node["outcome"] == "failed"]
    assert failed == ["gpu01"]
    assert stopped.report["stopped"].startswith("canary gpu01 failed")
    assert states()["gpu01"].startswith("drain bedplate:roll:")
    assert {version(node) for node in NODES} == {NEW}
    driver(cluster_file, NEW)
    back = roll(cluster_file)
    assert back.run() == 0, back.text[-6000:]
    assert states() == dict.fromkeys(NODES, "idle none")
